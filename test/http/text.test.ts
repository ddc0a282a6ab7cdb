/** The texts of streams, as a page reads them. */
import { describe, expect, it, vi } from 'vitest'
import type { PublicText } from '../../src/http/index.js'
import { JobtableError, RetryAfter } from '../../src/index.js'
import { EventReader, place } from './support.js'

/** A running job that writes what the test says. */
async function running() {
  const made = await place()
  const job = await made.enqueue()
  const token = await made.token(job.id)
  made.queue.work()
  const reads = vi.spyOn(made.queue, 'readStream')
  return {
    ...made,
    job,
    reads,
    write: (text: string, name = 'answer') => made.lead(job.id).tell((context) => context.stream(name).write(text)),
    endStream: () => made.lead(job.id).tell((context) => context.stream('answer').end()),
    /** The events of the job, with a text. */
    open: async (text = 'answer') => new EventReader(await made.ask(`/jobs/${job.id}/events?text=${text}`, token)),
    /** The route of the text. */
    read: (query = '', name = 'answer') => made.ask(`/jobs/${job.id}/streams/${name}${query}`, token),
  }
}

/** The next piece of a text of which this holds, with all of the text before it that came by this page. */
class Page {
  whole = ''
  readonly pieces: PublicText[] = []
  readonly #events: EventReader

  constructor(events: EventReader) {
    this.#events = events
  }

  async until(is: (piece: PublicText, whole: string) => boolean): Promise<PublicText> {
    for (let event = await this.#events.next(); event; event = await this.#events.next()) {
      if (event.event !== 'text') continue
      const piece = JSON.parse(event.data!) as PublicText
      this.pieces.push(piece)
      this.whole = this.whole.slice(0, piece.offset) + piece.text
      if (is(piece, this.whole)) return piece
    }
    throw new Error(`the stream ended before, after ${this.whole}`)
  }
}

describe('the text of a stream', () => {
  it('reaches a page while it is written, and ends with its job', async () => {
    const { open, write, lead, job, read } = await running()
    const events = await open()
    const page = new Page(events)
    await write('Once ')
    await page.until((_, whole) => whole === 'Once ')
    await write('upon ')
    await page.until((_, whole) => whole === 'Once upon ')
    lead(job.id).end()
    expect(await page.until(({ final }) => final)).toMatchObject({ id: job.id, name: 'answer', attempt: 1, done: true })
    expect((await events.rest()).at(-1)!.event).toBe('end')
    expect(await (await read()).json()).toEqual({ attempt: 1, offset: 0, text: 'Once upon ', done: true, final: true })
  })
  it('goes on from a place, and is told from 0 where that place is of an attempt that was replaced', async () => {
    const { open, write, lead, job, queue } = await running()
    await write('Once upon')
    const from = new Page(await open('answer/1/5'))
    expect(await from.until(() => true)).toMatchObject({ attempt: 1, offset: 5, text: 'upon' })
    lead(job.id).end(new RetryAfter('1s'))
    await vi.waitFor(async () => expect((await job.refresh()).status).toBe('retrying'))
    queue.clock.advance(2_000)
    await write('There')
    expect(await from.until(({ attempt }) => attempt === 2)).toMatchObject({ offset: 0, text: 'There' })
    const late = new Page(await open('answer/1/9'))
    expect(await late.until(() => true)).toMatchObject({ attempt: 2, offset: 0, text: 'There' })
  })
  it('is done when its handler ends it, though the job goes on, which is told once', async () => {
    const { open, write, endStream, lead, job } = await running()
    const events = await open()
    const page = new Page(events)
    await write('All.')
    await endStream()
    expect(await page.until(({ done }) => done)).toMatchObject({ final: false })
    await lead(job.id).tell((context) => context.progress(0.5))
    await events.job((now) => now.progress === 0.5)
    lead(job.id).end()
    await page.until(({ final }) => final)
    expect(page.pieces.filter(({ done }) => done)).toHaveLength(2)
    expect(page.whole).toBe('All.')
  })
  it('of any length comes in pieces, no surrogate pair of which is cut', async () => {
    const { open, write, lead, job, read } = await running()
    const text = `x${'😀'.repeat(60_000)}`
    await write(text)
    lead(job.id).end()
    await vi.waitFor(async () => expect((await job.refresh()).status).toBe('succeeded'))
    const page = new Page(await open())
    await page.until(({ final }) => final)
    expect(page.whole).toBe(text)
    expect(page.pieces.length).toBeGreaterThan(3)
    for (const piece of page.pieces) {
      expect(piece.text.length).toBeLessThanOrEqual(32_768)
      expect(piece.text.isWellFormed()).toBe(true)
    }
    // Who asks for the middle of a pair is given the whole of it.
    const { offset, text: first } = (await (await read('?attempt=1&offset=100000')).json()) as PublicText
    expect([offset, first.isWellFormed()]).toEqual([99_999, true])
  })
  it('that a type does not call public is as one that is not there', async () => {
    const { open, write, read, lead, job, reads } = await running()
    await write('for developers', 'thoughts')
    expect(await (await read('', 'thoughts')).json()).toMatchObject({ error: 'no_stream' })
    expect(await (await read('?wait=20', 'thoughts')).json()).toMatchObject({ error: 'no_stream' })
    const page = new Page(await open('thoughts'))
    expect(await page.until(() => true)).toMatchObject({ attempt: 0, text: '', done: true, final: true })
    lead(job.id).end()
    expect(reads).not.toHaveBeenCalled()
  })
  it('that has not begun is waited for, and is missing once the job is over', async () => {
    const { read, lead, job, write } = await running()
    expect((await read()).status).toBe(204)
    const waiting = read('?wait=20')
    await write('Once')
    expect(await (await waiting).json()).toMatchObject({ offset: 0, text: 'Once' })
    const other = read('?wait=20', 'notes')
    lead(job.id).end()
    expect((await other).status).toBe(404)
    expect(await (await other).json()).toMatchObject({ error: 'no_stream' })
  })
  it('is waited for from a place on, and there is nothing where nothing comes', async () => {
    const { read, write } = await running()
    await write('Once ')
    await read('?wait=20')
    expect((await read('?attempt=1&offset=5')).status).toBe(204)
    const waiting = read('?attempt=1&offset=5&wait=20')
    await write('upon')
    expect(await (await waiting).json()).toEqual({ attempt: 1, offset: 5, text: 'upon', done: false, final: false })
  })
  it('is inert wherever it goes: JSON or events that no browser takes for a page', async () => {
    const { read, write, open } = await running()
    await write('</script><script>alert(1)</script>')
    const response = await read('?wait=20')
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'content-type': 'application/json; charset=utf-8',
      'x-content-type-options': 'nosniff',
    })
    expect(await response.text()).not.toContain('<')
    const event = await new Page(await open()).until(() => true)
    expect(event.text).toContain('<script>')
  })
  it('is asked for with a place that makes sense, or refused', async () => {
    const { ask, token, job } = await running()
    const mine = await token(job.id)
    for (const address of [
      `/jobs/${job.id}/streams/answer?attempt=1`,
      `/jobs/${job.id}/streams/answer?attempt=-1&offset=0`,
      `/jobs/${job.id}/events?text=answer/1`,
      `/jobs/${job.id}/events?text=answer/1/2/3`,
      `/jobs/${job.id}/events?text=`,
      `/jobs/events?id=${job.id}&text=answer`,
      `/jobs/events?id=${job.id}&text=another-job/answer`,
      `/jobs/events?id=${job.id}&text=%25E0%25A4%25A/answer`,
      `/jobs/events?id=${job.id}&after=1,2`,
      `/jobs/events?id=${job.id}&after=x`,
      `/jobs/events?id=${job.id}&${Array.from({ length: 101 }, (_, i) => `text=${job.id}/s${i}`).join('&')}`,
    ]) {
      expect((await ask(address, mine)).status, address).toBe(400)
    }
    expect((await ask(`/jobs/${job.id}/streams/`, mine)).status).toBe(404)
    expect((await ask(`/jobs/${job.id}/streams`, mine)).status).toBe(404)
  })
})

describe('those who read a text', () => {
  it('share its reads: 100 cost the database no more than one', async () => {
    const count = async (readers: number) => {
      const { open, write, reads } = await running()
      const pages = await Promise.all(Array.from({ length: readers }, async () => new Page(await open())))
      for (const word of ['Once ', 'upon ', 'a ', 'time ', 'there ', 'was']) {
        await write(word)
        await Promise.all(pages.map((page) => page.until((_, whole) => whole.endsWith(word))))
      }
      return reads.mock.calls.length
    }
    expect(await count(100)).toBeLessThanOrEqual((await count(1)) + 3) // A change may be seen as two, should the machine be slow.
  })
  it('and come back together share the reads of what they missed', async () => {
    const { open, write, reads, lead, job } = await running()
    await write('x'.repeat(200_000))
    lead(job.id).end()
    await vi.waitFor(async () => expect((await job.refresh()).status).toBe('succeeded'))
    const pages = await Promise.all(Array.from({ length: 50 }, async () => new Page(await open())))
    await Promise.all(pages.map((page) => page.until(({ final }) => final)))
    for (const { whole } of pages) expect(whole.length).toBe(200_000)
    expect(reads.mock.calls.length).toBeLessThan(50)
  })
  it('see no snapshot that only says that the text has grown', async () => {
    const { open, write, lead, job } = await running()
    const events = await open()
    const snapshots: string[] = []
    const until = async (name: string) => {
      for (let event = await events.next(); event; event = await events.next()) {
        if (event.event === 'job') snapshots.push(event.data!)
        if (event.event === name) return
      }
    }
    for (const word of ['Once ', 'upon ', 'a time']) {
      await write(word)
      await until('text')
    }
    lead(job.id).end()
    await until('end')
    const faces = snapshots.map((each) => each.replace(/"rev":\d+/, ''))
    expect(faces.length).toBeGreaterThan(1)
    expect(faces).toEqual([...new Set(faces)])
  })
  it('are let go when they leave, and so is the text', async () => {
    const { open, write, reads } = await running()
    const events = await open()
    await write('Once')
    await new Page(events).until(() => true)
    await events.leave()
    const before = reads.mock.calls.length
    await write(' upon')
    expect(reads.mock.calls.length).toBe(before)
  })
  it('wait out a database that is away', async () => {
    const { open, write, store } = await running()
    const page = new Page(await open())
    await write('Once ')
    await page.until((_, whole) => whole === 'Once ')
    const away = vi.spyOn(store, 'readStream').mockRejectedValueOnce(new JobtableError('store_unavailable', 'away'))
    await write('upon')
    await page.until((_, whole) => whole === 'Once upon')
    expect(away).toHaveBeenCalledTimes(2)
  })
})

describe('a poll of events', () => {
  const bench = async () => {
    const made = await place()
    const jobs = [await made.enqueue(), await made.enqueue()] as const
    const token = await made.token(jobs.map(({ id }) => id))
    const poll = async (query: string, of = `id=${jobs[0].id}&id=${jobs[1].id}`) =>
      new EventReader(await made.ask(`/jobs/events?${of}&${query}`, token)).rest()
    const told = (events: Awaited<ReturnType<typeof poll>>) =>
      events.flatMap(({ event, data }) => (event ? [[event, (JSON.parse(data!) as { id?: string }).id]] : []))
    return { ...made, jobs, poll, told }
  }
  it('is answered with what there is, and ends', async () => {
    const { jobs, poll, told } = await bench()
    expect(told(await poll('wait=20'))).toEqual(jobs.map(({ id }) => ['job', id]))
  })
  it('tells nothing of what its reader has, and waits for what is new', async () => {
    const { jobs, poll, told, queue, lead } = await bench()
    const revs = jobs.map(({ rev }) => rev).join()
    const waiting = poll(`after=${revs}&wait=20`)
    await jobs[1].cancel()
    expect(told(await waiting)).toEqual([['job', jobs[1].id]])
    queue.work()
    await lead(jobs[0].id).tell((context) => context.stream('answer').write('Once'))
    const text = `text=${jobs[0].id}/answer`
    expect(told(await poll(`after=1000,1000&wait=20&${text}`))).toEqual([['text', jobs[0].id]])
    const next = poll(`after=1000,1000&wait=20&${text}/1/4`)
    await lead(jobs[0].id).tell((context) => context.stream('answer').write(' upon'))
    expect((await next).find(({ event }) => event === 'text')!.data).toContain(' upon')
  })
  it('is not answered again for a text that is done', async () => {
    const { jobs, poll, told, queue, lead } = await bench()
    queue.work()
    await lead(jobs[0].id).tell((context) => context.stream('answer').from(['Once']))
    const of = `id=${jobs[0].id}`
    expect(told(await poll(`after=1000&wait=20&text=${jobs[0].id}/answer/1/4`, of))).toEqual([['text', jobs[0].id]])
    const waiting = poll(`after=1000&wait=20&text=${jobs[0].id}/answer/1/4/done`, of)
    lead(jobs[0].id).end()
    expect((await waiting).find(({ event }) => event === 'text')!.data).toContain('"final":true')
  })
  it('says the end where all is over', async () => {
    const { jobs, poll, told } = await bench()
    for (const job of jobs) await job.cancel()
    const [one, two] = await Promise.all(jobs.map((job) => job.refresh()))
    expect(told(await poll(`after=${one!.rev},${two!.rev}&wait=20`))).toEqual([['end', undefined]])
  })
})
