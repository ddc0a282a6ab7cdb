/**
 * The part of `pg` that is used: its pool, ours or the product's own. The types are declared here, so that nobody needs
 * `@types/pg` to compile against jobtable.
 */
import { JobtableError } from '../../errors.js'

export interface PgPool {
  connect(): Promise<PgClient>
  end(): Promise<void>
  on(event: 'error', listener: (error: Error) => void): unknown
  on(event: 'acquire', listener: (client: PgClient) => void): unknown
  readonly options?: { readonly max?: number }
  readonly totalCount?: number
  readonly idleCount?: number
  /** Of a pool of our own: all of its connections, those that are being connected too. */
  readonly _clients?: readonly PgClient[]
}

export interface PgClient {
  query(query: string | PgQuery): Promise<PgResult>
  /** Gives a promise only where the product has put something around it that knows promises alone. */
  query(
    query: PgQuery,
    callback: (error: Error | null | undefined, result: PgResult) => void,
  ): Promise<PgResult | undefined> | void
  release(destroy?: boolean): void
  on(event: string, listener: (argument: unknown) => void): unknown
  off(event: string, listener: (argument: unknown) => void): unknown
  /** Only the newer versions tell. */
  getTransactionStatus?(): string | null
  /** Lets the process end while the connection is open. */
  unref?(): void
}

interface PgResult {
  rows: unknown[][]
  command?: string
}

interface PgQuery {
  name?: string
  text: string
  values: readonly unknown[]
  /** Without it rows come as objects. */
  rowMode?: 'array'
}

interface PgModule {
  Pool: new (config: Readonly<Record<string, unknown>>) => PgPool
}

const POOL_MAX = 10

/**
 * How hot statements are planned: once, for any parameters, and by their indexes whatever the statistics say of a table that was
 * empty a minute ago. Statements that read much take these back, see `PLANNED_FREELY`.
 */
const PLANNING = {
  plan_cache_mode: ['force_generic_plan', 'auto'],
  enable_seqscan: ['off', 'on'],
  enable_bitmapscan: ['off', 'on'],
  enable_hashjoin: ['off', 'on'],
  enable_mergejoin: ['off', 'on'],
} as const

/** Statements of a millisecond are not worth compiling, and compiled code is not kept with their plans. */
const JIT = '-c jit=off'

/** Within a transaction. */
export const PLANNED_FREELY = Object.entries(PLANNING)
  .map(([name, [, free]]) => `SET LOCAL ${name} = ${free}`)
  .join('; ')

/** A pool of jobtable's own. With `tuned`, its connections ask for the planning above, which not every pooler lets through. */
export async function openPool(
  connectionString: string,
  { tuned, connectMs }: { tuned: boolean; connectMs: number },
): Promise<PgPool> {
  const { Pool } = await loadPg()
  const options = [JIT, ...Object.entries(PLANNING).map(([name, [value]]) => `-c ${name}=${value}`)]
  return new Pool({
    connectionString,
    max: POOL_MAX,
    connectionTimeoutMillis: connectMs,
    keepAlive: true,
    allowExitOnIdle: true,
    application_name: 'jobtable',
    ...(tuned && { options: options.join(' ') }),
  })
}

/** A pooler does not know a parameter that a connection is to start with. */
export function refusesParameters(error: unknown): boolean {
  return error instanceof Error && /unsupported startup parameter/i.test(error.message)
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
