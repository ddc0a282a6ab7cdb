/** The short form of `npm run soak` on one store, and that its verdict sees what is to be seen. */
import { beforeAll, describe, expect, it } from 'vitest'
import type { BreakKind, Line } from './ledger.js'
import { soak, type SoakResult } from './soak.js'
import { judge, verdictLine, type Verdict } from './verdict.js'

const KILLS = 10

/** `breaks`: each way in which the database breaks, once. */
export function describeSoak(store: 'sqlite' | 'postgres', breaks: readonly BreakKind[]): void {
  describe(`ten kills on ${store}, and whatever else breaks`, () => {
    describeRun(store, breaks)
  })
}

function describeRun(store: 'sqlite' | 'postgres', breaks: readonly BreakKind[]): void {
  let result: SoakResult
  beforeAll(async () => {
    result = await soak({ store, kills: KILLS, ms: Infinity, seed: 4, say: () => {} })
    console.log(`${store}: ${verdictLine(result.verdict)}`)
  }, 120_000)

  it('lose no job, end none twice, strand none, and each effect is had once', () => {
    expect(result.verdict).toMatchObject({
      kills: KILLS,
      breaks: Object.fromEntries(['frozen', 'deployed', ...breaks].map((how) => [how, 1])),
      lost: [],
      finishedTwice: [],
      stranded: [],
      effectsOffBy: 0,
      keysDoubled: [],
      unexplained: [],
      ok: true,
    })
  })

  it('meet jobs of every type', () => {
    const done = result.tables.jobs.filter(({ status }) => status === 'succeeded')
    expect([...new Set(done.map(({ type }) => type))].sort()).toEqual(['charge', 'credit', 'keyed', 'order', 'plain', 'receipt'])
  })

  it('meet jobs that run, which run again', () => {
    expect(result.verdict.jobs).toBeGreaterThan(50)
    expect(result.verdict.runs).toBeGreaterThan(result.verdict.jobs)
    expect(result.verdict.recovery.count + result.verdict.recoveryInBreaks.count).toBeGreaterThan(0)
  })

  describe('the verdict does not hold', () => {
    const broken = (change: (facts: Pick<SoakResult, 'tables'> & { lines: Line[] }) => void): Verdict => {
      const facts = structuredClone({ lines: [...result.lines], tables: result.tables })
      change(facts)
      return judge(facts.lines, facts.tables)
    }
    const find = <What extends Line['what']>(lines: readonly Line[], what: What): Line & { what: What } =>
      lines.find((line): line is Line & { what: What } => line.what === what)!
    const aJob = (type: string) => result.tables.jobs.find((job) => job.type === type && job.status === 'succeeded')!

    it('when a row that was acknowledged is gone', () => {
      const { id } = find(result.lines, 'acknowledged')
      const verdict = broken(({ tables }) => void (tables.jobs = tables.jobs.filter((job) => job.id !== id)))
      expect(verdict).toMatchObject({ lost: [id], ok: false })
    })

    it('when a job has succeeded and nobody has run it to its end', () => {
      const { id } = aJob('plain')
      const verdict = broken(
        (facts) => void (facts.lines = facts.lines.filter((line) => line.what !== 'ended' || line.id !== id)),
      )
      expect(verdict).toMatchObject({ lost: [id], ok: false })
    })

    it('when the database has ended a job twice', () => {
      const { id } = aJob('plain')
      expect(broken(({ tables }) => void tables.ends.push(id))).toMatchObject({ finishedTwice: [id], ok: false })
    })

    it('when two workers were told that they have ended the same job', () => {
      const settled = find(result.lines, 'settled')
      expect(broken(({ lines }) => void lines.push(settled))).toMatchObject({ finishedTwice: [settled.id], ok: false })
    })

    it('when a job starts after its end', () => {
      const { id, finishedAt } = aJob('plain')
      const line: Line = { what: 'started', id, type: 'plain', attempt: 9, pid: 1, at: finishedAt! + 1_000 }
      expect(broken(({ lines }) => void lines.push(line))).toMatchObject({ finishedTwice: [id], ok: false })
    })

    it('when a job is left running', () => {
      const { id } = aJob('keyed')
      const verdict = broken(({ tables }) => void (tables.jobs.find((job) => job.id === id)!.status = 'running'))
      expect(verdict).toMatchObject({ stranded: [id], ok: false })
    })

    it('when an effect is missing, had twice, or of a job that is not there', () => {
      expect(broken(({ tables }) => void tables.effects.pop())).toMatchObject({ ok: false })
      const effect = { effect: 'ship', jobId: aJob('order').id }
      expect(broken(({ tables }) => void tables.effects.push(effect))).toMatchObject({ ok: false })
      expect(broken(({ tables }) => void tables.effects.push({ ...effect, jobId: 'nobody' }))).toMatchObject({ ok: false })
    })

    it('when an order and its job do not pair', () => {
      expect(broken(({ tables }) => void tables.orders.pop())).toMatchObject({ effectsOffBy: 1, ok: false })
      expect(broken(({ tables }) => void tables.orders.push('another'))).toMatchObject({ effectsOffBy: 1, ok: false })
    })

    it('when a key has two jobs, or two answers', () => {
      const job = aJob('keyed')
      const key = `keyed ${job.name}`
      expect(broken(({ tables }) => void tables.jobs.push({ ...job, id: 'another', status: 'failed' }))).toMatchObject({
        keysDoubled: [key],
        ok: false,
      })
      const line: Line = { what: 'acknowledged', id: aJob('plain').id, key, pid: 1, at: 1 }
      expect(broken(({ lines }) => void lines.push(line, { ...line, id: job.id }))).toMatchObject({
        keysDoubled: [key],
        ok: false,
      })
    })

    it('when a job runs again and nothing was broken before, nor a short lease lost', () => {
      const { id, finishedAt } = aJob('receipt')
      const runsOf = (pid: number, at: number): Line => ({ what: 'started', id, type: 'receipt', attempt: pid, pid, at })
      const twice = (...more: Line[]): Verdict =>
        broken((facts) => {
          facts.lines = facts.lines.filter((line) => line.what !== 'broken' && !(line.what === 'started' && line.id === id))
          facts.lines.push(runsOf(1, finishedAt! - 2), runsOf(2, finishedAt! - 1), ...more)
        })
      const lost = (lease: 'short' | 'default'): Line => ({ what: 'lease_lost', id, lease, pid: 1, at: finishedAt! })
      expect(twice()).toMatchObject({ unexplained: expect.arrayContaining([id]) as string[], ok: false })
      expect(twice(lost('default')).unexplained).toContain(id)
      expect(twice(lost('short')).unexplained).not.toContain(id)
      const killed = (at: number): Line => ({ what: 'killed', moment: 'anywhere', pid: 1, at })
      expect(twice(killed(finishedAt!)).unexplained).toContain(id)
      expect(twice(killed(finishedAt! - 2)).unexplained).not.toContain(id)
    })
  })
}
