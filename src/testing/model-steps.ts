/** The steps of the model store: rows by job and name, in the order in which they began. */
import { BY_PERSON, type NewStep, type RecordOutcome, type StepRow } from '../effects/record.js'

export class ModelSteps {
  readonly #jobs = new Map<string, Map<string, StepRow>>()

  of(jobId: string): StepRow[] {
    return [...(this.#jobs.get(jobId)?.values() ?? [])]
  }

  /** Whether nobody knows of an effect whether it has happened. */
  inDoubt(jobId: string): boolean {
    return this.of(jobId).some(({ kind, state }) => kind === 'effect' && state === 'started')
  }

  record(jobId: string, step: NewStep, now: number): RecordOutcome {
    const steps = this.#jobs.get(jobId) ?? new Map<string, StepRow>()
    const before = steps.get(step.name)
    if (before !== undefined && (before.state === 'done' || before.kind !== step.kind)) return 'taken'
    this.#jobs.set(jobId, steps)
    steps.set(step.name, {
      ...step,
      jobId,
      startedAt: before?.startedAt ?? now,
      endedAt: step.state === 'started' ? null : now,
    })
    return 'recorded'
  }

  /** The row as it now is; undefined for one that is neither a started effect nor a person's word. */
  resolve(jobId: string, step: Pick<NewStep, 'name' | 'state' | 'value'>, now: number): StepRow | undefined {
    const steps = this.#jobs.get(jobId)
    const before = steps?.get(step.name)
    if (before?.kind !== 'effect' || (before.state !== 'started' && before.attempt !== BY_PERSON)) return undefined
    const after = { ...before, ...step, attempt: BY_PERSON, endedAt: now }
    steps!.set(step.name, after)
    return after
  }

  /** The effects of a job that failed or was canceled go on with the job that takes its key over. */
  inherit(heir: string, old: string): void {
    const effects = this.of(old).filter(({ kind }) => kind === 'effect')
    if (effects.length > 0) this.#jobs.set(heir, new Map(effects.map((row) => [row.name, { ...row, jobId: heir }])))
  }

  forget(jobId: string): void {
    this.#jobs.delete(jobId)
  }
}
