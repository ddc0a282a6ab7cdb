/** What the timeline says of an effect that a person has resolved, in both stores. */
import type { StepState } from '../effects/record.js'

export function resolution(name: string, state: StepState, by: string | null): { message: string; data: string } {
  const found = state === 'done' ? 'it was done' : 'it was not done'
  return {
    message: `the effect ${name} is resolved${by === null ? '' : ` by ${by}`}: ${found}`,
    data: JSON.stringify({ effect: name, state, ...(by !== null && { by }) }),
  }
}
