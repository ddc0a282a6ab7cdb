/**
 * The contract of the export job: what a producer and a worker agree on. It holds no handler, so the producer imports nothing
 * of the layout.
 */
import { jobtable } from 'jobtable'
import { z } from 'zod'

// On PostgreSQL there is no folder beside the database, where the files would go otherwise.
export const queue = jobtable(undefined, { files: '.export/files' })

export const exportMarkdown = queue.define('export_markdown', {
  payload: z.object({
    /** The absolute path of the Markdown file. */
    source: z.string(),
    /** The SHA-256 of its content: the same document is exported once, whatever it is called. */
    sha256: z.string(),
  }),
  stages: ['rendering', 'saving', 'ready'],
  idempotency: { key: ['sha256'], onDuplicate: 'return_existing_file', compare: 'key' },
  timeout: '5m',
})
