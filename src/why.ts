/**
 * Why a job is not running at this moment, in one plain sentence. Pure: it looks at the row and the workers only.
 */
import type { JobRow, WorkerList, WorkerRow } from './store.js'

export function explain(job: JobRow, list: WorkerList): string {
  switch (job.status) {
    case 'running':
      return explainRunning(job, list)
    case 'succeeded':
      return `It succeeded at ${iso(job.finishedAt)} and is over.`
    case 'canceled':
      return `It was canceled at ${iso(job.finishedAt)}; "retry" makes it pending again.`
    case 'failed':
      return explainFailed(job)
    case 'pending':
    case 'retrying':
      return explainWaiting(job, list)
  }
}

function explainRunning(job: JobRow, { now, workers }: WorkerList): string {
  const holder = workers.find((worker) => worker.id === job.lockedBy)
  if (!holder)
    return `It is marked as running, but its worker ${job.lockedBy ?? '(none)'} is gone: a live worker that knows its type takes it back within seconds.`
  if (holder.leaseUntil <= now) {
    return `The lease of its worker ${holder.id} ran out at ${iso(holder.leaseUntil)}: a live worker that knows its type takes it back within seconds.`
  }
  const since = `since ${iso(job.lockedAt)} on ${describe(holder)}, whose lease holds until ${iso(holder.leaseUntil)}`
  return job.cancelRequestedAt === null
    ? `It is running ${since}.`
    : `It is running ${since}; its cancellation was asked for at ${iso(job.cancelRequestedAt)} and its handler has not stopped yet.`
}

function explainFailed(job: JobRow): string {
  if (job.supersededBy !== null) return `It has failed, and the newer job ${job.supersededBy} has taken its place.`
  const newest = job.history.at(-1)
  if (job.held) {
    const about =
      newest?.code === 'effect_unknown' ? '' : 'nobody knows whether an effect of it has happened, and its newest error is '
    return `It has failed and is held: ${about}${job.lastError ?? 'not recorded'}. "resolve" makes it pending again; a "retry" alone leaves its effect in doubt.`
  }
  const spent = job.maxAttempts !== null && job.attempts >= job.maxAttempts && newest?.kind !== 'permanent'
  const reason = spent
    ? `all ${job.maxAttempts} attempts are used up, the last one with`
    : newest?.kind === 'permanent'
      ? 'its error is not worth a retry:'
      : `errors of this kind are retried a few times only, and it has been tried ${job.attempts} times, the last one with`
  return `It has failed: ${reason} ${newest?.code ?? 'unknown'}: ${job.lastError ?? 'no reason was recorded'}. "retry" makes it pending again.`
}

function explainWaiting(job: JobRow, { now, workers }: WorkerList): string {
  if (job.runAfter > now) {
    const wait = `at ${iso(job.runAfter)}, in ${seconds(job.runAfter - now)}`
    return job.status === 'retrying'
      ? `It waits for its next attempt ${wait}, after attempt ${job.attempts}${job.maxAttempts === null ? '' : ` of ${job.maxAttempts}`} ended with: ${job.lastError ?? 'a hand-back'}.`
      : `It is not due yet: it may run ${wait}.`
  }
  const alive = workers.filter((worker) => worker.leaseUntil > now)
  if (alive.length === 0) return 'It is due, but no worker is running.'
  const knowing = alive.filter((worker) => worker.types.includes(job.type))
  if (knowing.length === 0) return `It is due, but none of the ${count(alive)} knows the type ${job.type}.`
  const serving = knowing.filter((worker) => worker.queues.includes(job.queue))
  if (serving.length === 0) return `It is due, but no worker that knows the type ${job.type} serves the queue ${job.queue}.`
  const slots = serving.reduce((sum, worker) => sum + worker.concurrency, 0)
  return `It is due and waits for a free slot: ${count(serving)} with ${slots} slots in all serve${serving.length === 1 ? 's' : ''} the queue ${job.queue}, and jobs that are due earlier or of a lower priority number go first.`
}

function count(workers: readonly WorkerRow[]): string {
  return workers.length === 1 ? '1 worker' : `${workers.length} workers`
}

function describe(worker: WorkerRow): string {
  return `worker ${worker.id} (process ${worker.pid} on ${worker.host})`
}

function iso(at: number | null): string {
  return at === null || Math.abs(at) > 8.64e15 ? '(unknown)' : new Date(at).toISOString()
}

function seconds(ms: number): string {
  return ms < 1_000 ? `${ms} ms` : `${Math.ceil(ms / 1_000)} s`
}
