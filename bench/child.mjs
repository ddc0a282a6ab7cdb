/** One process of a measurement, in the role that the commands it is sent give it. */
import { writeSync } from 'node:fs'
import { now, percentile, sleep } from './lib.mjs'

const target = JSON.parse(process.argv[2])
const { create } = await import(`./adapters/${target.adapter}.mjs`)
const queue = await create(target)

const PROGRESS = 3
const WARMING_JOBS = 50
const MOST_WAIT_MS = 60_000
let count = 0
let told = 0
let toldAt = 0
let latencies = null
let startedAt = null
let cpuBefore
let stopWork

function tell() {
  if (count === told) return
  told = count
  toldAt = performance.now()
  try {
    writeSync(PROGRESS, `${JSON.stringify({ count, at: now(), ...usage() })}\n`)
  } catch {
    // The pipe is full or gone; the next line says more than this one.
  }
}

function usage() {
  const { user, system } = process.cpuUsage(cpuBefore)
  return { cpuSeconds: (user + system) / 1e6, peakMiB: process.resourceUsage().maxRSS / 1024 }
}

function onJob(payload) {
  count++
  if (latencies && payload.at) {
    const at = now()
    latencies.push(at - payload.at)
    startedAt?.push(at)
  }
  if (count % 1000 === 0 || performance.now() - toldAt > 20) tell()
}

function holdingJob(payload) {
  onJob(payload)
  return payload.hold ? new Promise(() => {}) : undefined
}

/** Until so many jobs have started since the count was at 0. */
async function allStarted(n) {
  const until = now() + MOST_WAIT_MS
  const started = () => count >= n
  while (!started()) {
    if (now() > until) throw new Error(`${n - count} of ${n} jobs have not started`)
    await sleep(1)
  }
}

const numbered = (n, from) => Array.from({ length: n }, (_, i) => ({ n: from + i }))

const commands = {
  prepare: () => queue.prepare(),
  fill: (rows) => queue.fill(rows),
  checkpoint: () => queue.checkpoint(),
  unfinished: () => queue.unfinished(),

  /** Enqueues for this long with so many calls in flight. */
  async enqueueFor({ ms, inFlight }) {
    for (let i = 0; i < 20; i++) await queue.enqueue({ n: i })
    // Connections are open before anything counts.
    await Promise.all(numbered(inFlight, 0).map((payload) => queue.enqueue(payload)))
    let n = 0
    const from = now()
    const until = from + ms
    const caller = async () => {
      for (; now() < until; n++) await queue.enqueue({ n })
    }
    await Promise.all(Array.from({ length: inFlight }, caller))
    return { perSecond: (n / (now() - from)) * 1000 }
  },

  async enqueueBulk({ n, chunk, inFlight }) {
    await queue.enqueue({ n: 0 })
    let next = 0
    const from = now()
    const caller = async () => {
      while (next < n) {
        const first = next
        next += chunk
        await queue.enqueueMany(numbered(Math.min(chunk, n - first), first))
      }
    }
    await Promise.all(Array.from({ length: inFlight }, caller))
    return { perSecond: (n / (now() - from)) * 1000 }
  },

  /** Enqueues at a fixed rate, whatever becomes of the jobs. Each payload says when its call was made. */
  async enqueuePaced({ perSecond, seconds }) {
    const n = perSecond * seconds
    const from = now()
    const pending = []
    for (let i = 0; i < n; i++) {
      const early = from + (i * 1000) / perSecond - now()
      if (early > 0.5) await sleep(early)
      pending.push(queue.enqueue({ n: i, at: now() }))
    }
    await Promise.all(pending)
    return { n }
  },

  enqueue: (payload) => queue.enqueue(payload).then(() => undefined),

  /**
   * `silent`: it is the idle worker that is measured, and this timer would cost more than the worker. `hold`: a job whose payload asks
   * for it runs as long as the process.
   */
  async work({ record = false, silent = false, hold = false }) {
    if (record) latencies = []
    if (!silent) setInterval(tell, 5).unref()
    cpuBefore = process.cpuUsage()
    await new Promise((resolve) => process.send({ id: 'work', answer: { at: now() } }, resolve))
    stopWork = await queue.work(hold ? holdingJob : onJob)
  },

  /**
   * Enqueues beside its own worker for so many seconds, with a bounded number of jobs that have not started; then waits for those
   * and stops the worker. Answers for the whole time and for each window of it.
   */
  async together({ seconds, windowSeconds, outstanding, batch }) {
    stopWork = await queue.work(onJob)
    for (let i = 0; i < WARMING_JOBS; i++) await queue.enqueue({ n: i })
    await allStarted(WARMING_JOBS)
    await sleep(500)
    ;[count, latencies, startedAt] = [0, [], []]
    const from = now()
    const until = from + seconds * 1000
    let sent = 0
    while (now() < until) {
      if (sent - count + batch > outstanding) {
        await sleep(1)
        continue
      }
      const at = now()
      await queue.enqueueMany(Array.from({ length: batch }, (_, i) => ({ n: sent + i, at })))
      sent += batch
    }
    await allStarted(sent)
    await stopWork?.()
    const inTime = startedAt.filter((at) => at < until).length
    const windows = Array.from({ length: Math.round(seconds / windowSeconds) }, () => 0)
    for (const at of startedAt) {
      const window = Math.floor((at - from) / (windowSeconds * 1000))
      if (window < windows.length) windows[window] += 1 / windowSeconds
    }
    return { perSecond: inTime / seconds, p99: percentile(latencies, 0.99), windows: windows.map(Math.round) }
  },

  /** Statements and enqueues in transactions of the product's own. */
  inTransaction: ({ n }) => queue.inTransaction(n),

  forget: () => {
    latencies = []
    cpuBefore = process.cpuUsage()
  },

  usage: () => usage(),

  latencies: () => ({ n: latencies.length, p50: percentile(latencies, 0.5), p99: percentile(latencies, 0.99) }),
}

process.on('message', (message) => void answer(message))
process.on('disconnect', () => process.exit(0))
process.send({ id: 'ready' })

async function answer({ id, command, args }) {
  try {
    process.send({ id, answer: await commands[command](args) })
  } catch (error) {
    process.send({ id, error: String(error?.stack ?? error) })
  }
}
