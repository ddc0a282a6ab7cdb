/** One process of a measurement, in the role that the commands it is sent give it. */
import { writeSync } from 'node:fs'
import { now, percentile, sleep } from './lib.mjs'

const target = JSON.parse(process.argv[2])
const { create } = await import(`./adapters/${target.adapter}.mjs`)
const queue = await create(target)

const PROGRESS = 3
let count = 0
let told = 0
let toldAt = 0
let latencies = null
let cpuBefore

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
  if (latencies && payload.at) latencies.push(now() - payload.at)
  if (count % 1000 === 0 || performance.now() - toldAt > 20) tell()
}

const commands = {
  prepare: () => queue.prepare(),
  fill: (rows) => queue.fill(rows),
  checkpoint: () => queue.checkpoint(),
  unfinished: () => queue.unfinished(),

  /** Enqueues for this long with so many calls in flight. */
  async enqueueFor({ ms, inFlight }) {
    for (let i = 0; i < 20; i++) await queue.enqueue({ n: i })
    let n = 0
    const from = now()
    const until = from + ms
    const caller = async () => {
      for (; now() < until; n++) await queue.enqueue({ n })
    }
    await Promise.all(Array.from({ length: inFlight }, caller))
    return { perSecond: (n / (now() - from)) * 1000 }
  },

  async enqueueBulk({ n, chunk }) {
    await queue.enqueue({ n: 0 })
    const from = now()
    for (let done = 0; done < n; done += chunk) {
      await queue.enqueueMany(Array.from({ length: Math.min(chunk, n - done) }, (_, i) => ({ n: done + i })))
    }
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

  /** `silent`: it is the idle worker that is measured, and this timer would cost more than the worker. */
  async work({ record = false, silent = false }) {
    if (record) latencies = []
    if (!silent) setInterval(tell, 5).unref()
    cpuBefore = process.cpuUsage()
    await new Promise((resolve) => process.send({ id: 'work', answer: { at: now() } }, resolve))
    await queue.work(onJob)
  },

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
