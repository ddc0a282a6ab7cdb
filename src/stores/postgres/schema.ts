/**
 * The tables, for whoever opens them with any client: the comments are kept in the database.
 *
 * A migration runs in one transaction under an advisory lock, together with the check whether it is needed: any number of
 * processes may start at once and any of them may die at any moment, and either all of it has happened or nothing. The lock is
 * the transaction's, so that no pooler can keep it. Where nothing is to be done, nothing is written and no right to create
 * anything is needed.
 *
 * Workers of the version before go on while the tables are brought up. So a migration only adds: tables, indexes, columns that
 * have a default or may be null. It takes no lock that waits for long reads or writes, nothing is renamed, and no column gets
 * another meaning; an index that is made anew keeps its name. Where it and a worker's statement lock each other out, the server ends
 * one of the two, which is tried again. Each version says in `works_with` the oldest version of jobtable that still works on its
 * tables; only a release with a new major number may raise it.
 */
import { JobtableError } from '../../errors.js'
import type { Query, Work } from '../../transactions/transaction.js'
import { quoteName, quoteText, type Text } from './dialect.js'
import { TIME_ORDERED } from './order.js'

const VERSION_1 = `
CREATE TABLE {jobs} (
  -- A claim and a settlement write each id again, into the room that is left beside it.
  id text COLLATE "C" PRIMARY KEY WITH (fillfactor = 60),
  type text COLLATE "C" NOT NULL,
  payload jsonb NOT NULL DEFAULT 'null',
  status text COLLATE "C" NOT NULL DEFAULT 'pending' CHECK (status IN ('pending', 'running', 'retrying', 'succeeded', 'failed', 'canceled')),
  attempts integer NOT NULL DEFAULT 0 CHECK (attempts >= 0),
  run_after timestamptz(3) NOT NULL DEFAULT date_trunc('milliseconds', now()),
  locked_at timestamptz(3),
  last_error text,
  created_at timestamptz(3) NOT NULL DEFAULT date_trunc('milliseconds', now()),
  updated_at timestamptz(3) NOT NULL DEFAULT date_trunc('milliseconds', now()),
  queue text COLLATE "C" NOT NULL DEFAULT 'default',
  priority integer NOT NULL DEFAULT 0,
  max_attempts integer CHECK (max_attempts >= 1),
  waits integer NOT NULL DEFAULT 0 CHECK (waits >= 0),
  locked_by text COLLATE "C",
  claim_token text COLLATE "C",
  cancel_requested_at timestamptz(3),
  idempotency_key text COLLATE "C",
  fingerprint text,
  superseded_by text,
  stage text,
  progress double precision CHECK (progress BETWEEN 0 AND 1),
  result jsonb,
  errors jsonb NOT NULL DEFAULT '[]' CHECK (jsonb_typeof(errors) = 'array'),
  user_message text,
  trace_context text,
  finished_at timestamptz(3),
  keep_for bigint NOT NULL DEFAULT 0 CHECK (keep_for BETWEEN 0 AND 8640000000000000)
) WITH (
  -- A row is written three times in its life. Vacuum early and often, and the table stays small.
  autovacuum_vacuum_scale_factor = 0.02,
  autovacuum_vacuum_threshold = 5000,
  autovacuum_vacuum_insert_scale_factor = 0.1,
  autovacuum_analyze_scale_factor = 0.05,
  autovacuum_analyze_threshold = 5000,
  autovacuum_vacuum_cost_delay = 1
);
COMMENT ON TABLE {jobs} IS 'Background jobs (jobtable). INSERT INTO jobs (id, type, payload, status) is a valid way to enqueue.';
COMMENT ON COLUMN {jobs}.id IS 'Unique, time-ordered and URL-safe when jobtable makes it.';
COMMENT ON COLUMN {jobs}.type IS 'What to do: the name that a handler is registered under.';
COMMENT ON COLUMN {jobs}.payload IS 'The handler''s input.';
COMMENT ON COLUMN {jobs}.status IS 'pending and retrying wait for run_after; running is held by a worker; the other three are final.';
COMMENT ON COLUMN {jobs}.attempts IS 'Runs started, the present one included; waits and hand-backs are taken off again.';
COMMENT ON COLUMN {jobs}.run_after IS 'Not started before this time.';
COMMENT ON COLUMN {jobs}.locked_at IS 'When the present claim was made; empty unless running.';
COMMENT ON COLUMN {jobs}.last_error IS 'The newest error''s message; all of them are in errors.';
COMMENT ON COLUMN {jobs}.created_at IS 'When it was enqueued.';
COMMENT ON COLUMN {jobs}.updated_at IS 'When the row was last written.';
COMMENT ON COLUMN {jobs}.queue IS 'Workers listen to queues.';
COMMENT ON COLUMN {jobs}.priority IS 'Lower runs first.';
COMMENT ON COLUMN {jobs}.max_attempts IS 'The most runs that may be started; empty until the first one has ended: what the type says.';
COMMENT ON COLUMN {jobs}.waits IS 'Waits imposed by rate limits in a row, which spend no attempt.';
COMMENT ON COLUMN {jobs}.locked_by IS 'The worker that holds the claim (job_workers.id); empty unless running.';
COMMENT ON COLUMN {jobs}.claim_token IS 'Names the claim: only who knows it may write to a running row. Empty unless running.';
COMMENT ON COLUMN {jobs}.cancel_requested_at IS 'When somebody first asked for the cancellation of the job while it ran.';
COMMENT ON COLUMN {jobs}.idempotency_key IS 'Two jobs of one type with the same key are the same piece of work.';
COMMENT ON COLUMN {jobs}.fingerprint IS 'A digest of the payload, to notice the same key with another payload.';
COMMENT ON COLUMN {jobs}.superseded_by IS 'The job that took over this one''s key.';
COMMENT ON COLUMN {jobs}.stage IS 'What the end user sees of a running job, such as ''uploading''.';
COMMENT ON COLUMN {jobs}.progress IS 'From 0 to 1.';
COMMENT ON COLUMN {jobs}.result IS 'What the handler returned.';
COMMENT ON COLUMN {jobs}.errors IS 'One object for each attempt that did not succeed, and for each repair; the newest 20.';
COMMENT ON COLUMN {jobs}.user_message IS 'Why it failed, in words for the end user.';
COMMENT ON COLUMN {jobs}.trace_context IS 'A W3C traceparent, carried from the producer to the handler.';
COMMENT ON COLUMN {jobs}.finished_at IS 'When it became succeeded, failed or canceled.';
COMMENT ON COLUMN {jobs}.keep_for IS 'Not deleted before so many milliseconds after its end, whatever the retention.';

CREATE TABLE {events} (
  seq bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY,
  job_id text COLLATE "C" NOT NULL,
  at timestamptz(3) NOT NULL,
  kind text NOT NULL,
  attempt integer NOT NULL,
  message text NOT NULL,
  data jsonb
);
COMMENT ON TABLE {events} IS 'The timelines of jobs, oldest first by seq.';
COMMENT ON COLUMN {events}.kind IS 'stage, log, file, canceled, cancel_requested, repaired, handed_back, resolved';
COMMENT ON COLUMN {events}.attempt IS 'The attempt that it belongs to, from 1.';
COMMENT ON COLUMN {events}.data IS 'More about it.';

CREATE TABLE {workers} (
  id text COLLATE "C" PRIMARY KEY,
  host text NOT NULL,
  pid integer NOT NULL,
  process text COLLATE "C",
  queues jsonb NOT NULL,
  types jsonb NOT NULL,
  concurrency integer NOT NULL,
  started_at timestamptz(3) NOT NULL,
  heartbeat_at timestamptz(3) NOT NULL,
  lease_until timestamptz(3) NOT NULL
) WITH (fillfactor = 50, autovacuum_vacuum_threshold = 200, autovacuum_vacuum_scale_factor = 0);
COMMENT ON TABLE {workers} IS 'Workers that are alive. A running job whose locked_by has no row here, or one past lease_until, is run again.';
COMMENT ON COLUMN {workers}.process IS 'Tells others on the same machine whether its process is gone; empty where nobody could tell.';
COMMENT ON COLUMN {workers}.concurrency IS 'Jobs it runs at once.';

-- Wakes the workers after an INSERT by whatever client, at its commit. jobtable itself tells them after its own commits, and less
-- often than for each: commits that notify wait for one another.
CREATE FUNCTION {wake}() RETURNS trigger LANGUAGE plpgsql AS $wake$
BEGIN
  IF current_setting('jobtable.quiet', true) IS DISTINCT FROM 'on' THEN
    PERFORM pg_notify({channel}, 'due');
  END IF;
  RETURN NULL;
END
$wake$;
CREATE TRIGGER jobtable_wake AFTER INSERT ON {jobs} FOR EACH STATEMENT EXECUTE FUNCTION {wake}();
`

/** Requests and values are json, not jsonb, which would change the order of members: they come back to the letter. */
const VERSION_2 = `
CREATE TABLE {steps} (
  job_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  kind text COLLATE "C" NOT NULL CHECK (kind IN ('step', 'effect', 'checkpoint')),
  state text COLLATE "C" NOT NULL CHECK (state IN ('started', 'done', 'refused')),
  attempt integer NOT NULL,
  request json,
  provider_key text,
  value json,
  started_at timestamptz(3) NOT NULL,
  ended_at timestamptz(3),
  seq bigint GENERATED ALWAYS AS IDENTITY,
  PRIMARY KEY (job_id, name)
);
COMMENT ON TABLE {steps} IS 'What is remembered of a job''s steps, effects and checkpoints, so that its next attempt does not do them again.';
COMMENT ON COLUMN {steps}.name IS 'Unique within the job: what the handler calls it.';
COMMENT ON COLUMN {steps}.kind IS 'step, effect, checkpoint';
COMMENT ON COLUMN {steps}.state IS 'started: an effect that may or may not have happened. done: it has. refused: it certainly has not, and may begin anew.';
COMMENT ON COLUMN {steps}.attempt IS 'The attempt that wrote it last, from 1; 0 where a person had the last word.';
COMMENT ON COLUMN {steps}.request IS 'The request of an effect, frozen before the call.';
COMMENT ON COLUMN {steps}.provider_key IS 'What the provider of an effect knows it by; after a refusal for good, what it will know the next call by.';
COMMENT ON COLUMN {steps}.value IS 'What it gave.';
COMMENT ON COLUMN {steps}.ended_at IS 'When it became done or refused.';
COMMENT ON COLUMN {steps}.seq IS 'The order in which they began.';
`

/** The lock waits for readers of the table, and others wait for it: not for long. */
const VERSION_3 = `
SET LOCAL lock_timeout = '3s';
ALTER TABLE {jobs} ADD COLUMN rev bigint NOT NULL DEFAULT 0 CHECK (rev >= 0);
COMMENT ON COLUMN {jobs}.rev IS 'One more at every write to the row and to its streams, whatever the clocks do.';

CREATE TABLE {streams} (
  job_id text COLLATE "C" NOT NULL,
  name text COLLATE "C" NOT NULL,
  attempt integer NOT NULL CHECK (attempt >= 1),
  "offset" integer NOT NULL CHECK ("offset" >= 0),
  length integer NOT NULL CHECK (length >= 0),
  text text NOT NULL,
  state text COLLATE "C" NOT NULL CHECK (state IN ('open', 'done')),
  claim_token text COLLATE "C" NOT NULL,
  at timestamptz(3) NOT NULL,
  PRIMARY KEY (job_id, name, attempt, "offset")
);
COMMENT ON TABLE {streams} IS 'Texts that handlers write while they run, in pieces. Offsets and lengths count UTF-16 code units.';
COMMENT ON COLUMN {streams}.name IS 'Unique within the job: what the handler calls it.';
COMMENT ON COLUMN {streams}.attempt IS 'The attempt that wrote it, or a greater number: always greater than that of the text that it replaced.';
COMMENT ON COLUMN {streams}."offset" IS 'Where the piece begins.';
COMMENT ON COLUMN {streams}.state IS 'done: nothing comes after this piece.';
COMMENT ON COLUMN {streams}.claim_token IS 'The claim that wrote it.';
`

/**
 * What belongs to a job goes with it, whoever deletes it: another one may come under its id. Pruning does so itself, and faster. The events go
 * at the end of the transaction, since a version before this one still reads, after the jobs are deleted, which files they had.
 */
const VERSION_4 = `
SET LOCAL lock_timeout = '3s';
CREATE FUNCTION {deleted}() RETURNS trigger LANGUAGE plpgsql AS $deleted$
DECLARE
  ids CONSTANT text[] := ARRAY (SELECT id FROM gone);
BEGIN
  DELETE FROM {steps} WHERE job_id = ANY (ids);
  DELETE FROM {streams} WHERE job_id = ANY (ids);
  RETURN NULL;
END
$deleted$;
CREATE FUNCTION {deletedEvents}() RETURNS trigger LANGUAGE plpgsql AS $deleted$
BEGIN
  DELETE FROM {events} WHERE job_id = OLD.id;
  RETURN NULL;
END
$deleted$;
CREATE FUNCTION {truncated}() RETURNS trigger LANGUAGE plpgsql AS $truncated$
BEGIN
  DELETE FROM {events};
  DELETE FROM {steps};
  DELETE FROM {streams};
  RETURN NULL;
END
$truncated$;
CREATE TRIGGER jobtable_deleted AFTER DELETE ON {jobs} REFERENCING OLD TABLE AS gone FOR EACH STATEMENT
  WHEN (current_setting('jobtable.pruning', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION {deleted}();
CREATE CONSTRAINT TRIGGER jobtable_deleted_events AFTER DELETE ON {jobs} DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
  WHEN (current_setting('jobtable.pruning', true) IS DISTINCT FROM 'on') EXECUTE FUNCTION {deletedEvents}();
CREATE TRIGGER jobtable_truncated AFTER TRUNCATE ON {jobs} FOR EACH STATEMENT EXECUTE FUNCTION {truncated}();
`

/** Whoever reads or writes the jobs waits for the new index, which one read of the table makes. */
const VERSION_5 = `
SET LOCAL lock_timeout = '3s';
`

interface Migration {
  sql: string
  /** Indexes that are made again, as `INDEXES` has them now. */
  anew?: readonly string[]
  /** The oldest version of these tables that a jobtable may know and still work on them. */
  worksWith: number
}

const MIGRATIONS: readonly Migration[] = [
  { sql: VERSION_1, worksWith: 1 },
  // A worker of the version before knows no steps, and has no handlers that use them. What it prunes leaves the steps behind.
  { sql: VERSION_2, worksWith: 1 },
  // Nor streams. What it writes leaves rev as it is, and watchers see it by updated_at.
  { sql: VERSION_3, worksWith: 1 },
  { sql: VERSION_4, worksWith: 1 },
  // A process of the version before finds the index by its name. Its lists are right, but sort the table, most of which the index has not.
  { sql: VERSION_5, worksWith: 1, anew: ['jobs_created'] },
]

export const SCHEMA_VERSION = MIGRATIONS.length

/** Every index and what relies on it. `migrate` creates again what is missing. */
export const INDEXES: Readonly<Record<string, string>> = {
  // Claims, and what is due next.
  jobs_claimable: `CREATE INDEX jobs_claimable ON {jobs} (queue, priority, run_after, id) WHERE status IN ('pending', 'retrying')`,
  // Heartbeats and the search for lost claims.
  jobs_running: `CREATE INDEX jobs_running ON {jobs} (locked_by) WHERE status = 'running'`,
  // One job per type and key; the key comes first so that a search by key alone finds it.
  jobs_key: `CREATE UNIQUE INDEX jobs_key ON {jobs} (idempotency_key, type) WHERE idempotency_key IS NOT NULL AND superseded_by IS NULL`,
  // The key's earlier holders, for a search by key. Holds only superseded rows.
  jobs_superseded: `CREATE INDEX jobs_superseded ON {jobs} (idempotency_key) WHERE superseded_by IS NOT NULL`,
  // Lists of the rows that the primary key does not have in the order of their creation; see order.ts. Without the id, which is sorted where
  // a list needs it: many jobs of one moment are one entry.
  jobs_created: `CREATE INDEX jobs_created ON {jobs} (created_at) WHERE NOT (${TIME_ORDERED})`,
  // Retention: what is kept for the same time lies together in the order of its end, so that a pass jumps over what stays.
  jobs_finished: `CREATE INDEX jobs_finished ON {jobs} (status, keep_for, coalesce(finished_at, updated_at)) WHERE status IN ('succeeded', 'failed', 'canceled')`,
  job_events_job: `CREATE INDEX job_events_job ON {events} (job_id, seq)`,
  // Jobs that are held. Holds only the effects that are under way or in doubt.
  job_steps_started: `CREATE INDEX job_steps_started ON {steps} (job_id) WHERE kind = 'effect' AND state = 'started'`,
}

/** The tables, and the version that made each. */
const TABLES = { jobs: 1, job_events: 1, job_workers: 1, job_steps: 2, job_streams: 3 } as const

export interface Installed {
  /** 0 when jobtable has not been here. */
  version: number
  /** The oldest version that a jobtable may know and still work on these tables. */
  worksWith: number
  missingIndexes: string[]
  /** Those that are there, and of no use yet, or no more: whoever builds one without locks makes it so, or has been broken off. */
  invalidIndexes: string[]
}

/** Reads only what any role may read. */
export function* installed(text: Text, schema: string): Work<Installed> {
  const [found] = yield {
    sql: text(`SELECT to_regclass($1) IS NOT NULL, coalesce((
      SELECT json_object_agg(pg_class.relname, pg_index.indisvalid)::text FROM pg_class
      JOIN pg_namespace ON pg_namespace.oid = pg_class.relnamespace
      JOIN pg_index ON pg_index.indexrelid = pg_class.oid WHERE pg_namespace.nspname = $2), '{}')`),
    params: [text('{migrations}'), schema],
  }
  const valid = JSON.parse(found![1] as string) as Record<string, boolean>
  const indexes = {
    missingIndexes: Object.keys(INDEXES).filter((name) => valid[name] === undefined),
    invalidIndexes: Object.keys(INDEXES).filter((name) => valid[name] === false),
  }
  if (found![0] !== true) return { version: 0, worksWith: 0, ...indexes }
  const rows = yield { sql: text(`SELECT version, works_with FROM {migrations} ORDER BY version DESC LIMIT 1`), params: [] }
  return { version: (rows[0]?.[0] ?? 0) as number, worksWith: (rows[0]?.[1] ?? 0) as number, ...indexes }
}

/** Throws when the tables are newer than what this jobtable can work on. */
export function checkVersion({ version, worksWith }: Installed, name: string): void {
  if (worksWith <= SCHEMA_VERSION) return
  throw new JobtableError(
    'schema_too_new',
    `${name} is at version ${version} of jobtable's tables, which needs a jobtable that knows ${worksWith}; this one knows ${SCHEMA_VERSION}: update jobtable here`,
    { data: { database: name, version, expected: SCHEMA_VERSION } },
  )
}

export function isCurrent({ version, missingIndexes }: Installed): boolean {
  return version >= SCHEMA_VERSION && missingIndexes.length === 0
}

/** In the transaction that holds the lock. Yields statements without parameters only where it changes something. */
export function* bringUp(text: Text, schema: string, state: Installed): Work<void> {
  if (state.version < SCHEMA_VERSION) yield* refuseForeignTables(text, schema, state.version)
  for (const sql of changes(text, schema, state)) yield { sql, params: [] }
}

/** Whoever has the lock brings the tables up; the others find it done. The transaction's end frees it. */
export function lock(schema: string): Query {
  return { sql: `SELECT pg_advisory_xact_lock(hashtextextended('jobtable:' || $1, 0))`, params: [schema] }
}

function* refuseForeignTables(text: Text, schema: string, from: number): Work<void> {
  const made = Object.entries(TABLES).filter(([, version]) => version > from)
  const [found] = yield {
    sql: text(`SELECT relname FROM pg_class JOIN pg_namespace ON pg_namespace.oid = relnamespace
      WHERE nspname = $1 AND relname IN ('${made.map(([name]) => name).join("', '")}') AND relkind IN ('r', 'v', 'm', 'p', 'f') LIMIT 1`),
    params: [schema],
  }
  if (!found) return
  throw new JobtableError(
    'schema_conflict',
    `the schema ${schema} has a table named ${String(found[0])} that jobtable did not make: give jobtable a schema of its own by the option schema, such as 'jobtable', or rename that table; nothing was changed`,
    { data: { schema, table: found[0] } },
  )
}

/** Statement by statement. */
function changes(
  text: Text,
  schema: string,
  { version, missingIndexes }: Pick<Installed, 'version' | 'missingIndexes'>,
): string[] {
  const statements: string[] = []
  const indexes = new Set(missingIndexes)
  if (version < SCHEMA_VERSION) {
    if (version === 0) {
      statements.push(
        // Creating a schema that exists needs the right to create one.
        `DO $do$ BEGIN IF to_regnamespace(${quoteText(quoteName(schema))}) IS NULL THEN EXECUTE ${quoteText(`CREATE SCHEMA ${quoteName(schema)}`)}; END IF; END $do$`,
        text(
          `CREATE TABLE IF NOT EXISTS {migrations} (version integer PRIMARY KEY, works_with integer NOT NULL, applied_at timestamptz NOT NULL DEFAULT now())`,
        ),
      )
    }
    for (let next = version + 1; next <= SCHEMA_VERSION; next++) {
      const { sql, worksWith, anew = [] } = MIGRATIONS[next - 1]!
      statements.push(text(sql))
      // In a new schema an index of this name is not jobtable's.
      if (version > 0) {
        statements.push(...anew.map((name) => text(`DROP INDEX IF EXISTS {schema}.${name}`)))
        for (const name of anew) indexes.add(name)
      }
      statements.push(text(`INSERT INTO {migrations} (version, works_with) VALUES (${next}, ${worksWith})`))
    }
  }
  for (const name of indexes) statements.push(text(INDEXES[name]!))
  return statements
}

/** Everything that an empty database needs, for people who apply it themselves. */
export function migrationScript(text: Text, schema: string): string {
  const all = changes(text, schema, { version: 0, missingIndexes: Object.keys(INDEXES) })
  return ['BEGIN', ...all.map((sql) => sql.trim().replace(/;$/, '')), 'COMMIT'].map((sql) => `${sql};\n`).join('\n')
}
