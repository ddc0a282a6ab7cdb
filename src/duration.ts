import { JobtableError } from './errors.js'

const UNITS = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 } as const

/** A length of time with its unit, such as `'500ms'`, `'30s'`, `'5m'`, `'2h'` or `'7d'`. */
export type Duration = `${number}${keyof typeof UNITS}`

/** The milliseconds of a duration. Throws `duration_invalid` for anything else, a bare number included. */
export function parseDuration(duration: Duration): number {
  const match = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)$/.exec(duration)
  if (!match) {
    throw new JobtableError(
      'duration_invalid',
      `${JSON.stringify(duration)} is no duration: write a number and a unit, such as '500ms', '30s', '5m', '2h' or '7d'`,
      { data: { value: duration } },
    )
  }
  return Math.round(Number(match[1]) * UNITS[match[2] as keyof typeof UNITS])
}
