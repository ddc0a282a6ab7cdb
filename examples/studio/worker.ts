/** The worker process: every handler, and nothing of the web. */
import { queue } from './contract.js'
import { database } from './database.js'
import { handleAddCredits } from './handlers/add-credits.js'
import { handleAssist } from './handlers/assist.js'
import { handleExportPdf } from './handlers/export-pdf.js'
import { handleSendMail } from './handlers/send-mail.js'
import { handleSyncFolder } from './handlers/sync-folder.js'
import { untilStopped } from './process.js'

handleAddCredits()
handleAssist()
handleExportPdf()
handleSendMail()
handleSyncFolder()

// What does not end in this time is handed back, and goes on with the next start.
const worker = queue.work({ concurrency: 6, stopTimeout: '2s' })
untilStopped(async () => {
  await queue.close()
  await database.destroy()
})
await worker.ready()
