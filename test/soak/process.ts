/** A process of the soak: a worker, a producer, or somebody who locks the database. `fleet.ts` is the other end. */
import { setTimeout as sleep } from 'node:timers/promises'
import { jobtable, type Logger } from '../../src/index.js'
import { openDriver } from '../../src/stores/sqlite/driver.js'
import { Dice } from './dice.js'
import { LedgerWriter, type Moment } from './ledger.js'
import type { Brief, FromProcess, ToProcess } from './messages.js'
import { Producer } from './producer.js'
import { openProduct } from './product.js'
import { defineTypes, handleTypes } from './types.js'

const brief = JSON.parse(process.argv[2]!) as Brief
const ledger = new LedgerWriter(brief.ledger)
let toDie: Moment | undefined

function tell(message: FromProcess): void {
  process.send?.(message)
}

function moment(now: Moment): void {
  if (now === toDie) die(now)
}

/** As a crash would end it, with nothing after it. */
function die(where: Moment): void {
  ledger.write({ what: 'killed', moment: where })
  process.kill(process.pid, 'SIGKILL')
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)
}

/** What breaks is said by everybody at once and all the time: only what is left at the end matters, and the verdict tells it. */
const logger: Logger = { debug() {}, info() {}, warn() {}, error() {} }

async function work({ url, options }: Brief & { role: 'worker' }): Promise<void> {
  const queue = jobtable(url, { logger })
  const product = openProduct(url)
  const types = defineTypes(queue)
  handleTypes(types, { ledger, product, moment })
  const worker = queue.work(options)
  const lease = options.lease === undefined ? 'default' : 'short'
  for (const status of ['succeeded', 'failed', 'canceled'] as const) {
    worker.on(status, ({ id }) => ledger.write({ what: 'settled', id, status }))
  }
  worker.on('lease_lost', ({ id }) => ledger.write({ what: 'lease_lost', id, lease }))
  onOrders(async () => {
    await worker.stop({ timeout: '2s' })
    await queue.close()
    await product.close()
  })
  await worker.ready()
  tell({ type: 'ready' })
}

async function produce({ url, seed, perSecond }: Brief & { role: 'producer' }): Promise<void> {
  const queue = jobtable(url, { logger })
  const product = openProduct(url)
  const producer = new Producer(defineTypes(queue), { product, dice: new Dice(seed), ledger, moment, leaseMs: brief.leaseMs })
  const stopping = new AbortController()
  let idle = Promise.resolve()
  onOrders(async () => {
    stopping.abort()
    await idle
    await queue.close()
    await product.close()
  })
  tell({ type: 'ready' })
  idle = (async () => {
    for (let due = performance.now(); !stopping.signal.aborted; await sleep(Math.max(0, due - performance.now()))) {
      const made = await producer.next()
      // After an outage it does not make up for what it has missed.
      due = Math.max(due, performance.now() - 1_000) + (made * 1_000) / perSecond
    }
  })()
  await idle
}

/** Holds the database's one lock, with something to roll back when it is killed. */
function lock({ url }: Brief): void {
  const driver = openDriver(url.slice('sqlite:'.length))
  driver.exec('PRAGMA busy_timeout = 20000')
  driver.exec('BEGIN IMMEDIATE')
  driver.exec(`INSERT INTO soak_ends (job_id) SELECT 'of a transaction that is rolled back' FROM jobs`)
  tell({ type: 'ready' })
  onOrders(async () => driver.exec('ROLLBACK'))
}

function onOrders(stop: () => Promise<void>): void {
  process.on('message', (order: ToProcess) => {
    if (order.type === 'die') toDie = order.moment
    else void stop().then(() => process.exit(0))
  })
}

// A soak that is gone leaves no processes behind.
process.on('disconnect', () => process.exit(0))
// Ctrl-C reaches everybody, and is the soak's to answer.
process.on('SIGINT', () => undefined)

switch (brief.role) {
  case 'worker':
    await work(brief)
    break
  case 'producer':
    await produce(brief)
    break
  case 'locker':
    lock(brief)
}
