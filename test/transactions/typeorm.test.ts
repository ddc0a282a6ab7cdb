import { DataSource, type EntityManager, type QueryRunner } from 'typeorm'
import { describe } from 'vitest'
import { onPostgres } from './postgres.js'
import { describeTransactions } from './suite.js'

describe('the manager of TypeORM', () => {
  describeTransactions<EntityManager>({
    on: onPostgres,
    open: async (url) => {
      const statements: string[] = []
      const logger = {
        logQuery: (query: string) => statements.push(query),
        logQueryError() {},
        logQuerySlow() {},
        logSchemaBuild() {},
        logMigration() {},
        log() {},
      }
      const source = await new DataSource({ type: 'postgres', url, logger }).initialize()
      const runner = source.createQueryRunner()
      return {
        transaction: (work) => source.transaction(work),
        refused: () => ({
          'a DataSource': [source, /a DataSource of TypeORM.*dataSource\.transaction\(\(manager\)/],
          'its manager': [source.manager, /the manager of a DataSource/],
          'a query runner before it begins': [runner, /in no open transaction/],
        }),
        statements: () => statements,
        close: async () => {
          await runner.release()
          await source.destroy()
        },
      }
    },
  })
})

describe('a query runner of TypeORM', () => {
  describeTransactions<QueryRunner>({
    on: onPostgres,
    open: async (url) => {
      const source = await new DataSource({ type: 'postgres', url }).initialize()
      return {
        transaction: async (work) => {
          const runner = source.createQueryRunner()
          await runner.startTransaction()
          try {
            const answer = await work(runner)
            await runner.commitTransaction()
            return answer
          } catch (error) {
            await runner.rollbackTransaction()
            throw error
          } finally {
            await runner.release()
          }
        },
        refused: () => ({ 'a DataSource': [source, /a DataSource of TypeORM/] }),
        close: () => source.destroy(),
      }
    },
  })
})
