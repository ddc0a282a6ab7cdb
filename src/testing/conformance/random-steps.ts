/** The steps of a random sequence: plain data, which fast-check can shrink and print. `random-player.ts` carries them out. */
import type { Arbitrary } from 'fast-check'

export type FastCheck = typeof import('fast-check')

/** A small number that says which job, claim or worker is meant, modulo how many there are. */
export type Pick = number

/** The claim's own token, one that nobody has, or none. */
export type Token = 'own' | 'wrong' | 'none'

export interface JobSpec {
  type: Pick
  queue: Pick
  priority: number
  key: Pick | null
  delayMs: number
  maxAttempts: number | null
  /** Asks to take the key over from the present holder, whatever its status. */
  takesOver: boolean
  takenId: boolean
}

export interface SettleSpec {
  claim: Pick
  outcome: Pick
  token: Token
  /** Decides as a holder would that has not heard of the request to cancel. */
  overlooksCancel: boolean
  keepForMs: number | null
}

export type Step =
  | { do: 'insert'; jobs: JobSpec[] }
  | { do: 'claim'; worker: Pick; limit: number; types: Pick[]; queues: Pick[]; settlements: SettleSpec[] }
  | { do: 'settle'; settlements: SettleSpec[] }
  | { do: 'report'; claim: Pick; token: Token; stage: string; progress: number | null; events: number; text: number }
  | { do: 'heartbeat'; worker: Pick }
  | { do: 'retire'; worker: Pick }
  | { do: 'cancel'; jobs: Pick[]; by: string | null }
  | { do: 'repair'; jobs: Pick[]; by: string | null }
  | { do: 'prune'; retention: Pick }
  | { do: 'advance'; ms: number }
  | { do: 'recover' }

export function sequences(fc: FastCheck): Arbitrary<Step[]> {
  const pick = fc.nat({ max: 30 })
  const sometimes = fc.constantFrom(false, false, false, false, true)
  const token = fc.constantFrom<Token[]>('own', 'own', 'own', 'own', 'own', 'own', 'wrong', 'none')
  const job: Arbitrary<JobSpec> = fc.record({
    type: pick,
    queue: fc.constantFrom(0, 0, 1),
    priority: fc.integer({ min: -1, max: 1 }),
    key: fc.option(fc.nat({ max: 2 })),
    delayMs: fc.constantFrom(0, 0, 10, 50),
    maxAttempts: fc.constantFrom(null, 1, 2),
    takesOver: fc.boolean(),
    takenId: sometimes,
  })
  const settlement: Arbitrary<SettleSpec> = fc.record({
    claim: pick,
    outcome: pick,
    token,
    overlooksCancel: fc.boolean(),
    keepForMs: fc.constantFrom(null, 25, 2_005, 2_005),
  })
  const settlements = fc.array(settlement, { maxLength: 3 })
  const jobs = fc.array(pick, { minLength: 1, maxLength: 6 })
  const by = fc.constantFrom(null, 'ann')
  const weighed: [weight: number, step: Arbitrary<Step>][] = [
    [4, fc.record({ do: fc.constant('insert'), jobs: fc.array(job, { minLength: 1, maxLength: 3 }) })],
    [
      6,
      fc.record({
        do: fc.constant('claim'),
        worker: pick,
        limit: fc.nat({ max: 4 }),
        types: fc.constantFrom([0, 1], [0, 1], [0]).map((types): Pick[] => [...types]),
        queues: fc.constantFrom([0, 1], [1, 0], [0]).map((queues): Pick[] => [...queues]),
        settlements,
      }),
    ],
    [5, fc.record({ do: fc.constant('settle'), settlements })],
    [
      2,
      fc.record({
        do: fc.constant('report'),
        claim: pick,
        token,
        stage: fc.constantFrom('generating', 'uploading'),
        progress: fc.constantFrom(null, 0, 0.25, 1 / 3, 1),
        events: fc.nat({ max: 2 }),
        text: fc.constantFrom(0, 0, 1, 3),
      }),
    ],
    [2, fc.record({ do: fc.constant('heartbeat'), worker: pick })],
    [1, fc.record({ do: fc.constant('retire'), worker: pick })],
    [2, fc.record({ do: fc.constant('cancel'), jobs, by })],
    [3, fc.record({ do: fc.constant('repair'), jobs, by })],
    [2, fc.record({ do: fc.constant('prune'), retention: pick })],
    [4, fc.record({ do: fc.constant('advance'), ms: fc.constantFrom(10, 50, 120) })],
    [2, fc.record({ do: fc.constant('recover') })],
  ]
  const step = fc.oneof(...weighed.map(([weight, arbitrary]) => ({ weight, arbitrary })))
  return fc.array(step, { minLength: 1, maxLength: 50, size: 'max' })
}
