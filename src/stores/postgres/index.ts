export { postgresStore } from './store.js'
export { postgresSchema } from './migrate.js'
export { isPool, type PgPool } from './connections.js'
