/** npm run soak -- --store sqlite|postgres [--kills N] [--minutes N] [--seed N] [--json FILE]: see README.md. */
import { randomInt } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { parseArgs } from 'node:util'
import { soak, type SoakOptions } from './soak.js'
import { verdictLine } from './verdict.js'

const USAGE =
  'usage: npm run soak -- --store sqlite|postgres [--kills N] [--minutes N] [--seed N] [--json FILE], with kills or minutes or both'

function readOptions(): Omit<SoakOptions, 'say'> & { json: string | undefined } {
  const { values } = parseArgs({
    options: {
      store: { type: 'string' },
      kills: { type: 'string' },
      minutes: { type: 'string' },
      seed: { type: 'string' },
      json: { type: 'string' },
    },
  })
  const { store } = values
  if (store !== 'sqlite' && store !== 'postgres') throw new Error(`--store must be sqlite or postgres\n${USAGE}`)
  if (values.kills === undefined && values.minutes === undefined) throw new Error(USAGE)
  return {
    store,
    kills: positive('kills', values.kills) ?? Infinity,
    ms: (positive('minutes', values.minutes) ?? Infinity) * 60_000,
    seed: positive('seed', values.seed) ?? randomInt(1, 2 ** 31),
    json: values.json,
  }
}

function positive(name: string, text: string | undefined): number | undefined {
  if (text === undefined) return undefined
  const value = Number(text)
  if (value > 0 && Number.isFinite(value)) return value
  throw new Error(`--${name} must be a number above 0, not ${text}\n${USAGE}`)
}

async function main(): Promise<number> {
  let options: ReturnType<typeof readOptions>
  try {
    options = readOptions()
  } catch (error) {
    console.error(error instanceof Error ? error.message : error)
    return 2
  }
  const interrupted = new AbortController()
  for (const name of ['SIGINT', 'SIGTERM'] as const)
    process.on(name, () => interrupted.abort(new Error(`ended by ${name}, without a verdict`)))
  console.log(`${options.store}, seed ${options.seed}`)
  try {
    const result = await soak({ ...options, say: (line) => console.log(line), signal: interrupted.signal })
    const { verdict } = result
    if (options.json !== undefined) writeFileSync(options.json, JSON.stringify(result))
    if (!verdict.ok) console.error(JSON.stringify(verdict, null, 2))
    console.log(verdictLine(verdict))
    return verdict.ok ? 0 : 1
  } catch (error) {
    if (!interrupted.signal.aborted) throw error
    console.error((error as Error).message)
    return 130
  }
}

// What was interrupted may still be waiting for something.
process.exit(await main())
