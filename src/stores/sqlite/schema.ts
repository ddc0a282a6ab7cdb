/**
 * The tables, for whoever opens the file: SQLite keeps the comments. Times are milliseconds since 1970 UTC, JSON is text.
 *
 * A migration runs in one BEGIN IMMEDIATE transaction together with the check whether it is needed, so that any number of
 * processes may start at once and any of them may die at any moment: either all of it has happened, or nothing.
 *
 * In what is evaluated for every row written, lists of more than two values are written with OR: SQLite builds a table in
 * memory for a longer IN, each time, which took a quarter off the speed of inserts and drains.
 */
import { JobtableError } from '../../errors.js'
import type { Database, Sql } from './database.js'
import { runHere, type SqliteWork, type Step } from './work.js'

const VERSION_1 = `
CREATE TABLE jobs (
  -- Unique, time-ordered and URL-safe when jobtable makes it.
  id TEXT NOT NULL PRIMARY KEY,
  -- What to do: the name that a handler is registered under.
  type TEXT NOT NULL,
  -- The handler's input, as JSON.
  payload TEXT NOT NULL DEFAULT 'null' CHECK (json_valid(payload)),
  -- pending and retrying wait for run_after; running is held by a worker; the other three are final.
  status TEXT NOT NULL DEFAULT 'pending' CHECK (status = 'pending' OR status = 'running' OR status = 'retrying'
    OR status = 'succeeded' OR status = 'failed' OR status = 'canceled'),
  -- Runs started, the present one included; waits and hand-backs are taken off again.
  attempts INTEGER NOT NULL DEFAULT 0 CHECK (attempts BETWEEN 0 AND 2147483647),
  -- Not started before this time.
  run_after INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
    CHECK (run_after BETWEEN 0 AND 8640000000000000),
  -- When the present claim was made; empty unless running.
  locked_at INTEGER CHECK (locked_at BETWEEN 0 AND 8640000000000000),
  -- The newest error's message; all of them are in errors.
  last_error TEXT,
  created_at INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
    CHECK (created_at BETWEEN 0 AND 8640000000000000),
  updated_at INTEGER NOT NULL DEFAULT (CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER))
    CHECK (updated_at BETWEEN 0 AND 8640000000000000),

  -- Workers listen to queues.
  queue TEXT NOT NULL DEFAULT 'default',
  -- Lower runs first.
  priority INTEGER NOT NULL DEFAULT 0 CHECK (priority BETWEEN -2147483648 AND 2147483647),
  -- The most runs that may be started; empty until the first one has ended: what the type says.
  max_attempts INTEGER CHECK (max_attempts BETWEEN 1 AND 2147483647),
  -- Waits imposed by rate limits in a row, which spend no attempt.
  waits INTEGER NOT NULL DEFAULT 0 CHECK (waits BETWEEN 0 AND 2147483647),
  -- The worker that holds the claim (job_workers.id); empty unless running.
  locked_by TEXT,
  -- Names the claim: only who knows it may write to a running row. Empty unless running.
  claim_token TEXT,
  -- When somebody first asked for the cancellation of the job while it ran.
  cancel_requested_at INTEGER CHECK (cancel_requested_at BETWEEN 0 AND 8640000000000000),
  -- Two jobs of one type with the same key are the same piece of work.
  idempotency_key TEXT,
  -- A digest of the payload, to notice the same key with another payload.
  fingerprint TEXT,
  -- The job that took over this one's key.
  superseded_by TEXT,
  -- What the end user sees of a running job, such as 'uploading'.
  stage TEXT,
  -- From 0 to 1.
  progress REAL CHECK (progress BETWEEN 0 AND 1),
  -- What the handler returned, as JSON.
  result TEXT CHECK (result IS NULL OR json_valid(result)),
  -- One JSON object for each attempt that did not succeed, and for each repair; the newest 20.
  errors TEXT NOT NULL DEFAULT '[]' CHECK (json_valid(errors) AND json_type(errors) = 'array'),
  -- Why it failed, in words for the end user.
  user_message TEXT,
  -- A W3C traceparent, carried from the producer to the handler.
  trace_context TEXT,
  -- When it became succeeded, failed or canceled.
  finished_at INTEGER CHECK (finished_at BETWEEN 0 AND 8640000000000000),
  -- Not deleted before so many milliseconds after its end, whatever the retention.
  keep_for INTEGER NOT NULL DEFAULT 0 CHECK (keep_for BETWEEN 0 AND 8640000000000000)
) STRICT;

-- A job's timeline, oldest first by seq.
CREATE TABLE job_events (
  seq INTEGER PRIMARY KEY,
  job_id TEXT NOT NULL,
  at INTEGER NOT NULL,
  -- stage, log, file, canceled, cancel_requested, repaired, handed_back, resolved
  kind TEXT NOT NULL,
  -- The attempt that it belongs to, from 1.
  attempt INTEGER NOT NULL,
  message TEXT NOT NULL,
  -- More about it, as JSON.
  data TEXT CHECK (data IS NULL OR json_valid(data))
) STRICT;

-- Workers that are alive. A running job whose locked_by has no row here, or one past lease_until, is run again.
CREATE TABLE job_workers (
  id TEXT NOT NULL PRIMARY KEY,
  host TEXT NOT NULL,
  pid INTEGER NOT NULL,
  -- Tells others on the same machine whether its process is gone; empty where nobody could tell.
  process TEXT,
  -- JSON arrays of names.
  queues TEXT NOT NULL CHECK (json_valid(queues)),
  types TEXT NOT NULL CHECK (json_valid(types)),
  -- Jobs it runs at once.
  concurrency INTEGER NOT NULL,
  started_at INTEGER NOT NULL,
  heartbeat_at INTEGER NOT NULL,
  lease_until INTEGER NOT NULL
) STRICT;
`

const VERSION_2 = `
-- What is remembered of a job's steps, effects and checkpoints, so that its next attempt does not do them again.
CREATE TABLE job_steps (
  job_id TEXT NOT NULL,
  -- Unique within the job: what the handler calls it.
  name TEXT NOT NULL,
  -- step, effect, checkpoint
  kind TEXT NOT NULL CHECK (kind = 'step' OR kind = 'effect' OR kind = 'checkpoint'),
  -- started: an effect that may or may not have happened. done: it has. refused: it certainly has not, and may begin anew.
  state TEXT NOT NULL CHECK (state = 'started' OR state = 'done' OR state = 'refused'),
  -- The attempt that wrote it last, from 1; 0 where a person had the last word.
  attempt INTEGER NOT NULL,
  -- The request of an effect, as JSON, frozen before the call.
  request TEXT CHECK (request IS NULL OR json_valid(request)),
  -- What the provider of an effect knows it by; after a refusal for good, what it will know the next call by.
  provider_key TEXT,
  -- What it gave, as JSON.
  value TEXT CHECK (value IS NULL OR json_valid(value)),
  started_at INTEGER NOT NULL,
  -- When it became done or refused.
  ended_at INTEGER,
  PRIMARY KEY (job_id, name)
) STRICT;
`

const VERSION_3 = `
ALTER TABLE jobs ADD COLUMN rev
  -- One more at every write to the row and to its streams, whatever the clocks do.
  INTEGER NOT NULL DEFAULT 0 CHECK (rev >= 0);

-- Texts that handlers write while they run, in pieces. Offsets and lengths count UTF-16 code units.
CREATE TABLE job_streams (
  job_id TEXT NOT NULL,
  -- Unique within the job: what the handler calls it.
  name TEXT NOT NULL,
  -- The attempt that wrote it, or a greater number: always greater than that of the text that it replaced.
  attempt INTEGER NOT NULL CHECK (attempt >= 1),
  -- Where the piece begins.
  "offset" INTEGER NOT NULL CHECK ("offset" >= 0),
  length INTEGER NOT NULL CHECK (length >= 0),
  text TEXT NOT NULL,
  -- done: nothing comes after this piece.
  state TEXT NOT NULL CHECK (state = 'open' OR state = 'done'),
  -- The claim that wrote it.
  claim_token TEXT NOT NULL,
  at INTEGER NOT NULL,
  PRIMARY KEY (job_id, name, attempt, "offset")
) STRICT;
`

/** A trigger, where a foreign key would hold only for clients that switch them on. */
const VERSION_4 = `
-- What belongs to a job goes with it, whoever deletes it: another one may come under its id.
CREATE TRIGGER jobtable_deleted AFTER DELETE ON jobs BEGIN
  DELETE FROM job_events WHERE job_id = OLD.id;
  DELETE FROM job_steps WHERE job_id = OLD.id;
  DELETE FROM job_streams WHERE job_id = OLD.id;
END;
`

const MIGRATIONS: readonly string[] = [VERSION_1, VERSION_2, VERSION_3, VERSION_4]

export const SCHEMA_VERSION = MIGRATIONS.length

/** Every index and what relies on it. `migrate` creates again what is missing. */
export const INDEXES: Readonly<Record<string, string>> = {
  // Claims, and what is due next. The rowid, which every index ends with, breaks ties in the order of insertion.
  jobs_claimable: `CREATE INDEX jobs_claimable ON jobs (queue, priority, run_after) WHERE status IN ('pending', 'retrying')`,
  // Heartbeats and the search for lost claims.
  jobs_running: `CREATE INDEX jobs_running ON jobs (locked_by) WHERE status = 'running'`,
  // One job per type and key; the key comes first so that a search by key alone finds it.
  jobs_key: `CREATE UNIQUE INDEX jobs_key ON jobs (idempotency_key, type) WHERE idempotency_key IS NOT NULL AND superseded_by IS NULL`,
  // The key's earlier holders, for a search by key. Holds only superseded rows.
  jobs_superseded: `CREATE INDEX jobs_superseded ON jobs (idempotency_key) WHERE superseded_by IS NOT NULL`,
  // Retention: what is kept for the same time lies together in the order of its end, so that a pass jumps over what stays.
  jobs_finished: `CREATE INDEX jobs_finished ON jobs (status, keep_for, ifnull(finished_at, updated_at)) WHERE status = 'succeeded' OR status = 'failed' OR status = 'canceled'`,
  job_events_job: `CREATE INDEX job_events_job ON job_events (job_id)`,
  // Jobs that are held. Holds only the effects that are under way or in doubt.
  job_steps_started: `CREATE INDEX job_steps_started ON job_steps (job_id) WHERE kind = 'effect' AND state = 'started'`,
}

/** The tables, and the version that made each. */
const TABLES = { jobs: 1, job_events: 1, job_workers: 1, job_steps: 2, job_streams: 3 } as const

const MIGRATIONS_TABLE = `CREATE TABLE IF NOT EXISTS jobtable_migrations (version INTEGER PRIMARY KEY, applied_at INTEGER NOT NULL) STRICT`

/** What `migrate` does to an empty database, as a script for people who apply it themselves. */
export function sqliteSchema(): string {
  const now = `CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER)`
  const migrations = MIGRATIONS.flatMap((sql, i) => [
    sql.trim().replace(/;$/, ''),
    `INSERT INTO jobtable_migrations (version, applied_at) VALUES (${i + 1}, ${now})`,
  ])
  const all = ['BEGIN IMMEDIATE', MIGRATIONS_TABLE, ...migrations, ...Object.values(INDEXES), 'COMMIT']
  return all.map((sql) => `${sql};\n`).join('\n')
}

export async function migrate(database: Database): Promise<{ from: number; to: number }> {
  return database.writeUnchecked((sql, exec) => {
    const from = installedVersion(sql)
    if (from > SCHEMA_VERSION) throw tooNew(database.path, from)
    refuseForeignTables(sql, database.path, from)
    if (from < SCHEMA_VERSION) {
      exec(MIGRATIONS_TABLE)
      for (let version = from + 1; version <= SCHEMA_VERSION; version++) {
        exec(MIGRATIONS[version - 1]!)
        sql.run(`INSERT INTO jobtable_migrations (version, applied_at) VALUES (?, ?)`, version, sql.now)
      }
    }
    for (const name of missingIndexes(sql)) exec(INDEXES[name]!)
    return { from, to: SCHEMA_VERSION }
  })
}

/** Throws unless the tables are there and of this version. */
export function* checkVersion(path: string): SqliteWork<void> {
  const version = yield* readVersion()
  if (version > SCHEMA_VERSION) throw tooNew(path, version)
  if (version < SCHEMA_VERSION) {
    throw new JobtableError(
      'schema_missing',
      version === 0
        ? `${path} has no jobtable tables yet: run \`jobtable migrate\`, or call migrate() first`
        : `${path} is at version ${version} of jobtable's tables, this is version ${SCHEMA_VERSION}: run \`jobtable migrate\`, or call migrate() first`,
      { data: { path, version, expected: SCHEMA_VERSION } },
    )
  }
}

/** 0 when jobtable has not been here. */
export function installedVersion(sql: Sql): number {
  return runHere(sql, readVersion())
}

function* readVersion(): SqliteWork<number> {
  const [table] = yield tableNamed('jobtable_migrations')
  if (!table) return 0
  const [row] = yield { sql: `SELECT ifnull(max(version), 0) AS version FROM jobtable_migrations`, params: [] }
  return row![0] as number
}

export function missingIndexes(sql: Sql): string[] {
  const present = new Set(sql.all(`SELECT name FROM sqlite_schema WHERE type = 'index'`).map(([name]) => name))
  return Object.keys(INDEXES).filter((name) => !present.has(name))
}

function tableNamed(name: string): Step {
  return { sql: `SELECT name FROM sqlite_schema WHERE type IN ('table', 'view') AND name = ?1`, params: [name] }
}

function refuseForeignTables(sql: Sql, path: string, from: number): void {
  const made = Object.entries(TABLES).filter(([, version]) => version > from)
  const table = made.map(([name]) => name).find((name) => sql.all(tableNamed(name).sql, name).length > 0)
  if (table === undefined) return
  throw new JobtableError(
    'schema_conflict',
    `${path} has a table named ${table} that jobtable did not make: give jobtable a file of its own, or rename that table; nothing was changed`,
    { data: { path, table } },
  )
}

function tooNew(path: string, version: number): JobtableError {
  return new JobtableError(
    'schema_too_new',
    `${path} is at version ${version} of jobtable's tables and this jobtable knows ${SCHEMA_VERSION}: update jobtable here`,
    { data: { path, version, expected: SCHEMA_VERSION } },
  )
}
