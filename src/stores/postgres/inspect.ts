/** The doctor's questions. Reads only, and what any role may read. */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Finding } from '../../store.js'
import { claimsFinding, mebibytes } from '../findings.js'
import type { Values, Work } from '../../transactions/transaction.js'
import type { Database } from './database.js'
import { quoteName, type Text } from './dialect.js'
import { installed, INDEXES, SCHEMA_VERSION, type Installed } from './schema.js'
import type { Watcher } from './watch.js'

/** From where on something is worth a finding. Tests have their own. */
const LIMITS = {
  /** How long a transaction may hold its snapshot. Seconds. */
  snapshotS: 60,
  /** The same where only the age in transactions is known. */
  snapshotAge: 100_000,
  deadRows: 100_000,
  indexBytes: 64 * 1024 * 1024,
}
type Limits = typeof LIMITS

/** An index entry of jobs_claimable has about this many bytes. */
const CLAIMABLE_ENTRY_BYTES = 120
/** To get a connection, and to find out whether notifications come through it. Milliseconds. */
const LISTENS_WITHIN_MS = 5_000

export async function inspect(database: Database, watcher: Watcher, limits: Partial<Limits> = {}): Promise<Finding[]> {
  const { text, schema } = database.dialect
  const limit = { ...LIMITS, ...limits }
  const work = function* (): Work<Finding[]> {
    const state = yield* installed(text, schema)
    const findings = [schemaFinding(state.version, state.worksWith)]
    if (state.version === 0 || state.worksWith > SCHEMA_VERSION) return findings
    findings.push(...indexFindings(text, state))
    findings.push(...(yield* settings(text)))
    findings.push(...(yield* snapshots(text, limit)))
    findings.push(...(yield* deadRows(text, schema, limit)))
    findings.push(...(yield* bloat(text, limit)))
    findings.push(...(yield* leftovers(text)))
    return findings
  }
  const findings = await database.run(work, { much: true })
  return findings.length === 1 ? findings : [...findings, await hearing(database, watcher)]
}

/** How changes are heard is known only while somebody watches. */
async function hearing(database: Database, watcher: Watcher): Promise<Finding> {
  const only = (await database.size()) === 1
  const stop = watcher.add(() => {})
  const until = performance.now() + LISTENS_WITHIN_MS
  while (watcher.mode === 'away' && performance.now() < until) await sleep(20)
  const { mode } = watcher
  stop()
  if (mode === 'listening') return { level: 'ok', code: 'listen', message: 'changes are told at once, by LISTEN and NOTIFY' }
  const why =
    mode === 'deaf' && !only
      ? 'notifications do not get through, as behind a pooler in transaction mode: changes are polled for; give workers a direct connection, or one in session mode, to wake at once'
      : 'there is no connection to hear notifications on: changes are polled for; let the pool have one more'
  return { level: 'warning', code: 'listen', message: why }
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

function indexFindings(text: Text, { missingIndexes, invalidIndexes }: Installed): Finding[] {
  const findings: Finding[] = [
    ...missingIndexes.map((name) => ({
      level: 'error' as const,
      code: 'index_missing',
      message: `the index ${name} is missing: run \`jobtable migrate\`, which locks the table while it builds it, or ${concurrently(text(INDEXES[name]!))}`,
    })),
    ...invalidIndexes.map((name) => ({
      level: 'error' as const,
      code: 'index_invalid',
      message: `the index ${name} is not valid; unless it is being built at this moment, REINDEX INDEX CONCURRENTLY ${text('{schema}')}.${name}`,
    })),
  ]
  return findings.length > 0 ? findings : [{ level: 'ok', code: 'indexes', message: 'every index is there and valid' }]
}

function concurrently(create: string): string {
  return create.replace('INDEX', 'INDEX CONCURRENTLY')
}

function* settings(text: Text): Work<Finding[]> {
  const [row] = yield {
    sql: text(`SELECT current_setting('server_version_num')::int, current_setting('server_version'),
      current_setting('synchronous_commit'), current_setting('fsync'), current_setting('autovacuum'), pg_is_in_recovery(),
      (SELECT string_agg(relname, ' and ') FROM pg_class WHERE relnamespace = to_regnamespace($1) AND relkind = 'r'
        AND relname IN ('jobs', 'job_events', 'job_workers', 'job_steps', 'job_streams')
        AND reloptions && '{autovacuum_enabled=off,autovacuum_enabled=false,autovacuum_enabled=no,autovacuum_enabled=0}')`),
    params: [text('{schema}')],
  }
  const [number, version, synchronousCommit, fsync, autovacuum, inRecovery, notVacuumed] = row as [
    number,
    string,
    string,
    string,
    string,
    boolean,
    string | null,
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
  } else if (notVacuumed !== null) {
    findings.push({
      level: 'error',
      code: 'autovacuum',
      message: `autovacuum is off for ${notVacuumed}: dead rows pile up and the table grows without end; ALTER TABLE ... RESET (autovacuum_enabled)`,
    })
  }
  return findings
}

/**
 * Whatever holds a snapshot, or is a transaction that has written, keeps every row that was dead since from being removed: in the
 * tables of its own database, and as a standby's feedback in those of all. What vacuums does not count. A standby's queries show
 * only how many transactions ago they began, and a replication slot may outlive its user.
 */
const SNAPSHOTS = `
SELECT * FROM (
  SELECT format('process %s (%s, %s)', pid, coalesce(nullif(application_name, ''), backend_type), coalesce(state, 'unknown')),
    date_part('epoch', clock_timestamp() - xact_start), NULL::int,
    format('end its transaction, or SELECT pg_terminate_backend(%s)', pid)
  FROM pg_stat_activity
  WHERE datname = current_database() AND pid <> pg_backend_pid() AND (backend_xmin IS NOT NULL OR backend_xid IS NOT NULL)
    AND backend_type <> 'autovacuum worker' AND pid NOT IN (SELECT pid FROM pg_stat_progress_vacuum)
    AND xact_start <= clock_timestamp() - make_interval(secs => $1)
  UNION ALL
  SELECT format('the prepared transaction %L', gid), date_part('epoch', clock_timestamp() - prepared), NULL,
    format('COMMIT PREPARED %L, or ROLLBACK PREPARED %L', gid, gid)
  FROM pg_prepared_xacts WHERE database = current_database() AND prepared <= clock_timestamp() - make_interval(secs => $1)
  UNION ALL
  SELECT format('a standby (process %s, %s)', pid, application_name), NULL, age(backend_xmin),
    'end the long query there, or turn its hot_standby_feedback off'
  FROM pg_stat_activity WHERE backend_type = 'walsender' AND age(backend_xmin) > $2::int
  UNION ALL
  SELECT format('the %s replication slot %s', CASE WHEN active THEN 'active' ELSE 'unused' END, slot_name), NULL, age(xmin),
    CASE WHEN active THEN 'end the long query on its standby, or turn hot_standby_feedback off there'
      ELSE format('drop it if nobody needs it: SELECT pg_drop_replication_slot(%L)', slot_name) END
  FROM pg_replication_slots WHERE age(xmin) > CASE WHEN active THEN $2::int ELSE 0 END
) AS holder (name, seconds, age, todo)
ORDER BY seconds DESC NULLS LAST, age DESC LIMIT 5`

/** The sessions of other roles say nothing to a role that may not read statistics. */
const HIDDEN = `
SELECT count(*)::int, current_user::text FROM pg_stat_activity
WHERE datname = current_database() AND query = '<insufficient privilege>'`

function* snapshots(text: Text, { snapshotS, snapshotAge }: Limits): Work<Finding[]> {
  const rows = yield { sql: text(SNAPSHOTS), params: [snapshotS, snapshotAge] }
  const findings = rows.map(([name, seconds, age, todo]): Finding => {
    const since = seconds === null ? `of ${String(age)} transactions ago` : `for ${Math.round(seconds as number)} s`
    const message = `${String(name)} holds a snapshot ${since}, so that no row that died since can be removed: ${String(todo)}`
    return { level: 'warning', code: 'old_snapshot', message }
  })
  if (findings.length > 0) return findings
  const [[hidden, role]] = (yield { sql: text(HIDDEN), params: [] }) as unknown as [[number, string]]
  const message =
    hidden === 0
      ? 'nothing holds an old snapshot'
      : `nothing that this role sees holds an old snapshot; ${hidden} ${hidden === 1 ? 'session is' : 'sessions are'} hidden from it: GRANT pg_read_all_stats TO ${quoteName(role)}`
  return [{ level: 'ok', code: 'snapshots', message }]
}

function* deadRows(text: Text, schema: string, { deadRows: most }: Limits): Work<Finding[]> {
  const rows = yield {
    sql: text(`SELECT relname::text, n_live_tup::float8, n_dead_tup::float8, last_autovacuum IS NULL AND last_vacuum IS NULL
      FROM pg_stat_user_tables WHERE schemaname = $1 AND relname IN ('jobs', 'job_events', 'job_workers', 'job_steps', 'job_streams') ORDER BY relname`),
    params: [schema],
  }
  const bad = (rows as [string, number, number, boolean][]).filter(([, live, dead]) => dead > most && dead > live / 2)
  if (bad.length === 0) return [{ level: 'ok', code: 'dead_rows', message: 'few dead rows' }]
  return bad.map(([name, live, dead, never]) => ({
    level: 'warning',
    code: 'dead_rows',
    message: `${name} has ${dead} dead rows beside ${live} live ones${never ? ' and was never vacuumed' : ''}: end what holds an old snapshot, then run VACUUM ${text('{schema}')}.${name}`,
  }))
}

/** The index that claims read holds waiting jobs only: when it is much larger than they are, it is made of what is dead or empty. */
function* bloat(text: Text, { indexBytes }: Limits): Work<Finding[]> {
  const rows = yield {
    sql: text(`SELECT pg_relation_size(to_regclass($1))::float8,
      (SELECT count(*) FROM {jobs} WHERE status IN ('pending', 'retrying'))::float8, pg_total_relation_size(to_regclass($2))::float8`),
    params: [text('{schema}.jobs_claimable'), text('{jobs}')],
  }
  const [bytes, waiting, total] = rows[0] as [number, number, number]
  if (bytes > indexBytes && bytes > 4 * waiting * CLAIMABLE_ENTRY_BYTES) {
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
  return [claimsFinding(rows[0]![0] as number)]
}
