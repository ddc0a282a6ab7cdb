/**
 * What TypeScript refuses and JavaScript does not: an option that nobody reads, because its name is misspelt. What it was to say would be
 * ignored in silence.
 */
import { JobtableError } from './errors.js'

/** Each name that the options may have; the compiler sees to it that none is missing. */
export type OptionNames<Options> = Readonly<Record<Options extends unknown ? keyof Options & string : never, true>>

/** Throws `config_invalid` for an option that is not one of these. `where` is what the options were given to. */
export function checkOptionNames<Options>(where: string, options: Options, names: OptionNames<Options>): void {
  for (const name in options) {
    if ((names as Readonly<Record<string, unknown>>)[name] !== true) throw unknownOption(where, name, Object.keys(names))
  }
}

function unknownOption(where: string, name: string, names: readonly string[]): JobtableError {
  const meant = nearest(name, names)
  const hint = meant === undefined ? '' : ` (did you mean ${meant}?)`
  return new JobtableError(
    'config_invalid',
    `${where} has no option ${JSON.stringify(name)}${hint}; there are: ${names.join(', ')}`,
    { data: { option: name, ...(meant !== undefined && { meant }) } },
  )
}

/** The name that is fewest changes away, if that is not another word. */
function nearest(name: string, names: readonly string[]): string | undefined {
  const distances = names.map((known) => ({ known, changes: changesBetween(name.toLowerCase(), known.toLowerCase()) }))
  const [best] = distances.sort((a, b) => a.changes - b.changes)
  return best && best.changes <= Math.max(1, Math.floor(best.known.length / 3)) ? best.known : undefined
}

/** How many letters must be put in, left out, replaced or swapped with their neighbours: the optimal string alignment distance. */
function changesBetween(a: string, b: string): number {
  const rows = Array.from({ length: a.length + 1 }, (_, i) => [i])
  rows[0] = Array.from({ length: b.length + 1 }, (_, j) => j)
  for (let i = 1; i <= a.length; i++) {
    for (let j = 1; j <= b.length; j++) {
      const replaced = rows[i - 1]![j - 1]! + (a[i - 1] === b[j - 1] ? 0 : 1)
      const swapped = a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1] ? rows[i - 2]![j - 2]! + 1 : Infinity
      rows[i]![j] = Math.min(rows[i - 1]![j]! + 1, rows[i]![j - 1]! + 1, replaced, swapped)
    }
  }
  return rows[a.length]![b.length]!
}
