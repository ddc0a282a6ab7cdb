/** Stands in for a mail server: takes every mail, and shows it to its sender. A mail that comes again under its Message-ID is the same mail. */
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { callbackify, promisify } from 'node:util'
import PostalMime from 'postal-mime'
import { SMTPServer } from 'smtp-server'

export interface Mail {
  id: string
  to: string
  subject: string
  text: string
  /** How often it came. */
  deliveries: number
}

/** The mailbox of this name does not exist, so that one failure can be seen. */
const NOBODY = /^nobody@/i
const MOST_MAILS = 200

export class Mailbox {
  readonly #mails = new Map<string, Mail & { from: string }>()
  readonly #server = new SMTPServer({
    authOptional: true,
    disabledCommands: ['STARTTLS'],
    logger: false,
    onRcptTo: ({ address }, _session, done) =>
      done(NOBODY.test(address) ? Object.assign(new Error('5.1.1 no such mailbox here'), { responseCode: 550 }) : null),
    onData: callbackify((content: AsyncIterable<Buffer>, { envelope }: { envelope: Envelope }) => this.#take(content, envelope)),
  })

  /** Listens, and answers with its URL. */
  async listen(): Promise<string> {
    const server = this.#server.listen(0, '127.0.0.1')
    if (!server.listening) await once(server, 'listening')
    return `smtp://127.0.0.1:${(server.address() as AddressInfo).port}`
  }

  /** Newest first. */
  sentBy(from: string): Mail[] {
    return [...this.#mails.values()].filter((mail) => mail.from === from).reverse()
  }

  close(): Promise<void> {
    return promisify((done: () => void) => this.#server.close(done))()
  }

  async #take(content: AsyncIterable<Buffer>, envelope: Envelope): Promise<void> {
    const parts: Buffer[] = []
    for await (const part of content) parts.push(part)
    const { messageId = '', subject = '', text = '' } = await PostalMime.parse(Buffer.concat(parts))
    const known = this.#mails.get(messageId)
    if (known) return void known.deliveries++
    const from = envelope.mailFrom ? envelope.mailFrom.address : ''
    const to = envelope.rcptTo.map(({ address }) => address).join(', ')
    this.#mails.set(messageId, { id: messageId, from, to, subject, text, deliveries: 1 })
    for (const oldest of [...this.#mails.keys()].slice(0, -MOST_MAILS)) this.#mails.delete(oldest)
  }
}

interface Envelope {
  mailFrom: false | { address: string }
  rcptTo: { address: string }[]
}
