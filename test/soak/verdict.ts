/**
 * What a soak has shown, from what everybody wrote down and what the database says in the end. Pure.
 *
 * - lost: a job that was acknowledged and is not there, or that has succeeded though no run of it came to its end
 * - finished twice: a job that has ended more often than once, by the database's own count or by what workers were told; or that was
 *   started again after its end
 * - stranded: a job that has not ended though everything was mended and there was time
 * - effects off by: by how many rows the transactional effects differ from one for each job; orders and their jobs that do not pair
 * - keys doubled: a key with more than one job
 * - unexplained: a job that was started again though its earlier run had not thrown, and was met by nothing: no kill, no break, no short
 *   lease that ran out
 *
 * The recovery time of a job is from the kill of the worker that ran it to its next start.
 */
import { EFFECTS } from './effects.js'
import type { Line } from './ledger.js'
import type { JobFacts, Tables } from './product.js'

type Started = Line & { what: 'started' }

export interface Recoveries {
  count: number
  /** Milliseconds; NaN where there are none. */
  p50: number
  max: number
}

export interface Verdict {
  jobs: number
  runs: number
  kills: number
  /** Of each kind of break, how many. */
  breaks: Record<string, number>
  lost: string[]
  finishedTwice: string[]
  stranded: string[]
  effectsOffBy: number
  keysDoubled: string[]
  unexplained: string[]
  /** Those where nothing else was broken between the kill and the start. */
  recovery: Recoveries
  /** Those where something was: the database away, another worker frozen, or the next one killed before it had started the job. */
  recoveryInBreaks: Recoveries
  ok: boolean
}

export function judge(lines: readonly Line[], tables: Tables): Verdict {
  const jobs = new Map(tables.jobs.map((job) => [job.id, job]))
  const runs = runsByJob(lines)
  const breaks = lines.filter((line) => line.what === 'broken')
  const verdict = {
    jobs: jobs.size,
    runs: lines.filter(({ what }) => what === 'started').length,
    // A process that is killed just as it kills itself is written down twice.
    kills: killedAt(lines).size,
    breaks: countBy(breaks.map(({ how }) => how)),
    lost: lost(lines, tables, jobs),
    finishedTwice: finishedTwice(lines, tables, jobs, runs),
    stranded: tables.jobs.filter(({ status }) => !FINAL.has(status)).map(({ id }) => id),
    effectsOffBy: effectsOffBy(lines, tables, jobs),
    keysDoubled: keysDoubled(lines, tables.jobs),
    unexplained: unexplained(lines, runs),
    ...recoveries(lines, runs),
  }
  const { lost: gone, finishedTwice: twice, stranded, keysDoubled: doubled, unexplained: odd } = verdict
  return {
    ...verdict,
    ok: [gone, twice, stranded, doubled, odd].every(({ length }) => length === 0) && verdict.effectsOffBy === 0,
  }
}

const FINAL: ReadonlySet<string> = new Set(['succeeded', 'failed', 'canceled'])

/** So close to the end of a freeze a start is one that it interrupted. Milliseconds. */
const THAW_MS = 100

function lost(lines: readonly Line[], { effects }: Tables, jobs: ReadonlyMap<string, JobFacts>): string[] {
  const acknowledged = new Set(lines.flatMap((line) => (line.what === 'acknowledged' ? [line.id] : [])))
  const completing = new Set(EFFECTS.flatMap(({ name, completes }) => (completes ? [name] : [])))
  const done = new Set([
    ...lines.flatMap((line) => (line.what === 'ended' && line.how === 'returned' ? [line.id] : [])),
    // Its effect was its end: its worker may have been killed before it could say so.
    ...effects.flatMap(({ effect, jobId }) => (completing.has(effect) ? [jobId] : [])),
  ])
  const succeeded = [...jobs.values()].filter(({ status }) => status === 'succeeded')
  return [...[...acknowledged].filter((id) => !jobs.has(id)), ...succeeded.filter(({ id }) => !done.has(id)).map(({ id }) => id)]
}

function finishedTwice(
  lines: readonly Line[],
  { ends }: Tables,
  jobs: ReadonlyMap<string, JobFacts>,
  runs: ReadonlyMap<string, Started[]>,
): string[] {
  const ended = countBy(ends)
  const told = countBy(lines.flatMap((line) => (line.what === 'settled' ? [line.id] : [])))
  const otherwise = lines.filter((line) => line.what === 'settled' && jobs.get(line.id)?.status !== line.status)
  const thaws = lines.filter((line) => line.what === 'broken').filter(({ how }) => how === 'frozen')
  // A start that a freeze cuts in two, between the look at the lease and the handler, is no fault: docs/guarantees.md says so.
  const cutInTwo = (start: Started): boolean =>
    thaws.some(({ pids, at }) => pids.includes(start.pid) && Math.abs(at - start.at) < THAW_MS)
  const again = [...runs].filter(([id, starts]) => {
    const finishedAt = jobs.get(id)?.finishedAt ?? null
    // The start is known to the millisecond only.
    return finishedAt !== null && starts.some((start) => start.at > finishedAt + 1 && !cutInTwo(start))
  })
  return unique([
    // One that the database has counted and does not have is as wrong as two of one.
    ...Object.keys(ended).filter((id) => ended[id]! > 1 || !jobs.has(id)),
    ...Object.keys(told).filter((id) => told[id]! > 1),
    ...otherwise.map((line) => (line.what === 'settled' ? line.id : '')),
    ...again.map(([id]) => id),
  ])
}

function effectsOffBy(
  lines: readonly Line[],
  { jobs: rows, orders, effects }: Tables,
  jobs: ReadonlyMap<string, JobFacts>,
): number {
  const had = countBy(effects.map(({ effect, jobId }) => `${effect} ${jobId}`))
  const off = EFFECTS.flatMap(({ name, type }) =>
    rows
      .filter((job) => job.type === type)
      .map(({ id, status }) => {
        const count = had[`${name} ${id}`] ?? 0
        return status === 'succeeded' ? Math.abs(count - 1) : Math.max(0, count - 1)
      }),
  )
  const acknowledged = unique(lines.flatMap((line) => (line.what === 'effect' ? [`${line.effect} ${line.id}`] : [])))
  const gone = acknowledged.filter((effect) => !(effect in had))
  const ofNobody = effects.filter(({ jobId }) => !jobs.has(jobId))
  const namesOf = (type: string): string[] => rows.filter((job) => job.type === type).map(({ name }) => name)
  const shipped = effects.filter(({ effect }) => effect === 'ship').map(({ jobId }) => jobs.get(jobId)?.name ?? '')
  const sum = off.reduce((all, each) => all + each, 0)
  return sum + gone.length + ofNobody.length + unpaired(orders, namesOf('order')) + unpaired(shipped, namesOf('receipt'))
}

/** How many of each have no partner among the others. */
function unpaired(some: readonly string[], others: readonly string[]): number {
  const [here, there] = [countBy(some), countBy(others)]
  return unique([...some, ...others]).reduce((sum, name) => sum + Math.abs((here[name] ?? 0) - (there[name] ?? 0)), 0)
}

function keysDoubled(lines: readonly Line[], jobs: readonly JobFacts[]): string[] {
  const rows = countBy(jobs.filter(({ type }) => type !== 'plain').map(({ type, name }) => `${type} ${name}`))
  const answers = new Map<string, Set<string>>()
  for (const line of lines) {
    if (line.what !== 'acknowledged' || line.key === undefined) continue
    answers.set(line.key, (answers.get(line.key) ?? new Set()).add(line.id))
  }
  return unique([
    ...Object.keys(rows).filter((key) => rows[key]! > 1),
    ...[...answers].filter(([, ids]) => ids.size > 1).map(([key]) => key),
  ])
}

/** The runs of each job, in order. */
function runsByJob(lines: readonly Line[]): Map<string, Started[]> {
  const runs = new Map<string, Started[]>()
  for (const line of lines) {
    if (line.what !== 'started') continue
    const those = runs.get(line.id)
    if (those) those.push(line)
    else runs.set(line.id, [line])
  }
  for (const those of runs.values()) those.sort((a, b) => a.at - b.at)
  return runs
}

function unexplained(lines: readonly Line[], runs: ReadonlyMap<string, Started[]>): string[] {
  const threw = new Set(lines.flatMap((line) => (line.what === 'ended' && line.how === 'threw' ? [runKey(line)] : [])))
  // A short lease may run out by itself where the machine is busy; the default one outlives all that is done here.
  const lostBy = new Set(
    lines.flatMap((line) => (line.what === 'lease_lost' && line.lease === 'short' ? [`${line.id} ${line.pid}`] : [])),
  )
  const killed = killedAt(lines)
  const breaks = lines.filter((line) => line.what === 'broken')
  const explained = (run: Started, next: Started): boolean =>
    threw.has(runKey(run)) ||
    (killed.get(run.pid) ?? Infinity) <= next.at ||
    lostBy.has(`${run.id} ${run.pid}`) ||
    breaks.some(({ pids, from, at }) => (pids.length === 0 || pids.includes(run.pid)) && from <= next.at && at >= run.at)
  return [...runs].filter(([, those]) => those.slice(1).some((next, i) => !explained(those[i]!, next))).map(([id]) => id)
}

function recoveries(
  lines: readonly Line[],
  runs: ReadonlyMap<string, Started[]>,
): { recovery: Recoveries; recoveryInBreaks: Recoveries } {
  const ended = new Set(lines.flatMap((line) => (line.what === 'ended' ? [runKey(line)] : [])))
  const killed = killedAt(lines)
  // Who is deployed holds up nobody.
  const breaks = lines.filter((line) => line.what === 'broken').filter(({ how }) => how !== 'deployed')
  const [alone, inBreaks]: [number[], number[]] = [[], []]
  for (const those of runs.values()) {
    those.forEach((run, i) => {
      const at = killed.get(run.pid)
      const next = those.slice(i + 1).find((later) => later.pid !== run.pid && at !== undefined && later.at >= at)
      // A run that was over when its worker was killed, or whose job somebody else ran already, had nothing to be recovered.
      if (at === undefined || !next || ended.has(runKey(run)) || those[i + 1] !== next) return
      const claimedBetween = next.attempt > run.attempt + 1
      const met = claimedBetween || breaks.some((broken) => broken.from <= next.at && broken.at >= at)
      ;(met ? inBreaks : alone).push(next.at - at)
    })
  }
  return { recovery: spread(alone), recoveryInBreaks: spread(inBreaks) }
}

/** When each process was killed that was. */
function killedAt(lines: readonly Line[]): Map<number, number> {
  return new Map(lines.flatMap((line) => (line.what === 'killed' ? [[line.pid, line.at] as const] : [])))
}

const runKey = ({ id, pid, attempt }: { id: string; pid: number; attempt: number }): string => `${id} ${pid} ${attempt}`

function spread(times: readonly number[]): Recoveries {
  const sorted = [...times].sort((a, b) => a - b)
  return { count: sorted.length, p50: sorted[(sorted.length - 1) >> 1] ?? Number.NaN, max: sorted.at(-1) ?? Number.NaN }
}

function countBy(words: readonly string[]): Record<string, number> {
  const counts: Record<string, number> = {}
  for (const word of words) counts[word] = (counts[word] ?? 0) + 1
  return counts
}

const unique = (words: readonly string[]): string[] => [...new Set(words)]

/** The verdict in one line. */
export function verdictLine(verdict: Verdict): string {
  const {
    jobs,
    runs,
    kills,
    breaks,
    lost: gone,
    finishedTwice: twice,
    stranded,
    effectsOffBy: off,
    recovery,
    recoveryInBreaks,
  } = verdict
  const broken = Object.entries(breaks).map(([how, count]) => `${how} ${count}`)
  return [
    `${verdict.ok ? 'held' : 'BROKEN'}: ${[`jobs ${jobs}`, `runs ${runs}`, `kills ${kills}`, ...broken].join(', ')}`,
    `jobs lost ${gone.length}, finished twice ${twice.length}, stranded ${stranded.length}, transactional effects off by ${off}` +
      `, keys doubled ${verdict.keysDoubled.length}, runs unexplained ${verdict.unexplained.length}`,
    `recovery ${inSeconds(recovery)}; with something else broken meanwhile ${inSeconds(recoveryInBreaks)}`,
  ].join(' | ')
}

function inSeconds({ count, p50, max }: Recoveries): string {
  if (count === 0) return 'of none'
  const seconds = (ms: number): string => `${(ms / 1_000).toFixed(1)} s`
  return `of ${count}: p50 ${seconds(p50)}, max ${seconds(max)}`
}
