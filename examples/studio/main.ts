/**
 * Runs the product: `npm start`. Starts what stands in for other systems, a web process and a worker, starts a worker that died anew, as a
 * supervisor does, and ends all of them on Ctrl-C. What they keep is in the folder `.studio`, so jobs are there again after a restart.
 */
import { fork, type ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { refuse } from './process.js'
import { startStandIns } from './standins/index.js'
import { secretFor, settings } from './settings.js'

/** A worker that dies sooner than this after its start waits as long before the next. Milliseconds. */
const SHORT_LIFE_MS = 1_000

if (!Number.isInteger(settings.port) || settings.port < 0 || settings.port > 65_535) {
  refuse('start', new Error(`PORT must be a number from 0 to 65535, not ${process.env['PORT']}`))
}
await mkdir(settings.folder, { recursive: true }).catch((error: unknown) => refuse('keep anything', error))
const { secret, webhookSecret } = await secrets().catch((error: unknown) => refuse('use its secret', error))
const key = randomBytes(24).toString('hex')
let stopping = false
let working: ChildProcess | undefined

const standIns = await startStandIns({
  key,
  webhookSecret,
  worker: { pid: () => working?.pid, kill: () => void working?.kill('SIGKILL') },
})
const real = { model: 'OPENAI_API_KEY' in process.env || 'OPENAI_BASE_URL' in process.env, mail: 'SMTP_URL' in process.env }
const env: NodeJS.ProcessEnv = {
  ...process.env,
  JOBTABLE_URL: settings.database,
  STUDIO_FOLDER: settings.folder,
  STUDIO_SECRET: secret,
  STUDIO_STAND_INS: standIns.url,
  STUDIO_STAND_INS_KEY: key,
  STUDIO_REAL_MODEL: real.model ? '1' : '0',
  STUDIO_REAL_MAIL: real.mail ? '1' : '0',
  ...(!real.model && { OPENAI_BASE_URL: `${standIns.url}/v1`, OPENAI_API_KEY: key }),
  ...(!real.mail && { SMTP_URL: standIns.smtp }),
}

await prepareDatabase().catch((error: unknown) => refuse('use its database', error))
const web = start('./web.ts')
web.on('message', ({ url }: { url: string }) => console.log(`The studio is at ${url}`))
web.once('exit', (code, signal) => {
  if (signal && !stopping) console.error(`The web process was ended by ${signal}, and the studio with it`)
  void stop(code ?? 1)
})
keepWorking()
for (const signal of ['SIGINT', 'SIGTERM'] as const) process.on(signal, () => void stop(0))

/** In this process, once, so that the other two do not race for it. */
async function prepareDatabase(): Promise<void> {
  const { database, makeTables } = await import('./database.js')
  await makeTables()
  await database.destroy()
}

function start(file: string): ChildProcess {
  return fork(fileURLToPath(new URL(file, import.meta.url)), { env, execArgv: process.execArgv })
}

function keepWorking(): void {
  const began = performance.now()
  const worker = (working = start('./worker.ts'))
  worker.once('exit', (code, signal) => {
    working = undefined
    if (stopping) return
    console.log(`The worker ended (${signal ?? code}); starting another one`)
    setTimeout(keepWorking, performance.now() - began < SHORT_LIFE_MS ? SHORT_LIFE_MS : 0)
  })
}

async function stop(code: number): Promise<void> {
  if (stopping) return
  stopping = true
  await Promise.all([ended(web), working && ended(working)])
  await standIns.close()
  process.exit(code)
}

async function ended(child: ChildProcess): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return
  const exit = once(child, 'exit')
  child.kill('SIGTERM')
  await exit
}

async function secrets(): Promise<{ secret: string; webhookSecret: string }> {
  const secret = settings.secret || (await keptSecret())
  return { secret, webhookSecret: secretFor('webhooks', secret) }
}

/** Kept, so that sessions outlive a restart. */
async function keptSecret(): Promise<string> {
  const file = join(settings.folder, 'secret')
  const kept = await readFile(file, 'utf8').catch(() => undefined)
  if (kept) return kept
  const fresh = randomBytes(32).toString('base64url')
  await writeFile(file, fresh, { mode: 0o600 })
  return fresh
}
