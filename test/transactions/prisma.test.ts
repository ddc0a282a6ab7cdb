import { execFile } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { PrismaPg } from '@prisma/adapter-pg'
import { afterAll, beforeAll, describe } from 'vitest'
import { onPostgres } from './postgres.js'
import { describeTransactions } from './suite.js'

/** As far as the tests need it: the client is generated when they run. */
interface TransactionClient {
  $queryRawUnsafe(sql: string, ...params: unknown[]): Promise<unknown>
}
interface PrismaClient extends TransactionClient {
  $connect(): Promise<void>
  $disconnect(): Promise<void>
  $extends(extension: object): PrismaClient
  $on(event: 'query', listener: (event: { query: string }) => void): void
  $transaction<T>(work: (tx: TransactionClient) => Promise<T>): Promise<T>
}
interface Generated {
  PrismaClient: new (options: object) => PrismaClient
}

// Within the project, so that what is generated finds Prisma's runtime.
const temporary = join(import.meta.dirname, '../../.tmp')
let folder: string
beforeAll(async () => {
  mkdirSync(temporary, { recursive: true })
  folder = mkdtempSync(join(temporary, 'prisma-'))
  const schema = join(folder, 'schema.prisma')
  writeFileSync(
    schema,
    `generator client {
  provider = "prisma-client"
  output   = "./client"
}
datasource db {
  provider = "postgresql"
}
model Order {
  id Int @id
}
`,
  )
  const prisma = createRequire(import.meta.url).resolve('prisma/build/index.js')
  // It wants an engine for migrations, and would download one; any program will do, since none is run.
  const env = { ...process.env, PRISMA_SCHEMA_ENGINE_BINARY: process.execPath, CHECKPOINT_DISABLE: '1' }
  await promisify(execFile)(process.execPath, [prisma, 'generate', '--schema', schema], { env })
})
afterAll(() => rmSync(folder, { recursive: true, force: true }))

const open = async (url: string, extend: (client: PrismaClient) => PrismaClient) => {
  const { PrismaClient } = (await import(/* @vite-ignore */ join(folder, 'client/client.ts'))) as Generated
  const statements: string[] = []
  const client = new PrismaClient({
    adapter: new PrismaPg({ connectionString: url }),
    log: [{ level: 'query', emit: 'event' }],
  })
  client.$on('query', ({ query }) => statements.push(query))
  const extended = extend(client)
  return {
    transaction: <T>(work: (tx: TransactionClient) => Promise<T>) => extended.$transaction(work),
    refused: (): Record<string, [object, RegExp]> => ({
      'a PrismaClient': [extended, /a PrismaClient.*prisma\.\$transaction\(async \(tx\)/],
    }),
    statements: () => statements,
    close: () => client.$disconnect(),
  }
}

describe('Prisma', () => {
  describeTransactions<TransactionClient>({ on: onPostgres, open: (url) => open(url, (client) => client) })
})

describe('an extended client of Prisma', () => {
  const extension = { client: { $note: () => 'noted' } }
  describeTransactions<TransactionClient>({ on: onPostgres, open: (url) => open(url, (client) => client.$extends(extension)) })
})
