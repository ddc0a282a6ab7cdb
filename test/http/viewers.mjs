/**
 * npm run viewers [-- --viewers 2000 --jobs 200 --seconds 20]
 *
 * How fast and at what cost the pages of running jobs are kept up to date: one web process, one worker process whose jobs report their
 * progress once a second, and viewers with a connection each, in this process. Twice: with a viewer for each tenth job, and with all of them.
 * Takes the database of JOBTABLE_URL, else an SQLite file of its own. Fails where the promise is broken: a median of 200 ms, and
 * no more reads than for the few.
 */
import { fork } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, get } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { z } from 'zod'
import { jobtable } from '../../dist/index.js'
import { httpHandler, nodeListener, signToken } from '../../dist/http/index.js'

const SECRET = 'a secret that nothing but this script uses'
const MEDIAN_MS = 200

/** Moments are told in the progress, as a fraction of this long since `began`. Milliseconds. */
const SPAN_MS = 10_000_000

const roles = { worker, web, viewers: measure }
await roles[process.env.VIEWERS_ROLE ?? 'viewers']()

function define(queue, run) {
  return queue.define('watched', {
    payload: z.object({}),
    idempotency: { none: 'a measurement' },
    timeout: 'none',
    ...(run && { run }),
  })
}

/** Jobs that tell the time once a second, each in its own part of the second, until they are canceled. */
async function worker() {
  const began = Number(process.env.VIEWERS_BEGAN)
  const queue = jobtable(process.env.VIEWERS_DATABASE)
  let started = 0
  define(queue, async (job) => {
    if (++started === Number(process.env.VIEWERS_JOBS)) process.send('running')
    await new Promise((resolve) => setTimeout(resolve, Math.random() * 1_000))
    const timer = setInterval(() => job.progress((Date.now() - began) / SPAN_MS), 1_000)
    await once(job.signal, 'abort')
    clearInterval(timer)
  })
  queue.work({ concurrency: Number(process.env.VIEWERS_JOBS) })
  process.on('disconnect', () => process.exit())
}

async function web() {
  const queue = jobtable(process.env.VIEWERS_DATABASE)
  define(queue)
  const store = await queue.open()
  const calls = { reads: 0, rows: 0 }
  const read = store.get.bind(store)
  store.get = (ids) => {
    calls.reads++
    calls.rows += ids.length
    return read(ids)
  }
  const server = createServer(nodeListener(httpHandler(queue, { secrets: [SECRET] }))).listen(0, '127.0.0.1', 4_096)
  await once(server, 'listening')
  process.on('message', () => process.send({ ...calls, rss: process.memoryUsage().rss, cpu: process.cpuUsage() }))
  process.on('disconnect', () => process.exit())
  process.send(server.address().port)
}

async function measure() {
  const { values } = parseArgs({
    options: {
      viewers: { type: 'string', default: '2000' },
      jobs: { type: 'string', default: '200' },
      seconds: { type: 'string', default: '20' },
    },
  })
  const [viewers, jobs, seconds] = [Number(values.viewers), Number(values.jobs), Number(values.seconds)]
  const folder = mkdtempSync(join(tmpdir(), 'jobtable-viewers-'))
  const database = process.env.JOBTABLE_URL ?? `sqlite:${join(folder, 'viewers.db')}`
  const began = Date.now()
  const env = { ...process.env, VIEWERS_DATABASE: database, VIEWERS_BEGAN: String(began), VIEWERS_JOBS: String(jobs) }
  const start = (role) => fork(fileURLToPath(import.meta.url), { env: { ...env, VIEWERS_ROLE: role } })

  const queue = jobtable(database)
  const enqueued = await define(queue).enqueueMany(Array.from({ length: jobs }, () => ({})))
  const ids = enqueued.map(({ job }) => job.id)
  const worker = start('worker')
  const web = start('web')
  try {
    const [[port]] = await Promise.all([once(web, 'message'), once(worker, 'message')])
    const page = { port, ids, began }
    const few = await watch(web, page, Math.max(1, Math.round(viewers / 100)), seconds)
    const many = await watch(web, page, viewers, seconds)
    console.log(
      `${jobs} running jobs, each of which changes once a second, on ${database.split(':')[0]}, Node ${process.version}`,
    )
    console.table({ few, many })
    const kept = many.median <= MEDIAN_MS && many.readsPerSecond <= few.readsPerSecond * 1.2
    console.log(kept ? 'The promise is kept.' : 'The promise is broken.')
    process.exitCode = kept ? 0 : 1
  } finally {
    for (const { id } of await queue.list({ ids }, { limit: jobs })) await queue.cancel(id)
    worker.kill()
    web.kill()
    await queue.close()
    rmSync(folder, { recursive: true, force: true })
  }
}

/** Opens the pages, and once all are open measures for so long. */
async function watch(web, { port, ids, began }, viewers, seconds) {
  const latencies = []
  let measuring = false
  const seen = (job) => {
    if (measuring && job.progress !== null) latencies.push(Date.now() - began - job.progress * SPAN_MS)
  }
  const pages = []
  for (let i = 0; i < viewers; i += 100) {
    const batch = Array.from({ length: Math.min(100, viewers - i) }, (_, k) => open(port, ids[(i + k) % ids.length], seen))
    pages.push(...(await Promise.all(batch)))
  }
  const before = await ask(web)
  measuring = true
  await new Promise((resolve) => setTimeout(resolve, seconds * 1_000))
  measuring = false
  const after = await ask(web)
  for (const page of pages) page.destroy()
  latencies.sort((a, b) => a - b)
  const at = (share) => Math.round(latencies[Math.floor(latencies.length * share)])
  const perSecond = (key) => Math.round(((after[key] - before[key]) / seconds) * 10) / 10
  return {
    viewers,
    updates: latencies.length,
    median: at(0.5),
    p99: at(0.99),
    readsPerSecond: perSecond('reads'),
    rowsPerSecond: perSecond('rows'),
    memoryMb: Math.round(after.rss / 1e6),
    cpuPercent: Math.round((after.cpu.user + after.cpu.system - before.cpu.user - before.cpu.system) / 1e4 / seconds),
  }
}

async function open(port, id, seen) {
  const token = await signToken({ jobs: [id], actions: ['view'], expiresIn: '1h' }, SECRET)
  const request = get({
    port,
    host: '127.0.0.1',
    path: `/jobs/${id}/events`,
    agent: false,
    headers: { authorization: `Bearer ${token}` },
  })
  const [response] = await once(request, 'response')
  if (response.statusCode !== 200) throw new Error(`a page was answered with ${response.statusCode}`)
  let text = ''
  response.setEncoding('utf8').on('data', (more) => {
    const blocks = (text + more).split('\n\n')
    text = blocks.pop()
    for (const block of blocks) {
      const data = /^event: job\ndata: (.*)$/m.exec(block)?.[1]
      if (data) seen(JSON.parse(data))
    }
  })
  response.on('error', () => {}) // It is we who leave.
  return request
}

async function ask(web) {
  web.send('how much')
  const [answer] = await once(web, 'message')
  return answer
}
