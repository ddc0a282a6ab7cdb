export { postgresStore } from './store.js'
export { migrationSql } from './migrate.js'
export { isPool, type PgPool } from './connections.js'
