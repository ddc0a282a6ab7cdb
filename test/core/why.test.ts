import { describe, expect, it } from 'vitest'
import type { JobRow, WorkerList, WorkerRow } from '../../src/store.js'
import { explain } from '../../src/why.js'

const now = Date.parse('2030-01-01T12:00:00Z')
const job = (over: Partial<JobRow> = {}): JobRow =>
  ({
    id: 'j1',
    type: 'mail',
    queue: 'default',
    status: 'pending',
    attempts: 0,
    maxAttempts: 5,
    runAfter: now - 1_000,
    lockedBy: null,
    lockedAt: null,
    cancelRequestedAt: null,
    supersededBy: null,
    finishedAt: null,
    lastError: null,
    history: [],
    ...over,
  }) as JobRow
const worker = (over: Partial<WorkerRow> = {}): WorkerRow => ({
  id: 'w1',
  host: 'box',
  pid: 7,
  process: null,
  queues: ['default'],
  types: ['mail'],
  concurrency: 10,
  startedAt: now,
  heartbeatAt: now,
  leaseUntil: now + 30_000,
  ...over,
})
const why = (over: Partial<JobRow>, workers: WorkerRow[] = [worker()]) =>
  explain(job(over), { now, workers } satisfies WorkerList)
const lost = { leaseUntil: now - 1 }

describe('why a job is not running', () => {
  it.each<[string, Partial<JobRow>, WorkerRow[] | undefined, string]>([
    ['not due', { runAfter: now + 90_000 }, undefined, 'It is not due yet: it may run at 2030-01-01T12:01:30.000Z, in 90 s.'],
    [
      'waits for a retry',
      { status: 'retrying', runAfter: now + 500, attempts: 2, lastError: 'boom' },
      undefined,
      'in 500 ms, after attempt 2 of 5 ended with: boom.',
    ],
    [
      'handed back',
      { status: 'retrying', runAfter: now + 500, maxAttempts: null },
      undefined,
      'after attempt 0 ended with: a hand-back.',
    ],
    ['no worker', {}, [], 'It is due, but no worker is running.'],
    ['only dead workers', {}, [worker(lost)], 'It is due, but no worker is running.'],
    ['type unknown', {}, [worker({ types: ['x'] })], 'none of the 1 worker knows the type mail'],
    ['queue unserved', { queue: 'slow' }, undefined, 'no worker that knows the type mail serves the queue slow'],
    [
      'no slot',
      {},
      [worker(), worker({ id: 'w2' })],
      'waits for a free slot: 2 workers with 20 slots in all serve the queue default',
    ],
    [
      'running',
      { status: 'running', lockedBy: 'w1', lockedAt: now - 5_000 },
      undefined,
      'It is running since 2030-01-01T11:59:55.000Z on worker w1 (process 7 on box), whose lease holds until 2030-01-01T12:00:30.000Z.',
    ],
    [
      'being canceled',
      { status: 'running', lockedBy: 'w1', lockedAt: now, cancelRequestedAt: now },
      undefined,
      'its handler has not stopped yet',
    ],
    ['lease over', { status: 'running', lockedBy: 'w1', lockedAt: now }, [worker(lost)], 'The lease of its worker w1 ran out'],
    ['worker gone', { status: 'running', lockedBy: 'w9', lockedAt: now }, undefined, 'its worker w9 is gone'],
    ['succeeded', { status: 'succeeded', finishedAt: now }, undefined, 'It succeeded at 2030-01-01T12:00:00.000Z'],
    ['canceled', { status: 'canceled', finishedAt: now }, undefined, 'It was canceled at'],
    [
      'held',
      {
        status: 'failed',
        held: true,
        lastError: 'unknown',
        history: [{ attempt: 1, at: 0, kind: 'permanent', code: 'effect_unknown', message: '' }],
      },
      undefined,
      '"resolve" makes it pending again',
    ],
    [
      'held, and failed by something else since',
      {
        status: 'failed',
        held: true,
        lastError: 'gone',
        history: [{ attempt: 2, at: 0, kind: 'lost', code: 'lost', message: 'gone' }],
      },
      undefined,
      'nobody knows whether an effect of it has happened, and its newest error is gone.',
    ],
    ['superseded', { status: 'failed', supersededBy: 'j2' }, undefined, 'the newer job j2 has taken its place'],
    ['a date beyond dates', { runAfter: 9e15 }, undefined, 'it may run at (unknown)'],
  ])('%s', (_, over, workers, sentence) => {
    expect(why(over, workers)).toContain(sentence)
  })
  it('a failure tells a permanent error from attempts used up', () => {
    const entry = { attempt: 1, kind: 'permanent', code: 'unauthorized', message: 'no' } as const
    expect(why({ status: 'failed', attempts: 1, lastError: 'no', history: [entry] })).toContain(
      'its error is not worth a retry: unauthorized: no',
    )
    const spent = { ...entry, kind: 'transient', code: 'timeout' } as const
    expect(why({ status: 'failed', attempts: 5, lastError: 'slow', history: [spent] })).toContain(
      'all 5 attempts are used up, the last one with timeout: slow',
    )
    const odd = { ...entry, kind: 'transient', code: 'unknown' } as const
    expect(why({ status: 'failed', attempts: 3, lastError: 'odd', history: [odd] })).toContain(
      'it has been tried 3 times, the last one with unknown: odd',
    )
    expect(why({ status: 'failed' })).toContain('no reason was recorded')
  })
})
