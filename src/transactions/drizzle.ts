/** Drizzle, on any of its drivers for PostgreSQL and SQLite. */
import { numbered } from './numbered.js'
import { noTransaction, type Query, type Transaction, type TransactionAdapter, type Values } from './transaction.js'

/** What Drizzle's `db.transaction` gives to its function. */
export interface DrizzleTransaction {
  rollback(): never
  select(...args: never[]): unknown
  readonly _: object
}

interface Postgres {
  _: {
    session: {
      prepareQuery(
        query: Query,
        fields: undefined,
        name: undefined,
        isResponseInArrayMode: true,
        customResultMapper: (rows: Values[]) => Values[],
      ): { execute(): Promise<Values[]> }
    }
  }
}

interface Sqlite {
  readonly resultKind?: 'sync' | 'async'
  /** Takes anything that says which SQL it stands for. */
  values(query: { getSQL(): { toQuery(): Query } }): Values[] | PromiseLike<Values[]>
}

export const drizzle: TransactionAdapter = {
  library: 'Drizzle',
  adapt(tx) {
    const kinds = kindsOf(tx)
    if (kinds.has('PgTransaction')) return postgres(tx as Postgres)
    if (kinds.has('SQLiteTransaction')) return sqlite(tx as Sqlite)
    if ([...kinds].some((kind) => kind.endsWith('Transaction')))
      throw noTransaction('a transaction of Drizzle on another database', 'jobtable knows PostgreSQL and SQLite')
    if ([...kinds].some((kind) => kind.endsWith('Database')))
      throw noTransaction('the db of Drizzle itself', 'pass the tx that db.transaction((tx) => ...) gives to its function')
    return undefined
  },
}

const ENTITY_KIND = Symbol.for('drizzle:entityKind')

/** The names by which Drizzle itself tells its classes apart, across copies of the library. */
function kindsOf(tx: object): ReadonlySet<string> {
  const kinds = new Set<string>()
  for (let at = prototypeOf(tx); at !== null; at = prototypeOf(at)) {
    const kind = (at.constructor as { [ENTITY_KIND]?: unknown } | undefined)?.[ENTITY_KIND]
    if (typeof kind === 'string') kinds.add(kind)
  }
  return kinds
}

function prototypeOf(object: object): object | null {
  return Object.getPrototypeOf(object) as object | null
}

function postgres(tx: Postgres): Transaction {
  return {
    library: 'Drizzle',
    database: 'postgres',
    run: async (query) => tx._.session.prepareQuery(query, undefined, undefined, true, (rows) => rows).execute(),
    isOpen: () => true,
  }
}

function sqlite(tx: Sqlite): Transaction {
  return {
    library: 'Drizzle',
    database: 'sqlite',
    run: ({ sql, params }) => {
      const { text, arrange } = numbered(sql)
      const query = { sql: text, params: arrange(params) }
      const rows = tx.values({ getSQL: () => ({ toQuery: () => query }) })
      return Array.isArray(rows) ? rows : Promise.resolve(rows)
    },
    isOpen: () => true,
    endsWithTurn: tx.resultKind === 'sync',
  }
}
