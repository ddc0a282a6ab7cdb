import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { PublicJob } from '../../src/http/index.js'
import { signToken } from '../../src/http/index.js'
import { EventReader, finished, followed, place, SECRET, type Place } from './support.js'

async function watch({ ask, token }: Place, id: string, headers: Record<string, string> = {}): Promise<EventReader> {
  return new EventReader(await ask(`/jobs/${id}/events`, await token(id), { headers }))
}

describe('a stream', () => {
  it('begins with the job as it is, shows every stage of a running one, and ends with the end', async () => {
    const made = await place()
    const job = await made.enqueue()
    const page = await watch(made, job.id)
    expect((await page.next())!.retry).toMatch(/^[123]\d{3}$/)
    expect(await page.job()).toMatchObject({ status: 'pending' })
    made.queue.work()
    const stages = ['drawing', 'saving', 'ready']
    const seen: PublicJob[] = []
    for (const stage of stages) {
      await made.lead(job.id).tell((context) => context.stage(stage))
      seen.push(await page.job((now) => now.stage?.key === stage))
    }
    made.lead(job.id).end({ pages: 3 })
    const rest = await page.rest()
    expect(JSON.parse(rest.at(-2)!.data!)).toMatchObject({ status: 'succeeded', final: true, result: { pages: 3 } })
    expect(rest.at(-1)).toEqual({ event: 'end', data: '{}' })
    const revs = seen.map(({ rev }) => rev)
    expect(revs).toEqual([...new Set(revs)].toSorted((a, b) => a - b))
  })
  it('lets go of a reader who does not take the rest of it', async () => {
    const made = await place()
    const job = await made.enqueue()
    const response = await made.ask(`/jobs/${job.id}/events`, await made.token(job.id))
    const idle = response.body!.getReader()
    vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    await made.handler.close()
    await vi.advanceTimersByTimeAsync(5_000)
    await expect(idle.closed).rejects.toThrow('the reader takes nothing')
  })
  it('numbers its events by rev, and shows a reader that comes back only what they have not seen', async () => {
    const made = await place()
    const job = await made.enqueue()
    const first = await watch(made, job.id)
    await first.next()
    const event = (await first.next())!
    expect(event.id).toBe(String((JSON.parse(event.data!) as PublicJob).rev))
    await first.leave()
    const back = await watch(made, job.id, { 'last-event-id': event.id! })
    await back.next()
    made.queue.work()
    await made.lead(job.id).tell((context) => context.stage('drawing'))
    expect((await back.job()).rev).toBeGreaterThan(Number(event.id))
  })
  it('ends at once for a job that is over, and keeps a browser that has seen it from coming back', async () => {
    const made = await place()
    const job = await finished(made, 'done')
    const [, shown, end] = await (await watch(made, job.id)).rest()
    expect([shown!.event, end!.event]).toEqual(['job', 'end'])
    const again = await made.ask(`/jobs/${job.id}/events`, await made.token(job.id), { headers: { 'last-event-id': shown!.id! } })
    expect([again.status, again.body]).toEqual([204, null])
  })
  it('tells proxies to pass it on as it comes, and browsers that it is no page', async () => {
    const made = await place()
    const job = await made.enqueue()
    const { headers } = await made.ask(`/jobs/${job.id}/events`, await made.token(job.id))
    expect(Object.fromEntries(headers)).toMatchObject({
      'content-type': 'text/event-stream; charset=utf-8',
      'cache-control': 'no-cache, no-transform',
      'x-accel-buffering': 'no',
      'x-content-type-options': 'nosniff',
    })
  })
  it('of many jobs tells of each, of those that are gone, and ends with the last', async () => {
    const made = await place()
    const jobs = [await made.enqueue(), await made.enqueue()]
    const ids = jobs.map(({ id }) => id)
    const response = await made.ask('/jobs/events', await made.token([...ids, 'pruned']))
    const page = new EventReader(response)
    made.queue.work()
    for (const id of ids) made.lead(id).end(`the result of ${id}`)
    const events = await page.rest()
    const last = new Map(
      events.filter(({ event }) => event === 'job').map(({ data }) => [(JSON.parse(data!) as PublicJob).id, JSON.parse(data!)]),
    )
    for (const id of ids) expect(last.get(id)).toMatchObject({ status: 'succeeded', result: `the result of ${id}` })
    expect(events).toContainEqual({ event: 'gone', data: '{"id":"pruned"}' })
    expect(events.at(-1)!.event).toBe('end')
  })
  it('shows only the jobs that are named, of those that the token is for', async () => {
    const made = await place()
    const [one, two] = [await finished(made, 1), await finished(made, 2)]
    const response = await made.ask(`/jobs/events?id=${two.id}`, await made.token([one.id, two.id]))
    const shown = (await new EventReader(response).rest()).filter(({ event }) => event === 'job')
    expect(shown.map(({ data }) => (JSON.parse(data!) as PublicJob).id)).toEqual([two.id])
  })
  it('of a job that cannot be shown closes, and the others go on', async () => {
    const made = await place()
    const [one, two] = [await made.enqueue(), await made.enqueue()]
    const pages = [await watch(made, one.id), await watch(made, two.id)] as const
    for (const page of pages) await page.job()
    const broken = vi.spyOn(made.queue.types, 'get').mockImplementationOnce(() => {
      throw new Error('a mistake in a label')
    })
    await one.cancel()
    expect(await pages[0].rest()).toEqual([])
    broken.mockRestore()
    await two.cancel()
    expect(await pages[1].job()).toMatchObject({ status: 'canceled' })
  })
  it('closes without the end when the handler is closed', async () => {
    const made = await place()
    const page = await watch(made, (await made.enqueue()).id)
    await page.job()
    await made.handler.close()
    expect(await page.rest()).toEqual([])
  })
  it('closes without the end when the queue is closed', async () => {
    const made = await place()
    const page = await watch(made, (await made.enqueue()).id)
    await page.job()
    await made.queue.close()
    expect(await page.rest()).toEqual([])
  })
  it('shows a cancellation to all who look, before the database tells of it', async () => {
    const made = await place()
    const job = await made.enqueue()
    const page = await watch(made, job.id)
    await page.job()
    await made.ask(`/jobs/${job.id}/cancel`, await made.token(job.id, ['cancel']), { method: 'POST' })
    expect(await page.job()).toMatchObject({ status: 'canceled' })
  })
})

describe('over time, a stream', () => {
  const timed = async (options: { maxStream?: '30s' } = {}) => {
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval', 'Date'] })
    onTestFinished(() => void vi.useRealTimers())
    const made = await place(options)
    const job = await made.enqueue()
    return { made, job }
  }
  it('is kept alive by comments', async () => {
    const { made, job } = await timed()
    const page = await watch(made, job.id)
    await page.job()
    vi.advanceTimersByTime(15_000)
    expect(await page.next()).toEqual({ comment: '' })
  })
  it('closes when its token expires, without the end, and shows nothing after', async () => {
    const { made, job } = await timed()
    const token = await signToken({ jobs: [job.id], actions: ['view'], expiresIn: '10s' }, SECRET)
    const page = new EventReader(await made.ask(`/jobs/${job.id}/events`, token))
    await page.job()
    vi.setSystemTime(Date.now() + 10_000)
    await job.cancel()
    expect(await page.rest()).toEqual([])
  })
  it('closes after its longest time, so that access is asked for anew', async () => {
    const { made, job } = await timed({ maxStream: '30s' })
    const page = await watch(made, job.id)
    await page.job()
    vi.advanceTimersByTime(15_000)
    expect(await page.next()).toEqual({ comment: '' })
    vi.advanceTimersByTime(15_000)
    expect(await page.rest()).toEqual([])
  })
  it('is cut off when its reader takes nothing for a minute', async () => {
    const { made, job } = await timed()
    const response = await made.ask(`/jobs/${job.id}/events`, await made.token(job.id))
    vi.advanceTimersByTime(60_000)
    await expect(response.text()).rejects.toThrow('takes nothing')
  })
})

describe('whoever looks', () => {
  it('is let go when they leave, and so is the job when the last one does', async () => {
    const made = await place()
    const now = followed(made)
    const job = await made.enqueue()
    const pages = await Promise.all([watch(made, job.id), watch(made, job.id)])
    for (const page of pages) await page.job()
    expect(now()).toBe(1)
    await pages[0].leave()
    expect(now()).toBe(1)
    await pages[1].leave()
    expect(now()).toBe(0)
  })
  it('is let go where the job is not there, and where access is refused', async () => {
    const made = await place()
    const now = followed(made)
    await made.ask('/jobs/gone/events', await made.token('gone'))
    await made.ask('/jobs/other/events', await made.token('gone'))
    await made.ask(`/jobs/${(await made.enqueue()).id}`, await made.token('gone'))
    expect(now()).toBe(0)
  })
  it('costs the database nothing beyond the first: 200 who look at 20 jobs make no more reads than one', async () => {
    const reads = async (viewers: number) => {
      const made = await place()
      const jobs = await Promise.all(Array.from({ length: 20 }, () => made.enqueue()))
      const ids = jobs.map(({ id }) => id)
      const token = await made.token(ids)
      const pages = await Promise.all(
        Array.from({ length: viewers }, async () => new EventReader(await made.ask('/jobs/events', token))),
      )
      const all = (is: (job: PublicJob) => boolean) => Promise.all(pages.map((page) => page.job(is)))
      await all(({ id }) => id === ids.at(-1))
      made.calls.get = 0
      for (const id of ids) {
        await made.store.cancel([id], null)
        await all((now) => now.id === id && now.status === 'canceled')
      }
      return made.calls.get
    }
    const one = await reads(1)
    expect(one).toBeGreaterThanOrEqual(20)
    expect(await reads(200)).toBeLessThanOrEqual(one + 2) // The poll below the notifications, should the machine be slow.
  })
  it('is shown the newest when they read again, however much they missed, which was not kept for them', async () => {
    const made = await place()
    const job = await made.enqueue()
    const slow = await watch(made, job.id)
    const fast = await watch(made, job.id)
    await slow.next()
    made.queue.work()
    for (let i = 1; i <= 50; i++) {
      await made.lead(job.id).tell((context) => context.progress(i / 100))
      await made.lead(job.id).tell((context) => context.stage(['drawing', 'saving', 'ready'][i % 3]!))
      await fast.job((now) => now.progress === i / 100)
    }
    const missed = await slow.job((now) => now.progress === 0.5).then(() => 'seen')
    expect(missed).toBe('seen')
    made.lead(job.id).end()
    const rest = await slow.rest()
    expect(rest.filter(({ event }) => event === 'job').length).toBeLessThan(10)
  })
})
