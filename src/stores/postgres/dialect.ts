/**
 * How statements are written here: tables and the time stand in braces, such as `{jobs}` and `{now}`, and are put in once for
 * each store, because the schema is the product's to choose. Everything is qualified by it, so that `search_path` means nothing,
 * in a transaction of the product's too.
 */
import { JobtableError } from '../../errors.js'

export type Text = (sql: string) => string

/**
 * Times are whole milliseconds, as everywhere outside the database: what was due first is due first in both. As a query of its own it is made
 * once for each statement, and not once for each row.
 */
const DATABASE_TIME = `(SELECT date_trunc('milliseconds', now())::timestamptz(3))`

export interface Dialect {
  /** The schema, without quotes. */
  readonly schema: string
  /** A statement with everything put in. */
  readonly text: Text
  /** The channel of this schema's notifications. */
  readonly channel: string
}

/** With a clock, its time is written into each statement in place of the database's. */
export function dialect(schema: string, clock?: { now(): number }): Dialect {
  if (schema === '' || schema.includes('\0') || Buffer.byteLength(schema) > 63) {
    throw new JobtableError('config_invalid', `schema must have 1 to 63 bytes, not ${JSON.stringify(schema)}`)
  }
  const quoted = quoteName(schema)
  const channel = channelOf(schema)
  const names: Readonly<Record<string, string>> = {
    schema: quoted,
    jobs: `${quoted}.jobs`,
    events: `${quoted}.job_events`,
    workers: `${quoted}.job_workers`,
    steps: `${quoted}.job_steps`,
    streams: `${quoted}.job_streams`,
    migrations: `${quoted}.jobtable_migrations`,
    wake: `${quoted}.jobtable_wake`,
    deleted: `${quoted}.jobtable_deleted`,
    deletedEvents: `${quoted}.jobtable_deleted_events`,
    truncated: `${quoted}.jobtable_truncated`,
    channel: quoteText(channel),
  }
  const known = new Map<string, string>()
  const named = (sql: string): string => {
    let text = known.get(sql)
    if (text === undefined) {
      text = sql.replaceAll(/\{(\w+)\}/g, (braces, name: string) => names[name] ?? braces)
      known.set(sql, text)
    }
    return text
  }
  const fixed = new Map<string, string>()
  const text = clock
    ? (sql: string) => named(sql).replaceAll('{now}', `'${new Date(clock.now()).toISOString()}'::timestamptz`)
    : (sql: string) => {
        let done = fixed.get(sql)
        if (done === undefined) fixed.set(sql, (done = named(sql).replaceAll('{now}', DATABASE_TIME)))
        return done
      }
  return { schema, text, channel }
}

export function quoteName(name: string): string {
  return `"${name.replaceAll('"', '""')}"`
}

export function quoteText(text: string): string {
  const quoted = `'${text.replaceAll("'", "''")}'`
  return text.includes('\\') ? ` E${quoted.replaceAll('\\', '\\\\')}` : quoted
}

/** Names of channels have 63 bytes at most, and a schema may have as many. */
function channelOf(schema: string): string {
  const name = `jobtable:${schema}`
  if (Buffer.byteLength(name) <= 63) return name
  let hash = 0
  for (const byte of Buffer.from(schema)) hash = (hash * 31 + byte) >>> 0
  return `jobtable#${hash.toString(16)}:${schema.replaceAll(/\W/g, '').slice(0, 40)}`
}
