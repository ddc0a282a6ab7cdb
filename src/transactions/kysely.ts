/** Kysely, on any dialect for PostgreSQL and SQLite. */
import { JobtableError } from '../errors.js'
import { numbered } from './numbered.js'
import { has, noTransaction, valuesOf, type Query, type TransactionAdapter } from './transaction.js'

/** A `Transaction` of Kysely, controlled ones too. */
export interface KyselyTransaction {
  readonly isTransaction: true
  executeQuery(...args: never[]): unknown
}

interface CompiledQuery {
  sql: string
  parameters: readonly unknown[]
  query: { kind: 'RawNode'; sqlFragments: string[]; parameters: [] }
  queryId: { queryId: string }
}

interface Kysely {
  isTransaction: boolean
  /** Those of a controlled transaction. */
  isCommitted?: boolean
  isRolledBack?: boolean
  getExecutor(): { adapter: { supportsReturning: boolean; supportsTransactionalDdl: boolean } }
  /** Plugins may rename a row's columns and parse its texts. */
  withoutPlugins(): Kysely
  executeQuery(query: CompiledQuery): Promise<{ rows: object[] }>
}

export const kysely: TransactionAdapter = {
  library: 'Kysely',
  adapt(object) {
    if (!has(object, 'executeQuery') || !has(object, 'getExecutor')) return undefined
    const tx = object as unknown as Kysely
    if (!tx.isTransaction) {
      throw noTransaction(
        'a Kysely that is no Transaction',
        'pass the trx that db.transaction().execute((trx) => ...) gives to its function',
      )
    }
    const database = databaseOf(tx)
    const isOpen = (): boolean => !tx.isCommitted && !tx.isRolledBack
    if (!isOpen()) throw noTransaction('a transaction of Kysely that is over', 'enqueue before its commit')
    return {
      library: 'Kysely',
      database,
      run: async (query) => {
        const { rows } = await tx.withoutPlugins().executeQuery(compiled(database === 'sqlite' ? unnumbered(query) : query))
        return rows.map(valuesOf)
      },
      isOpen,
    }
  },
}

/** By what their dialects say of them: there is no name. */
function databaseOf(tx: Kysely): 'postgres' | 'sqlite' {
  const { supportsReturning, supportsTransactionalDdl } = tx.getExecutor().adapter
  if (supportsReturning) return supportsTransactionalDdl ? 'postgres' : 'sqlite'
  throw new JobtableError(
    'config_invalid',
    'tx is a transaction of Kysely on another database: jobtable knows PostgreSQL and SQLite',
  )
}

function unnumbered({ sql, params }: Query): Query {
  const { text, arrange } = numbered(sql)
  return { sql: text, params: arrange(params) }
}

function compiled({ sql, params }: Query): CompiledQuery {
  return {
    sql,
    parameters: params,
    query: { kind: 'RawNode', sqlFragments: [sql], parameters: [] },
    queryId: { queryId: 'jobtable' },
  }
}
