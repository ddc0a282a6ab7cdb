/** The doctor's questions. Reads only. */
import { existsSync, statSync } from 'node:fs'
import type { Finding } from '../../store.js'
import { claimsFinding, mebibytes } from '../findings.js'
import { walBytes, type Database, type Sql } from './database.js'
import { INDEXES, SCHEMA_VERSION, installedVersion, missingIndexes } from './schema.js'

/** Bigger files are not checked page by page: it would stop the process for seconds. */
const CHECKED_UP_TO_BYTES = 256 * 1024 * 1024
const BIG_WAL_BYTES = 64 * 1024 * 1024

export async function inspect(database: Database): Promise<Finding[]> {
  // Opening would create it.
  if (database.onFile && !existsSync(database.path)) return [missing(database.path)]
  return database.readUnchecked((sql) => {
    const version = installedVersion(sql)
    if (version !== SCHEMA_VERSION) return [...schema(version), ...settings(database, sql)]
    return [...schema(version), ...indexes(sql), ...settings(database, sql), ...size(database, sql), ...leftovers(sql)]
  })
}

function missing(path: string): Finding {
  return {
    level: 'error',
    code: 'database_missing',
    message: `there is no file ${path}: look whether this is the right name, seen from ${process.cwd()}, or make it with \`jobtable migrate\``,
  }
}

function schema(version: number): Finding[] {
  if (version === SCHEMA_VERSION) return [{ level: 'ok', code: 'schema', message: `the tables are at version ${version}` }]
  if (version > SCHEMA_VERSION) {
    return [
      {
        level: 'error',
        code: 'schema_too_new',
        message: `the tables are at version ${version} and this jobtable knows ${SCHEMA_VERSION}: update jobtable here`,
      },
    ]
  }
  const state = version === 0 ? 'there are no jobtable tables yet' : `the tables are at version ${version}, not ${SCHEMA_VERSION}`
  return [{ level: 'error', code: 'schema_missing', message: `${state}: run \`jobtable migrate\`` }]
}

function indexes(sql: Sql): Finding[] {
  const missing = missingIndexes(sql)
  if (missing.length === 0) return [{ level: 'ok', code: 'indexes', message: 'every index is there' }]
  return missing.map((name) => ({
    level: 'error',
    code: 'index_missing',
    message: `the index ${name} is missing: run \`jobtable migrate\`, which creates it again, or ${INDEXES[name]}`,
  }))
}

function settings(database: Database, sql: Sql): Finding[] {
  const findings: Finding[] = []
  const mode = String(sql.all('PRAGMA journal_mode')[0]?.[0])
  if (database.onFile && mode !== 'wal') {
    findings.push({
      level: 'warning',
      code: 'journal_mode',
      message: `the journal mode is ${mode}, not wal: readers and writers block each other; put the file on a local file system`,
    })
  }
  findings.push(
    database.synchronous === 'full'
      ? { level: 'ok', code: 'synchronous', message: 'synchronous is full: what was acknowledged survives a power cut' }
      : {
          level: 'warning',
          code: 'synchronous',
          message:
            'synchronous is normal: a power cut may take back the last jobs that were acknowledged; a crash of the process does not',
        },
  )
  return findings
}

function size(database: Database, sql: Sql): Finding[] {
  if (!database.onFile) return []
  const findings: Finding[] = []
  const wal = walBytes(database.path)
  findings.push(
    wal > BIG_WAL_BYTES
      ? {
          level: 'warning',
          code: 'wal_size',
          message: `the write-ahead log has ${mebibytes(wal)}: some process keeps a read transaction open; end it, and the log is cut at the next write`,
        }
      : { level: 'ok', code: 'wal_size', message: `the write-ahead log has ${mebibytes(wal)}` },
  )
  const bytes = statSync(database.path).size
  if (bytes > CHECKED_UP_TO_BYTES) {
    findings.push({
      level: 'ok',
      code: 'integrity',
      message: `not checked, since the file has ${mebibytes(bytes)}: run \`sqlite3 FILE "PRAGMA quick_check"\` when the system is quiet`,
    })
    return findings
  }
  const problem = String(sql.all('PRAGMA quick_check(1)')[0]?.[0])
  findings.push(
    problem === 'ok'
      ? { level: 'ok', code: 'integrity', message: `the file is sound (${mebibytes(bytes)})` }
      : {
          level: 'error',
          code: 'integrity',
          message: `the file is damaged (${problem}): stop all processes, keep a copy, restore a backup or try \`sqlite3 FILE .recover\``,
        },
  )
  return findings
}

function leftovers(sql: Sql): Finding[] {
  const found = sql.all(
    // Walks jobs_running.
    `SELECT count(*) FROM jobs WHERE status = 'running' AND NOT EXISTS (
       SELECT 1 FROM job_workers WHERE job_workers.id = jobs.locked_by AND job_workers.lease_until > ?)`,
    sql.now,
  )
  return [claimsFinding(found[0]![0] as number)]
}
