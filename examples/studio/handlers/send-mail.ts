/** E-mail: a mail server knows no idempotency keys, but a mail that comes twice under one Message-ID is one mail for its reader. */
import { createTransport } from 'nodemailer'
import { sendMail } from '../contract.js'
import { documentAt } from '../documents.js'
import { settings } from '../settings.js'
import { linger } from './linger.js'

const mailServer = createTransport(settings.smtp)

export function handleSendMail(): void {
  sendMail.handle(async (job) => {
    const { visitor, version, to } = job.payload
    await job.stage('composing')
    const { title, text } = await documentAt(visitor, version)
    await linger(job.signal)

    await job.stage('sending')
    await linger(job.signal)
    const messageId = await job.effect('send', {
      request: { from: `Studio <${visitor}@studio.example>`, to, subject: title, text },
      run: async (mail, { key }) => (await mailServer.sendMail({ ...mail, messageId: `<${key}@studio.example>` })).messageId,
      onUnknown: 'same_key',
    })

    await job.stage('sent')
    return { messageId }
  })
}
