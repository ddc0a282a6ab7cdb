import { describe, expect, it } from 'vitest'
import type { JobsError, PublicJob, StreamedText } from '../../src/client/index.js'
import { client, Seen, served } from './support.js'

describe('a job that is watched', () => {
  it('is shown as it is, at each change, and to its end', async () => {
    const made = await served()
    const job = await made.enqueue()
    const jobs = client(made.origin, { getToken: () => made.token(job.id) })
    const seen = new Seen<PublicJob>()
    jobs.watch(job.id, seen.add)
    await seen.find(({ status }) => status === 'pending')
    made.queue.work()
    await made.lead(job.id).tell((context) => context.stage('drawing'))
    await seen.find(({ stage }) => stage?.key === 'drawing')
    made.lead(job.id).end({ pages: 3 })
    expect(await seen.find(({ final }) => final)).toMatchObject({ status: 'succeeded', result: { pages: 3 } })
    const revs = seen.all.map(({ rev }) => rev)
    expect(revs).toEqual([...new Set(revs)].toSorted((a, b) => a - b))
    expect(made.requests).toHaveLength(1)
  })
  it('ends with an error where access is refused', async () => {
    const made = await served()
    const job = await made.enqueue()
    const jobs = client(made.origin, { getToken: () => made.token('another') })
    const error = await new Promise<JobsError>((resolve) => void jobs.watch(job.id, () => {}, { onError: resolve }))
    expect(error).toMatchObject({ name: 'JobsError', status: 403, code: 'forbidden', jobs: [job.id] })
  })
})

describe('the text of a stream', () => {
  it('is shown whole each time that it grows, and what of it is new', async () => {
    const made = await served()
    const job = await made.enqueue()
    const jobs = client(made.origin, { getToken: () => made.token(job.id) })
    const seen = new Seen<StreamedText>()
    jobs.stream(job.id, 'answer', seen.add)
    made.queue.work()
    for (const [i, word] of ['Once ', 'upon ', 'a time.'].entries()) {
      await made.lead(job.id).tell((context) => context.stream('answer').write(word))
      const { text, offset } = await seen.find((each) => each.text.endsWith(word))
      expect([text.slice(offset), offset]).toEqual([word, [0, 5, 10][i]])
    }
    made.lead(job.id).end()
    expect(await seen.find(({ final }) => final)).toMatchObject({ text: 'Once upon a time.', attempt: 1, done: true })
  })
})
