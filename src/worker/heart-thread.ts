/** The thread that extends a worker's lease when its event loop is blocked: see `heart.ts`. */
import { parentPort, workerData } from 'node:worker_threads'
import { openStore } from '../open-store.js'
import type { Store } from '../store.js'
import { HeartMarks, monotonicMs } from './heart-marks.js'
import type { FromHeart, HeartData, ToHeart } from './heart.js'

const { address, leaseMs, memory } = workerData as HeartData
const marks = new HeartMarks(memory)
let workerId: string | null = null
let store: Store | undefined

/** The worker's own heartbeats come every third of the lease; one that is not there at half of it is late. */
function isLate(now: number): boolean {
  return now > marks.heldUntil - leaseMs / 2
}

/** A loop that turned a moment ago may be busy with anything; one that has not for long has until its jobs' time is up. */
function mayExtend(now: number): boolean {
  return now < marks.seenAt + leaseMs || now < marks.runsUntil
}

async function look(): Promise<void> {
  const now = monotonicMs()
  const id = workerId
  if (id === null || !isLate(now) || !mayExtend(now)) return
  store ??= openStore(address.database, address.options)
  const reply = await store.heartbeat(id, leaseMs)
  // A refusal is for the worker to hear, at its own next heartbeat.
  if (reply.alive && workerId === id) marks.heldUntil = Math.max(marks.heldUntil, now + leaseMs)
}

function tell(error: unknown): void {
  parentPort!.postMessage({ message: error instanceof Error ? error.message : String(error) } satisfies FromHeart)
}

async function lookAndRepeat(): Promise<void> {
  await look().catch(tell)
  setTimeout(() => void lookAndRepeat(), leaseMs / 15)
}

parentPort!.on('message', (message: ToHeart) => {
  workerId = message.workerId
  if (workerId === null) void Promise.resolve(store?.close()).finally(() => process.exit())
})
void lookAndRepeat()
