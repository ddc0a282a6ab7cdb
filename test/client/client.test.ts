import { describe, expect, it, onTestFinished, vi } from 'vitest'
import { RetryAfter } from '../../src/index.js'
import type { JobsError, PublicJob, StreamedText } from '../../src/client/index.js'
import { withFile } from '../http/support.js'
import { TcpProxy } from '../support/tcp-proxy.js'
import { Tab } from './browser.js'
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

describe('jobs', () => {
  it('that are watched together are read over one connection, which follows what is added', async () => {
    const made = await served()
    const ids: string[] = []
    for (let i = 0; i < 20; i++) ids.push((await made.enqueue()).id)
    const jobs = client(made.origin, { getToken: (asked) => made.token([...asked]) })
    const seen = new Seen<PublicJob>()
    for (const id of ids.slice(0, 19)) jobs.watch(id, seen.add)
    await seen.find(({ id }) => id === ids[18])
    jobs.watch(ids[19]!, seen.add)
    await seen.find(({ id }) => id === ids[19])
    expect(made.connections.size).toBe(1)
    expect(made.requests).toHaveLength(2)
    expect(seen.all).toHaveLength(20)
  })
  it('of which there are very many are read over few connections', async () => {
    const made = await served()
    const ids: string[] = []
    for (let i = 0; i < 120; i++) ids.push((await made.enqueue()).id)
    const jobs = client(made.origin, { getToken: (asked) => made.token([...asked]) })
    const seen = new Seen<PublicJob>()
    for (const id of ids) jobs.watch(id, seen.add)
    for (const id of ids) await seen.find((job) => job.id === id)
    expect(made.connections.size).toBe(3)
  })
  it('are read with all of their texts, however many these are', async () => {
    const made = await served()
    const ids: string[] = []
    for (let i = 0; i < 40; i++) ids.push((await made.enqueue()).id)
    const jobs = client(made.origin, { getToken: (asked) => made.token([...asked]) })
    const seen = new Seen<string | number>()
    for (const id of ids) {
      for (const name of ['answer', 'notes', 'sources']) {
        jobs.stream(id, name, () => {}, { onError: ({ status }) => seen.add(status) })
      }
      jobs.watch(id, () => seen.add(id))
    }
    for (const id of ids) await seen.find((each) => each === id || typeof each === 'number')
    expect(seen.all.filter((each) => typeof each === 'number')).toEqual([])
  })
  it('that nobody watches any more are let go, and so is the connection', async () => {
    const made = await served()
    const job = await made.enqueue()
    const jobs = client(made.origin, { getToken: () => made.token(job.id) })
    const seen = new Seen<PublicJob>()
    const stops = [jobs.watch(job.id, seen.add), jobs.watch(job.id, seen.add)]
    await seen.find(() => true)
    expect(jobs.known(job.id)).toMatchObject({ id: job.id })
    for (const stop of stops) stop()
    await vi.waitFor(() => expect(made.connections.size).toBe(0))
    expect(jobs.known(job.id)).toBeUndefined()
  })
  it('are shown at once to whoever comes later', async () => {
    const made = await served()
    const job = await made.enqueue()
    const jobs = client(made.origin, { getToken: () => made.token(job.id) })
    const seen = new Seen<PublicJob>()
    jobs.watch(job.id, seen.add)
    await seen.find(() => true)
    const later: PublicJob[] = []
    jobs.watch(job.id, (each) => later.push(each))
    expect(later).toEqual(seen.all)
  })
  it('are got, canceled and downloaded without being watched', async () => {
    const made = await served()
    const done = await withFile(made, 'report.txt', 'the content')
    const job = await made.enqueue()
    const getToken = (ids: readonly string[]) => made.token([...ids], ['view', 'cancel', 'download'])
    const jobs = client(made.origin, { getToken, locale: 'zh' })
    expect(await jobs.get(job.id)).toMatchObject({ id: job.id, status: 'pending' })
    expect(await jobs.cancel(job.id)).toMatchObject({ id: job.id, status: 'canceled' })
    expect(await jobs.cancel(done.id)).toMatchObject({ id: done.id, status: 'succeeded' }) // It was too late.
    expect(await (await fetch(await jobs.fileUrl(done.id))).text()).toBe('the content')
    await expect(jobs.get('gone')).rejects.toMatchObject({ name: 'JobsError', status: 404, code: 'job_not_found' })
  })
  it('are shown as canceled to who watches, as soon as the cancellation is answered', async () => {
    const made = await served()
    const job = await made.enqueue()
    const jobs = client(made.origin, { getToken: (ids) => made.token([...ids], ['view', 'cancel']) })
    const seen = new Seen<PublicJob>()
    jobs.watch(job.id, seen.add)
    await seen.find(() => true)
    await jobs.cancel(job.id)
    expect(seen.all.at(-1)).toMatchObject({ status: 'canceled', final: true })
  })
})

describe('the text of a stream', () => {
  it('goes on where it was when the connection breaks', async () => {
    const made = await served()
    const proxy = await TcpProxy.create(made.port)
    onTestFinished(() => proxy.remove())
    const job = await made.enqueue()
    const tab = new Tab(undefined)
    const jobs = client(`http://127.0.0.1:${proxy.port}`, { getToken: () => made.token(job.id) }, tab)
    const seen = new Seen<StreamedText>()
    jobs.stream(job.id, 'answer', seen.add)
    made.queue.work()
    const write = (text: string) => made.lead(job.id).tell((context) => context.stream('answer').write(text))
    await write('Once ')
    await seen.find(({ text }) => text === 'Once ')
    proxy.cut()
    tab.pass(await tab.waits((ms) => ms <= 1_000))
    await write('upon ')
    await seen.find(({ text }) => text === 'Once upon ')
    expect(decodeURIComponent(made.requests[1]!)).toContain(`text=${job.id}/answer/1/5&`)
  })
  it('is whole for a page that is reloaded, and begins anew with a new attempt', async () => {
    const made = await served()
    const job = await made.enqueue()
    const open = () => {
      const seen = new Seen<StreamedText>()
      client(made.origin, { getToken: () => made.token(job.id) }).stream(job.id, 'answer', seen.add)
      return seen
    }
    const first = open()
    made.queue.work()
    const write = (text: string) => made.lead(job.id).tell((context) => context.stream('answer').write(text))
    await write('Once upon')
    await first.find(({ text }) => text === 'Once upon')
    const reloaded = open()
    await reloaded.find(({ text }) => text === 'Once upon')
    made.lead(job.id).end(new RetryAfter('1s'))
    await vi.waitFor(async () => expect((await job.refresh()).status).toBe('retrying'))
    made.queue.clock.advance(2_000)
    await write('There')
    for (const seen of [first, reloaded]) {
      expect(await seen.find(({ attempt }) => attempt === 2)).toMatchObject({ text: 'There', offset: 0 })
    }
  })
  it('stays readable once its job is over', async () => {
    const made = await served()
    const job = await withFile(made, 'r.txt', 'the content', undefined, '<script>alert(1)</script>')
    const seen = new Seen<StreamedText>()
    client(made.origin, { getToken: () => made.token(job.id) }).stream(job.id, 'answer', seen.add)
    expect(await seen.find(({ final }) => final)).toMatchObject({ text: '<script>alert(1)</script>', done: true })
  })
  it('that there is not, or is not public, is empty and final', async () => {
    const made = await served()
    const job = await withFile(made, 'r.txt', 'the content')
    for (const name of ['answer', 'private']) {
      const seen = new Seen<StreamedText>()
      client(made.origin, { getToken: () => made.token(job.id) }).stream(job.id, name, seen.add)
      expect(await seen.find(() => true)).toEqual({ text: '', offset: 0, attempt: 0, done: true, final: true })
    }
  })
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
