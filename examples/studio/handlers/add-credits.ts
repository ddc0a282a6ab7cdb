/** Credits that were paid for: the row of the ledger and the job's memory of it are one commit, so no attempt books them twice. */
import { addCredits } from '../contract.js'
import { database, runIn } from '../database.js'
import { linger } from './linger.js'

export function handleAddCredits(): void {
  addCredits.handle(async (job) => {
    const { event, visitor, credits } = job.payload
    await job.stage('booking')
    await linger(job.signal)
    const row = database.insertInto('ledger').values({ event, visitor, credits }).returning('credits')
    await job.transaction('ledger', (tx) => runIn(tx, row))
    await job.stage('booked')
    return { credits }
  })
}
