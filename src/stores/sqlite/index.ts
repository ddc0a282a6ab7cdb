export { sqliteStore, type SqliteStoreOptions } from './store.js'
export { sqliteSchema } from './schema.js'
