/** The texts of streams, as a page reads them. */
import { describe, expect, it } from 'vitest'
import type { PublicText } from '../../src/http/index.js'
import { EventReader, place, type Place } from './support.js'

/** A running job. */
async function running() {
  const made = await place()
  const job = await made.enqueue()
  const token = await made.token(job.id)
  made.queue.work()
  const write = (text: string, name = 'answer') =>
    made.lead(job.id).tell(async (context) => {
      const stream = context.stream(name)
      await stream.write(text)
    })
  return { ...made, job, token, write }
}

/** The text of the events, put together as a page does. */
async function textOf(page: EventReader, until: (text: PublicText) => boolean) {
  let whole = ''
  for (let event = await page.next(); event; event = await page.next()) {
    if (event.event !== 'text') continue
    const piece = JSON.parse(event.data!) as PublicText & { id: string; name: string }
    whole = whole.slice(0, piece.offset) + piece.text
    if (until(piece)) return { ...piece, whole }
  }
  throw new Error(`the stream ended before, after ${whole}`)
}

const events = async ({ ask, token, job }: { ask: Place['ask']; token: string; job: { id: string } }, text: string) =>
  new EventReader(await ask(`/jobs/${job.id}/events?text=${text}`, token))

describe('the text of a stream', () => {
  it('reaches a page while it is written, and ends with its job', async () => {
    const made = await running()
    const page = await events(made, 'answer')
    await made.write('Once ')
    await textOf(page, ({ text }) => text === 'Once ')
    await made.write('upon ')
    await textOf(page, ({ offset, text }) => offset === 5 && text === 'upon ')
    await made.write('a time.')
    made.lead(made.job.id).end()
    const last = await textOf(page, ({ final }) => final)
    expect(last).toMatchObject({ id: made.job.id, name: 'answer', attempt: 1, done: true })
    expect((await page.rest()).at(-1)!.event).toBe('end')
    const whole = await made.ask(`/jobs/${made.job.id}/streams/answer`, made.token)
    expect(await whole.json()).toEqual({ attempt: 1, offset: 0, text: 'Once upon a time.', done: true, final: true })
  })
})
