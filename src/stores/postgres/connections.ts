/**
 * The part of `pg` that is used: its pool, ours or the product's own. The types are declared here, so that nobody needs
 * `@types/pg` to compile against jobtable.
 */
import { JobtableError } from '../../errors.js'

export interface PgPool {
  connect(): Promise<PgClient>
  end(): Promise<void>
  on(event: 'error', listener: (error: Error) => void): unknown
  readonly options?: { readonly max?: number }
}

export interface PgClient {
  query(query: string | PgQuery): Promise<{ rows: unknown[][] }>
  release(destroy?: boolean): void
  on(event: string, listener: (argument: never) => void): unknown
  off(event: string, listener: (argument: never) => void): unknown
  /** Lets the process end while the connection is open. */
  unref?(): void
}

interface PgQuery {
  text: string
  values: readonly unknown[]
  rowMode: 'array'
}

interface PgModule {
  Pool: new (config: Readonly<Record<string, unknown>>) => PgPool
}

const POOL_MAX = 10
const CONNECT_MS = 10_000

/** A pool of jobtable's own, with one connection more to hear notifications on. */
export async function openPool(connectionString: string): Promise<PgPool> {
  const { Pool } = await loadPg()
  return new Pool({
    connectionString,
    max: POOL_MAX,
    connectionTimeoutMillis: CONNECT_MS,
    keepAlive: true,
    allowExitOnIdle: true,
    application_name: 'jobtable',
  })
}

async function loadPg(): Promise<PgModule> {
  try {
    const module = (await import('pg')) as unknown as { default: PgModule }
    return module.default
  } catch (cause) {
    throw new JobtableError('driver_missing', 'PostgreSQL needs the package pg: run `npm install pg`', { cause })
  }
}

export function isPool(value: unknown): value is PgPool {
  const pool = value as Partial<PgPool> | null
  return (
    typeof pool === 'object' &&
    typeof pool?.connect === 'function' &&
    typeof pool.end === 'function' &&
    typeof pool.on === 'function'
  )
}
