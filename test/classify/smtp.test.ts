import { createTransport, type TransportOptions } from 'nodemailer'
import { SMTPServer, type SMTPServerOptions } from 'smtp-server'
import { describe, onTestFinished } from 'vitest'
import type { AddressInfo } from 'node:net'
import {
  certificate,
  hangingUp,
  NO_SUCH_HOST,
  permanent,
  refusing,
  rows,
  tcp,
  transient,
  unknownOutcome,
  https,
} from './support.js'

type Stage = 'onMailFrom' | 'onRcptTo' | 'onData' | 'onConnect'
const MESSAGE = { from: 'a@example.test', to: 'b@example.test', text: 't' }

async function serve(options: SMTPServerOptions): Promise<number> {
  const server = new SMTPServer({ authOptional: true, disabledCommands: ['STARTTLS'], logger: false, ...options })
  server.on('error', () => {})
  await new Promise<void>((resolve) => void server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => new Promise<void>((resolve) => server.close(resolve)))
  return (server.server.address() as AddressInfo).port
}

async function send(port: number | Promise<number>, options: object = {}, message: object = MESSAGE): Promise<unknown> {
  const transport = createTransport({ host: '127.0.0.1', port: await port, ...options } as TransportOptions)
  try {
    return await transport.sendMail(message)
  } finally {
    transport.close()
  }
}

/** A server that gives this reply at this stage. */
function replying(stage: Stage, responseCode: number, message = 'm'): Promise<number> {
  const error = Object.assign(new Error(message), { responseCode })
  const refuse = (...args: unknown[]): void => {
    const [stream] = args as [{ resume?: () => void }]
    stream.resume?.()
    ;(args.at(-1) as (error: Error) => void)(error)
  }
  return serve({ [stage]: refuse })
}

const later = transient('provider_unavailable', 'provider', { retryAfterMs: 300_000 })
const refused = permanent('recipient_refused', 'user')
const auth = { auth: { user: 'u', pass: 'p' } }
const loggingIn = (responseCode: number) =>
  serve({
    authOptional: false,
    allowInsecureAuth: true,
    onAuth: (_, __, done) => done(Object.assign(new Error('m'), { responseCode })),
  })

describe('SMTP', () => {
  rows([
    ['450 for a recipient is tried again after 5 minutes', () => send(replying('onRcptTo', 450, 'Greylisted')), later],
    ['451 for a recipient is tried again after 5 minutes', () => send(replying('onRcptTo', 451)), later],
    ['452 for a message is tried again after 5 minutes', () => send(replying('onData', 452)), later],
    ['451 for a message is tried again after 5 minutes', () => send(replying('onData', 451)), later],
    [
      'greylisting that names a longer time is believed',
      () => send(replying('onRcptTo', 450, 'Greylisted, try again in 15 minutes')),
      { ...later, retryAfterMs: 900_000 },
    ],
    ['421 is transient', () => send(replying('onMailFrom', 421)), transient('provider_unavailable', 'provider')],
    ...[550, 552, 553, 554].map(
      (code) => [`${code} for a recipient is permanent and the user's`, () => send(replying('onRcptTo', code)), refused] as const,
    ),
    ['550 for a message is permanent', () => send(replying('onData', 550)), refused],
    [
      '552 for the size of a message is permanent',
      () => send(replying('onData', 552, 'Message size exceeds the limit')),
      permanent('too_large', 'user'),
    ],
    ['501 is a wrong request', () => send(replying('onMailFrom', 501)), permanent('invalid_request', 'developer')],
    [
      '503 is tried again at most twice',
      () => send(replying('onMailFrom', 503)),
      transient('provider_error', 'provider', { maxRetries: 2 }),
    ],
    ["530 for want of a login is the operator's", () => send(replying('onMailFrom', 530)), permanent('unauthorized', 'operator')],
    ["535 at the login is permanent and the operator's", () => send(loggingIn(535), auth), permanent('unauthorized', 'operator')],
    ['454 at the login is transient', () => send(loggingIn(454), auth), transient('provider_unavailable', 'provider')],
    [
      'a refused connection is transient',
      () => send(refusing().then(({ port }) => port)),
      transient('connection_refused', 'provider'),
    ],
    [
      'a host that is not found is retried at most 3 times',
      () => send(1, { host: NO_SUCH_HOST }),
      transient('dns_failed', 'operator', { maxRetries: 3 }),
    ],
    ['a message without recipients is permanent', () => send(serve({}), {}, { from: 'a@example.test', text: 't' }), refused],
    [
      'a certificate that cannot be trusted is permanent',
      () =>
        send(
          https('localhost').then(({ port }) => port),
          { secure: true },
        ),
      permanent('tls_invalid', 'operator'),
    ],
    [
      'an expired certificate is permanent',
      () =>
        send(
          https('expired').then(({ port }) => port),
          { secure: true, tls: { ca: certificate('expired') } },
        ),
      permanent('tls_invalid', 'operator'),
    ],
    [
      'a connection that closes in mid-session leaves the outcome unknown',
      () => send(closing()),
      unknownOutcome('connection_lost', 'provider'),
    ],
    [
      'a greeting that never comes means that nothing was sent',
      () => send(mute(), { greetingTimeout: 1 }),
      transient('timeout', 'provider'),
    ],
    [
      'a greeting that is no SMTP is tried again at most twice',
      () => send(tcp((socket) => socket.write('hello\r\n')).then(({ port }) => port)),
      transient('response_invalid', 'provider', { maxRetries: 2 }),
    ],
    [
      'a message larger than the server announces is permanent',
      () => send(serve({ size: 10 }), {}, { ...MESSAGE, envelope: { from: 'a@example.test', to: 'b@example.test', size: 100 } }),
      permanent('too_large', 'user'),
    ],
    [
      'a connection that is reset leaves the outcome unknown',
      () =>
        send(
          hangingUp('reset').then(({ port }) => port),
          { secure: true },
        ),
      unknownOutcome('connection_lost', 'provider'),
    ],
  ])
})

const closing = async () =>
  (await tcp((socket) => void socket.write('220 hi\r\n', () => socket.once('data', () => socket.end())))).port
const mute = async () => (await tcp(() => {})).port
