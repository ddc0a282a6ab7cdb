/**
 * A person's word on an effect of which nobody knows whether it happened. The job is held as `failed`; once no effect of it is in
 * doubt any more it is made pending again, by the repair that every failed job has, and its handler goes on with what was found. One
 * that was canceled stays so: somebody did not want it to go on, and only a retry says otherwise. Whoever was wrong may say so as long
 * as no attempt has written over the word.
 */
import { JobtableError } from '../errors.js'
import { checkOptionNames } from '../options.js'
import type { JobRow, Store } from '../store.js'
import { superseded } from '../job-errors.js'
import { jobNotFound } from '../waiters.js'
import type { EffectCall, Reconciled } from './effect.js'
import { BY_PERSON, type StepRow } from './record.js'
import { checkName, encodeValue } from './steps.js'

export type Resolution = {
  /** The name of the effect. */
  effect: string
  /** Who says so, for the timeline. */
  by?: string
} &
  /** `result` is what the handler gets: undefined or null, said in so many words, where it gets nothing. */
  (
    | { as: 'done'; result: unknown }
    | { as: 'not_done' }
    /** Asks the provider, with the frozen request and the key of the effect. */
    | { reconcile(body: unknown, call: EffectCall): Reconciled<unknown> | Promise<Reconciled<unknown>> }
  )

/** Answers with the effects that are still in doubt. */
export async function resolveEffect(store: Store, id: string, resolution: Resolution): Promise<StepRow[]> {
  checkResolution(resolution)
  const { effect: name, by = null } = resolution
  const job = await heldJob(store, id)
  const step = openEffect(job, await store.steps(id), name)
  const found = 'reconcile' in resolution ? await ask(step, resolution.reconcile) : resolution
  const done = found.as === 'done'
  const value = done ? encodeValue(found.result, `the value of the effect ${name}`) : null
  const changed = await store.resolveStep(job, { name, state: done ? 'done' : 'refused', value }, by)
  if (!changed) {
    // Somebody else was faster: what is there now says what is wrong.
    openEffect(await heldJob(store, id), await store.steps(id), name)
    throw stillUnknown(name, 'the job has run since it was looked at, so its provider must be looked at again')
  }
  return (await store.steps(id)).filter(inDoubt)
}

export function inDoubt({ kind, state }: StepRow): boolean {
  return kind === 'effect' && state === 'started'
}

/** What TypeScript refuses and JavaScript does not. */
function checkResolution(resolution: Resolution): void {
  const given: Record<string, unknown> = { ...resolution }
  checkOptionNames('queue.resolve', given, { effect: true, by: true, as: true, result: true, reconcile: true })
  const problem =
    'as' in given === 'reconcile' in given
      ? 'say either as or reconcile'
      : 'reconcile' in given
        ? typeof given['reconcile'] !== 'function' && 'reconcile must be a function'
        : given['as'] !== 'done' && given['as'] !== 'not_done'
          ? `as must be 'done' or 'not_done', not ${JSON.stringify(given['as'])}`
          : given['as'] === 'done' && !('result' in given) && 'say with result what the handler is to get, be it undefined'
  if (problem !== false) {
    const pass = `{ effect, as: 'done', result }, { effect, as: 'not_done' } or { effect, reconcile }`
    throw new JobtableError('config_invalid', `nothing is resolved: ${problem}; pass ${pass}`)
  }
  checkName(given['effect'])
}

type Found = { as: 'done'; result?: unknown } | { as: 'not_done' }

async function ask({ name, request, key }: StepRow, reconcile: (body: unknown, call: EffectCall) => unknown): Promise<Found> {
  const call = { key: key ?? '', signal: new AbortController().signal }
  const answer = (await reconcile(JSON.parse(request ?? 'null'), call)) as Reconciled<unknown>
  if (answer === 'not_done') return { as: 'not_done' }
  if (typeof answer === 'object' && answer !== null && 'done' in answer) return { as: 'done', result: answer.done }
  throw stillUnknown(name, 'nothing was changed')
}

function stillUnknown(name: string, what: string): JobtableError {
  return new JobtableError('effect_unknown', `the outcome of the effect ${name} is still unknown: ${what}`, {
    data: { effect: name },
  })
}

async function heldJob(store: Store, id: string): Promise<JobRow> {
  const [row] = await store.get([id])
  if (!row) throw jobNotFound(id)
  if (row.supersededBy !== null) throw superseded(row, 'has no effects to resolve')
  if (row.status === 'failed' || row.status === 'canceled') return row
  throw new JobtableError(
    'status_final',
    `job ${id} is ${row.status}: only an effect of a failed or canceled job can be resolved`,
    {
      data: { id, status: row.status },
    },
  )
}

/** One that is in doubt, or of which a person had the last word. */
function openEffect({ id }: JobRow, steps: readonly StepRow[], name: string): StepRow {
  const step = steps.find((each) => each.name === name)
  if (step && (inDoubt(step) || (step.kind === 'effect' && step.attempt === BY_PERSON))) return step
  const started = steps.filter(inDoubt).map((each) => each.name)
  const problem = step
    ? `${name} is ${step.kind === 'effect' ? 'an' : 'a'} ${step.kind} that is ${step.state}`
    : `it has no effect ${name}`
  const others = started.length === 0 ? 'none of its effects is in doubt' : `in doubt are: ${started.join(', ')}`
  throw new JobtableError('step_not_found', `nothing can be resolved of job ${id}: ${problem}; ${others}`, {
    data: { id, effect: name, started },
  })
}
