/**
 * What must hold of steps and effects. What is recorded is kept here a second time, by the rules of `src/effects/record.ts` written
 * down anew; the table must be the same after each write, and so must what a handler reads. What happens at the provider is counted.
 */
import type { FailedJob, NewStep, RecordOutcome, StepRow } from '../../src/effects/record.js'
import { PermanentError } from '../../src/handler-errors.js'
import type { Fence, InsertOutcome, JobRow, NewJob } from '../../src/store.js'
import type { Attempt } from '../../src/worker/attempt.js'
import { holds, type Arguments, type Method } from './connection.js'
import type { OnUnknown } from './effect-act.js'
import type { Payload } from './handlers.js'
import type { World } from './world.js'

interface Recorded extends NewStep {
  /** The claim under which it was written last. */
  token: string | null
}

/** One that may have happened is called with the last key and body only. */
interface Calls {
  key: string
  body: string
  /** Every key that was ever brought. */
  used: ReadonlySet<string>
  /** The last call was refused: for now, so that another request has another key, or for good, so that any next call has. */
  refused?: 'for_now' | 'for_good' | undefined
}

interface Claims {
  row(id: string): JobRow | undefined
  isLive(row: JobRow | undefined, token: string | null): boolean
}

/** The attempt that a person's word counts as. */
const NO_ATTEMPT = 0

/** The columns that a write decides. */
const COLUMNS = ['name', 'kind', 'state', 'attempt', 'request', 'key', 'value'] as const

export class EffectRules {
  readonly #world: World
  readonly #claims: Claims
  readonly #recorded = new Map<string, Map<string, Recorded>>()
  /** How often the effect of a job has happened. */
  readonly #happened = new Map<string, number>()
  /** What the calls of a job's effect brought. */
  readonly #calls = new Map<string, Calls>()
  /** Claims whose holder was told that the effect was declined for good, by `job token`. */
  readonly #declined = new Set<string>()
  /** Jobs that go on with the effects of another. Their steps are their own, and what they draw is another number. */
  readonly #heirs = new Set<string>()
  /** Claims whose holder was told that the effect had not been done, by `job token`. */
  readonly #toldNotDone = new Set<string>()

  constructor(world: World, claims: Claims) {
    this.#world = world
    this.#claims = claims
    world.provider.happened = (jobId, knowsKeys) => this.#happens(jobId, knowsKeys)
  }

  /** A call of the store has taken effect; `stored` reads the table. */
  async observe(
    method: Method,
    args: readonly unknown[],
    answer: unknown,
    stored: (jobId: string) => Promise<StepRow[]>,
  ): Promise<void> {
    switch (method) {
      case 'recordStep': {
        const [fence, step] = args as Arguments<'recordStep'>
        this.#record(fence, step, answer as RecordOutcome)
        return this.#compare(fence.id, await stored(fence.id))
      }
      case 'resolveStep': {
        const [failed, step] = args as Arguments<'resolveStep'>
        this.#resolve(failed, step, answer as boolean)
        return this.#compare(failed.id, await stored(failed.id))
      }
      case 'insert': {
        const inserted = answer as InsertOutcome[]
        for (const [i, job] of (args as Arguments<'insert'>)[0].entries()) {
          if (inserted[i]!.type !== 'inserted') continue
          this.#inherit(job)
          this.#compare(job.id, await stored(job.id))
        }
        return
      }
      case 'steps':
        return this.#compare(args[0] as string, answer as StepRow[])
      case 'repair':
        for (const id of args[0] as string[]) this.#compare(id, await stored(id))
        return
      default:
        return
    }
  }

  /** The job is deleted: another may come under its id. */
  forget(jobId: string): void {
    for (const each of [this.#recorded, this.#happened, this.#calls, this.#heirs]) each.delete(jobId)
  }

  /** One that takes the place of a failed or canceled job goes on with its effects. */
  #inherit({ id, supersedes }: NewJob): void {
    if (!supersedes || supersedes.status === 'succeeded') return
    const effects = [...this.#of(supersedes.id).values()].filter(({ kind }) => kind === 'effect')
    if (effects.length === 0) return
    this.#world.coverage.count('effect: inherited')
    this.#heirs.add(id)
    this.#recorded.set(id, new Map(effects.map((effect) => [effect.name, { ...effect }])))
    const call = this.#calls.get(supersedes.id)
    if (call) this.#calls.set(id, { ...call })
    this.#happened.set(id, this.#happened.get(supersedes.id) ?? 0)
  }

  #record({ id, token }: Fence, step: NewStep, answer: RecordOutcome): void {
    const row = this.#claims.row(id)
    const steps = this.#of(id)
    const before = steps.get(step.name)
    const held = holds(row, { id, token })
    const taken = before !== undefined && (before.state === 'done' || before.kind !== step.kind)
    const expected = !held ? 'lost' : taken ? 'taken' : 'recorded'
    this.#world.coverage.count(`record: ${answer}`)
    this.#world.note(null, () => `the ${step.kind} of ${id} is recorded as ${step.state}: ${answer}`)
    if (answer !== expected) {
      const invariant = held ? 'what is recorded stays' : 'every write is fenced'
      return this.#fail(invariant, `the ${step.kind} of ${id} was ${answer} as ${step.state}, and should be ${expected}`)
    }
    if (answer !== 'recorded') return
    if (step.state === 'started' && before?.state === 'started' && before.token !== token) this.#beginsAgain(row!, token)
    if (step.state === 'refused') this.#freed(id, this.#declined.has(`${id} ${token}`))
    this.#recorded.set(id, steps.set(step.name, { ...step, token }))
  }

  #freed(id: string, forGood: boolean): void {
    const calls = this.#calls.get(id)
    if (calls) this.#calls.set(id, { ...calls, refused: forGood || calls.refused === 'for_good' ? 'for_good' : 'for_now' })
  }

  /** An effect of unknown outcome is begun once more. */
  #beginsAgain({ id, payload }: JobRow, token: string | null): void {
    const { onUnknown } = effectOf(payload)!
    this.#world.coverage.count(`effect: begun again, ${onUnknown}`)
    if (onUnknown === 'hold')
      this.#fail('what is in doubt is held', `the effect of ${id} was begun again, and nobody had said a word`)
    if (onUnknown === 'reconcile' && !this.#toldNotDone.has(`${id} ${token}`))
      this.#fail('what is in doubt is asked for', `the effect of ${id} was begun again without the word of its provider`)
  }

  #resolve({ id, finishedAt }: FailedJob, step: Pick<NewStep, 'name' | 'state' | 'value'>, answer: boolean): void {
    const steps = this.#of(id)
    const before = steps.get(step.name)
    const row = this.#claims.row(id)
    const status = row?.status
    const isOver = (status === 'failed' || status === 'canceled') && row?.supersededBy === null
    const isOpen = before?.kind === 'effect' && (before.state === 'started' || before.attempt === NO_ATTEMPT)
    const may = isOver && isOpen && row?.finishedAt === finishedAt
    if (answer !== may)
      return this.#fail(
        'a person decides on held effects',
        `the effect of ${id}, which is ${status}, is ${before?.state}: a word on it was ${answer ? 'taken' : 'refused'}`,
      )
    if (!answer) return this.#world.coverage.count('resolve: too late')
    this.#world.coverage.count(`resolve: ${step.state}`)
    this.#world.note(null, () => `the effect of ${id} is resolved as ${step.state}`)
    if (step.state === 'refused') this.#freed(id, true)
    steps.set(step.name, { ...before!, ...step, attempt: NO_ATTEMPT })
  }

  #compare(id: string, actual: readonly StepRow[]): void {
    const expected = [...this.#of(id).values()]
    const same =
      actual.length === expected.length &&
      actual.every((row, i) => COLUMNS.every((column) => row[column] === expected[i]![column]))
    if (!same) this.#fail('what is recorded stays', `of ${id} is recorded ${textOf(actual)}, and should be ${textOf(expected)}`)
  }

  /** The function of a step is run. Whoever has lost the claim may not know what others have recorded. */
  stepRuns({ id, token }: Attempt, name: string): void {
    const recorded = this.#of(id).get(name)
    this.#world.coverage.count('step: run')
    if (recorded && holds(this.#claims.row(id), { id, token }))
      this.#fail('a recorded step is not run again', `the step of ${id} has the value ${recorded.value}, and was run again`)
  }

  /** What a handler was given as the value of a step or effect. */
  stepGave({ id, token, attempt }: Attempt, name: string, value: unknown): void {
    if (!holds(this.#claims.row(id), { id, token })) return
    const recorded = this.#of(id).get(name)
    if (recorded && recorded.attempt !== attempt) this.#world.coverage.count(`${recorded.kind}: given from the record`)
    if (recorded?.state !== 'done' || recorded.value !== JSON.stringify(value))
      this.#fail('a recorded step gives its value', `the ${name} of ${id} gave ${String(value)}, recorded is ${recorded?.value}`)
  }

  /** A call leaves for the provider. */
  called({ id, token }: Attempt, call: { key: string; body: unknown }, name: string): void {
    const body = JSON.stringify(call.body)
    const before = this.#calls.get(id)
    this.#calls.set(id, { key: call.key, body, used: new Set([...(before?.used ?? []), call.key]) })
    if (before) this.#checkCall(id, before, { key: call.key, body })
    const row = this.#claims.row(id)
    // Where clocks go wrong, a claim may have been taken over a moment ago.
    if (!this.#world.plan.clocks && !this.#claims.isLive(row, token))
      return this.#fail('one live holder', `the effect of ${id} was called without a claim in force`)
    const recorded = this.#of(id).get(name)
    if (holds(row, { id, token }) && (recorded?.state !== 'started' || recorded.key !== call.key || recorded.request !== body))
      this.#fail(
        'an effect is recorded before it is called',
        `the effect of ${id} was called, and is ${recorded?.state ?? 'not recorded'}`,
      )
  }

  #checkCall(id: string, before: Calls, { key, body }: { key: string; body: string }): void {
    const another = before.body === body ? 'key' : 'body'
    if (before.refused === undefined && (before.key !== key || before.body !== body))
      return this.#fail('an effect has one key and one request', `the effect of ${id} was called with another ${another}`)
    if (before.refused === undefined) return
    const sameKey = before.refused === 'for_now' && before.body === body
    this.#world.coverage.count(`effect: called after a refusal with the ${sameKey ? 'same' : 'another'} key`)
    if (sameKey ? before.key !== key : before.used.has(key))
      this.#fail(
        'what was refused begins anew',
        `the effect of ${id} was refused ${before.refused}, and called with ${sameKey ? 'another key' : 'a key that was used before'}`,
      )
  }

  /** A call has failed for whoever holds this claim. */
  refused({ id, token }: Attempt, error: unknown): void {
    if (error instanceof PermanentError) this.#declined.add(`${id} ${token}`)
  }

  /** The provider has answered whoever holds this claim. */
  told({ id, token }: Attempt, answer: unknown): void {
    if (answer === 'not_done') this.#toldNotDone.add(`${id} ${token}`)
  }

  #happens(id: string, knowsKeys: boolean): void {
    const times = (this.#happened.get(id) ?? 0) + 1
    this.#happened.set(id, times)
    this.#world.coverage.count('provider: something happened')
    // Without keys all depends on the claim, which is a promise about time.
    if (times > 1 && (knowsKeys || !this.#world.plan.clocks))
      this.#fail('effects happen once', `the effect of ${id} happened ${times} times at its provider`)
  }

  /** The job is about to be called succeeded. */
  succeeded({ id, payload }: JobRow): void {
    const effect = effectOf(payload)
    if (!effect) return
    const recorded = [...this.#of(id).values()].find(({ kind }) => kind === 'effect')
    this.#world.coverage.count(`effect: its job succeeded, ${effect.onUnknown}`)
    // A job of the same business key, or one of the same id that is deleted, has the same key at the provider.
    const happened = this.#world.provider.receiptOf(recorded?.key ?? '') !== undefined
    if (recorded?.state !== 'done' || !happened)
      this.#fail(
        'effects happen once',
        `${id} succeeded, its effect is ${recorded?.state ?? 'not recorded'}, and has ${happened ? '' : 'not '}happened`,
      )
  }

  isHeir(id: string): boolean {
    return this.#heirs.has(id)
  }

  inDoubt(id: string): boolean {
    return [...this.#of(id).values()].some(({ kind, state }) => kind === 'effect' && state === 'started')
  }

  #of(id: string): Map<string, Recorded> {
    return this.#recorded.get(id) ?? new Map<string, Recorded>()
  }

  #fail(invariant: string, detail: string): void {
    this.#world.fail(invariant, detail)
  }
}

function effectOf(payload: string): { onUnknown: OnUnknown } | undefined {
  return (JSON.parse(payload) as Payload).effect
}

/** Without keys and requests, which hold ids in a form that no run repeats. */
function textOf(steps: readonly NewStep[]): string {
  return steps.length === 0
    ? 'nothing'
    : steps.map(({ name, state, attempt }) => `${name} ${state} by attempt ${attempt}`).join(', ')
}
