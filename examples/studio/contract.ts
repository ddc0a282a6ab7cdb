/**
 * The job types of the product: what the web process, which enqueues, and the worker, which runs, agree on. No handler is imported here, so
 * the web process holds neither the layout of PDFs nor the SDK of a language model.
 */
import { join } from 'node:path'
import { jobtable } from 'jobtable'
import { z } from 'zod'
import { settings } from './settings.js'
import { STAGES } from './stages.js'

export const queue = jobtable(settings.database, { files: join(settings.folder, 'files') })

/** A version of a visitor's document: it never changes, so it says what a job is about. */
const source = { visitor: z.string(), version: z.int() }

export const assist = queue.define('assist', {
  payload: z.object({ ...source, task: z.enum(['summarise', 'rewrite']), language: z.enum(['en', 'zh']) }),
  // An answer costs money: the same question about the same version is asked once.
  idempotency: { key: ['visitor', 'version', 'task', 'language'], onDuplicate: 'return_previous_result' },
  stages: ['reading', 'asking', 'writing'],
  stageLabels: STAGES.assist,
  publicStreams: ['text'],
  result: z.object({ characters: z.int() }),
  // A model that is busy is so for a moment, and somebody is waiting.
  retry: { backoff: { base: '5s', factor: 2 } },
  timeout: '5m',
})

export const exportPdf = queue.define('export_pdf', {
  payload: z.object({ ...source, name: z.string() }),
  idempotency: { key: ['visitor', 'version'], onDuplicate: 'return_existing_file' },
  stages: ['rendering', 'saving', 'ready'],
  stageLabels: STAGES.export_pdf,
  messages: {
    document_empty: { en: 'There is no text to export yet. Write something first.', zh: '文档还没有内容，请先写点什么。' },
  },
  timeout: '5m',
})

export const sendMail = queue.define('send_mail', {
  payload: z.object({ ...source, to: z.email() }),
  // Nobody gets the same version twice.
  idempotency: { key: ['visitor', 'version', 'to'], onDuplicate: 'return_previous_result' },
  stages: ['composing', 'sending', 'sent'],
  stageLabels: STAGES.send_mail,
  result: z.object({ messageId: z.string() }),
  timeout: '1m',
})

/** A line of the stream of a sync: a file that lies in the other place now. */
export interface CopiedFile {
  path: string
  /** Whether an attempt that was interrupted has copied it. */
  earlier: boolean
}

export const syncFolder = queue.define('sync_folder', {
  payload: z.object({ visitor: z.string(), request: z.string() }),
  // The page gives each click a number of its own, so a request that the browser sends again is no second one.
  idempotency: { key: ['visitor', 'request'], onDuplicate: 'return_previous_result' },
  stages: ['comparing', 'copying', 'done'],
  stageLabels: STAGES.sync_folder,
  publicStreams: ['files'],
  result: z.object({ copied: z.int(), earlier: z.int(), unchanged: z.int(), bytes: z.int() }),
  timeout: '5m',
})

export const addCredits = queue.define('add_credits', {
  payload: z.object({ event: z.string(), visitor: z.string(), credits: z.int().positive() }),
  // Payment providers deliver an event at least once.
  idempotency: { key: ['event'], onDuplicate: 'ignore_duplicate' },
  stages: ['booking', 'booked'],
  stageLabels: STAGES.add_credits,
  result: z.object({ credits: z.int() }),
  priority: -10,
})
