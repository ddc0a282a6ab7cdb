/** Where the tests of each library's transactions take place: a queue, and what a product defines on it. */
import { z } from 'zod'
import { jobtable, PermanentError, type Queue } from '../../src/index.js'
import { temporaryFolder } from '../stores/sqlite/support.js'

export interface Product {
  queue: Queue
  /** For the library's own connection: the path of the file, or the URL. */
  database: string
  report: ReturnType<typeof defineReport>
  /** In the same database, which has no tables for it; where there can be such a queue. */
  untabled?: Queue
  close(): Promise<void>
}

const payload = z.object({ doc: z.string(), copies: z.number().optional(), fail: z.boolean().optional() })

export function defineReport(queue: Queue) {
  return queue.define('report', {
    payload,
    idempotency: { key: ['doc'], onDuplicate: 'return_previous_result' },
    run: async ({ payload: { doc, fail }, effect }) => {
      if (fail) await effect('print', { request: { doc }, run: () => 'printed', onUnknown: 'hold' })
      if (fail) throw new PermanentError('no such document')
      return `report of ${doc}`
    },
  })
}

export async function onSqlite(): Promise<Product> {
  const { file, remove } = temporaryFolder()
  const queue = jobtable(`sqlite:${file}`, { logger: silent })
  await queue.open()
  return {
    queue,
    database: file,
    report: defineReport(queue),
    close: async () => {
      await queue.close()
      remove()
    },
  }
}

export const silent = { debug() {}, info() {}, warn() {}, error() {} }
