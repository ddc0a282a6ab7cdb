/** The doctor's questions. Reads only, and what any role may read. */
import type { Finding } from '../../store.js'
import type { Values, Work } from '../../transactions/transaction.js'
import type { Database } from './database.js'
import type { Text } from './dialect.js'
import { installed, INDEXES, SCHEMA_VERSION } from './schema.js'
import type { Watcher } from './watch.js'

const OLD_SNAPSHOT_S = 60
const MANY_DEAD = 100_000
/** An index entry of jobs_claimable has about this many bytes. */
const CLAIMABLE_ENTRY_BYTES = 120
const BLOATED_BYTES = 64 * 1024 * 1024

export async function inspect(database: Database, watcher: Watcher): Promise<Finding[]> {
  const { text, schema } = database.dialect
  const work = function* (): Work<Finding[]> {
    const state = yield* installed(text, schema)
    const findings = [schemaFinding(state.version, state.worksWith)]
    if (state.version === 0 || state.worksWith > SCHEMA_VERSION) return findings
    findings.push(...indexFindings(text, state.missingIndexes))
    findings.push(...(yield* settings(text)))
    findings.push(...(yield* snapshots(text)))
    findings.push(...(yield* deadRows(text, schema)))
    findings.push(...(yield* bloat(text)))
    findings.push(...(yield* leftovers(text)))
    return findings
  }
  const findings = await database.run(work, { much: true })
  if (watcher.mode === 'deaf') {
    findings.push({
      level: 'warning',
      code: 'listen',
      message:
        'notifications do not get through, as behind a pooler in transaction mode: changes are polled for; give workers a direct connection to wake at once',
    })
  }
  return findings
}

function schemaFinding(version: number, worksWith: number): Finding {
  if (version === 0) {
    return { level: 'error', code: 'schema_missing', message: 'there are no jobtable tables yet: run `jobtable migrate`' }
  }
  if (worksWith > SCHEMA_VERSION) {
    return {
      level: 'error',
      code: 'schema_too_new',
      message: `the tables are at version ${version} and this jobtable knows ${SCHEMA_VERSION}: update jobtable here`,
    }
  }
  if (version < SCHEMA_VERSION) {
    return {
      level: 'error',
      code: 'schema_missing',
      message: `the tables are at version ${version}, not ${SCHEMA_VERSION}: run \`jobtable migrate\``,
    }
  }
  return { level: 'ok', code: 'schema', message: `the tables are at version ${version}` }
}

function indexFindings(text: Text, missing: readonly string[]): Finding[] {
  if (missing.length === 0) return [{ level: 'ok', code: 'indexes', message: 'every index is there and valid' }]
  return missing.map((name) => ({
    level: 'error',
    code: 'index_missing',
    message: `the index ${name} is missing or invalid: drop what is left of it and run \`jobtable migrate\`, which locks the table while it builds it, or ${text(INDEXES[name]!).replace('INDEX', 'INDEX CONCURRENTLY')}`,
  }))
}

function* settings(text: Text): Work<Finding[]> {
  const [row] = yield {
    sql: text(`SELECT current_setting('server_version_num')::int, current_setting('server_version'),
      current_setting('synchronous_commit'), current_setting('fsync'), current_setting('autovacuum'), pg_is_in_recovery()`),
    params: [],
  }
  const [number, version, synchronousCommit, fsync, autovacuum, inRecovery] = row as [
    number,
    string,
    string,
    string,
    string,
    boolean,
  ]
  const findings: Finding[] = [{ level: 'ok', code: 'server', message: `PostgreSQL ${version}` }]
  if (number < 150_000)
    findings.push({ level: 'warning', code: 'server_old', message: `PostgreSQL ${version} is not tested: update to 15 or later` })
  if (inRecovery)
    findings.push({
      level: 'error',
      code: 'standby',
      message: 'this server is a standby and takes no writes: connect to the primary',
    })
  const survives = fsync === 'on' && synchronousCommit !== 'off'
  findings.push(
    survives
      ? { level: 'ok', code: 'synchronous', message: 'what was acknowledged survives a crash of the server' }
      : {
          level: 'warning',
          code: 'synchronous',
          message: `fsync is ${fsync} and synchronous_commit is ${synchronousCommit}: a crash of the server may take back jobs that were acknowledged`,
        },
  )
  if (autovacuum !== 'on') {
    findings.push({
      level: 'error',
      code: 'autovacuum',
      message: 'autovacuum is off: dead rows pile up and the table grows without end; turn it on',
    })
  }
  return findings
}

/** Whatever holds a snapshot keeps every row that was dead since from being removed, in all tables. */
function* snapshots(text: Text): Work<Finding[]> {
  const rows = yield {
    sql: text(`SELECT * FROM (
        SELECT format('process %s (%s, %s)', pid, coalesce(nullif(application_name, ''), backend_type), coalesce(state, 'unknown')),
          date_part('epoch', now() - coalesce(xact_start, query_start, backend_start)) AS seconds,
          format('end it, or SELECT pg_terminate_backend(%s)', pid)
        FROM pg_stat_activity WHERE backend_xmin IS NOT NULL AND pid <> pg_backend_pid()
        UNION ALL
        SELECT format('the prepared transaction %s', gid), date_part('epoch', now() - prepared), format('ROLLBACK PREPARED %L', gid)
        FROM pg_prepared_xacts
        UNION ALL
        SELECT format('the replication slot %s (%s)', slot_name, CASE WHEN active THEN 'active' ELSE 'inactive' END),
          CASE WHEN active THEN 0 ELSE NULL END, format('drop it if nobody needs it: SELECT pg_drop_replication_slot(%L)', slot_name)
        FROM pg_replication_slots WHERE xmin IS NOT NULL OR catalog_xmin IS NOT NULL
      ) AS holder (name, seconds, todo)
      WHERE seconds IS NULL OR seconds > ${OLD_SNAPSHOT_S} ORDER BY seconds DESC NULLS FIRST LIMIT 5`),
    params: [],
  }
  if (rows.length === 0) return [{ level: 'ok', code: 'snapshots', message: 'nothing holds an old snapshot' }]
  return rows.map(([name, seconds, todo]) => ({
    level: 'warning',
    code: 'old_snapshot',
    message: `${String(name)} holds a snapshot${seconds === null ? '' : ` for ${Math.round(seconds as number)} s`}, so that no dead row can be removed: ${String(todo)}`,
  }))
}

function* deadRows(text: Text, schema: string): Work<Finding[]> {
  const rows = yield {
    sql: text(`SELECT relname::text, n_live_tup::float8, n_dead_tup::float8, last_autovacuum IS NULL AND last_vacuum IS NULL
      FROM pg_stat_user_tables WHERE schemaname = $1 AND relname IN ('jobs', 'job_events', 'job_workers') ORDER BY relname`),
    params: [schema],
  }
  const bad = (rows as [string, number, number, boolean][]).filter(([, live, dead]) => dead > MANY_DEAD && dead > live / 2)
  if (bad.length === 0) return [{ level: 'ok', code: 'dead_rows', message: 'few dead rows' }]
  return bad.map(([name, live, dead, never]) => ({
    level: 'warning',
    code: 'dead_rows',
    message: `${name} has ${dead} dead rows beside ${live} live ones${never ? ' and was never vacuumed' : ''}: end what holds an old snapshot, then run VACUUM ${text(name === 'jobs' ? '{jobs}' : name === 'job_events' ? '{events}' : '{workers}')}`,
  }))
}

/** The index that claims read holds waiting jobs only: when it is much larger than they are, it is made of what is dead or empty. */
function* bloat(text: Text): Work<Finding[]> {
  const rows = yield {
    sql: text(`SELECT pg_relation_size(to_regclass($1))::float8,
      (SELECT count(*) FROM {jobs} WHERE status IN ('pending', 'retrying'))::float8, pg_total_relation_size(to_regclass($2))::float8`),
    params: [text('{schema}.jobs_claimable'), text('{jobs}')],
  }
  const [bytes, waiting, total] = rows[0] as [number, number, number]
  if (bytes > BLOATED_BYTES && bytes > 4 * waiting * CLAIMABLE_ENTRY_BYTES) {
    return [
      {
        level: 'warning',
        code: 'index_bloat',
        message: `jobs_claimable has ${mebibytes(bytes)} for ${waiting} waiting jobs: run REINDEX INDEX CONCURRENTLY ${text('{schema}.jobs_claimable')}`,
      },
    ]
  }
  return [
    { level: 'ok', code: 'size', message: `jobs has ${mebibytes(total)} with its indexes, jobs_claimable ${mebibytes(bytes)}` },
  ]
}

function* leftovers(text: Text): Work<Finding[]> {
  const rows: readonly Values[] = yield {
    // Walks jobs_running.
    sql: text(`SELECT count(*)::float8 FROM {jobs} AS jobs WHERE status = 'running' AND NOT EXISTS (
      SELECT 1 FROM {workers} AS workers WHERE workers.id = jobs.locked_by AND workers.lease_until > {now})`),
    params: [],
  }
  const lost = rows[0]![0] as number
  if (lost === 0) return [{ level: 'ok', code: 'claims', message: 'every running job has a living worker' }]
  return [
    {
      level: 'warning',
      code: 'claims_without_worker',
      message: `${lost} running ${lost === 1 ? 'job has' : 'jobs have'} no living worker: a worker that knows their types takes them back`,
    },
  ]
}

function mebibytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`
}
