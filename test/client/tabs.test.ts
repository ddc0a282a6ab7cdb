import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { JobsError, PublicJob, StreamedText } from '../../src/client/index.js'
import type { place } from '../http/support.js'
import { LockManager, Tab } from './browser.js'
import { client, Seen, served } from './support.js'

type Options = Parameters<typeof place>[0]

/** A server and a browser, whose tabs show a job each. */
async function browserOf(options: Options = {}) {
  const made = await served(options)
  const locks = new LockManager()
  const cut = { isAway: false }
  const openTab = async (id: string, getToken = (ids: readonly string[]) => made.token([...ids])) => {
    const tab = new Tab(locks)
    const away = (...asked: Parameters<typeof fetch>) =>
      cut.isAway ? Promise.reject(new TypeError('fetch failed')) : tab.environment.fetch(...asked)
    const jobs = client(made.origin, { getToken, fetch: away }, tab)
    const told = new Seen<boolean>()
    const seen = new Seen<PublicJob>()
    const errors = new Seen<JobsError>()
    const stop = jobs.watch(id, seen.add, { onError: errors.add, onConnection: told.add })
    await Promise.race([seen.find(() => true), errors.find(() => true)])
    return { tab, jobs, seen, errors, told, stop }
  }
  /** Opened one after the other, so that the first one leads. */
  const openTabs = async (ids: readonly string[]) => {
    const pages: Awaited<ReturnType<typeof openTab>>[] = []
    for (const id of ids) pages.push(await openTab(id))
    return pages
  }
  /** A tab that has been let in needs no connection any more, which the server hears of a little later. */
  const oneConnection = () => vi.waitFor(() => expect(made.connections.size).toBe(1))
  return { ...made, cut, locks, openTab, openTabs, oneConnection }
}

/** A network that brings each event on its own. */
async function byEvent(...asked: Parameters<typeof fetch>): Promise<Response> {
  const response = await fetch(...asked)
  const events = new TransformStream<string, string>({
    transform: (part, controller) => {
      for (const event of part.split(/(?<=\n\n)/)) controller.enqueue(event)
    },
  })
  const body = response.body!.pipeThrough(new TextDecoderStream()).pipeThrough(events).pipeThrough(new TextEncoderStream())
  return new Response(body, response)
}

describe('eight tabs of a browser', () => {
  it('share one connection, where they show the same job', async () => {
    const { queue, enqueue, openTabs, lead, requests, oneConnection } = await browserOf()
    const job = await enqueue()
    const pages = await openTabs(Array.from({ length: 8 }, () => job.id))
    await oneConnection()
    queue.work()
    for (const stage of ['drawing', 'saving', 'ready']) {
      await lead(job.id).tell((context) => context.stage(stage))
      for (const { seen } of pages) await seen.find((now) => now.stage?.key === stage)
    }
    await oneConnection()
    lead(job.id).end()
    for (const { seen } of pages) await seen.find(({ final }) => final)
    expect(requests).toHaveLength(8) // Each tab asks once whether it may.
  })
  it('hear of the one that leads that its connection is lost, and that it is back', async () => {
    const { enqueue, openTab, oneConnection, cut } = await browserOf()
    const job = await enqueue()
    const leader = await openTab(job.id)
    const follower = await openTab(job.id)
    await oneConnection()
    cut.isAway = true
    leader.tab.pass(35_000) // Nothing comes any more.
    await leader.told.find((isLive) => !isLive)
    await follower.told.find((isLive) => !isLive)
    cut.isAway = false
    leader.tab.fire('online')
    await follower.told.find((isLive) => isLive)
    expect([leader.told.all, follower.told.all]).toEqual([
      [false, true],
      [false, true],
    ])
  })
  it('have one connection open at a time, where each shows another job', async () => {
    const { queue, enqueue, openTabs, lead, oneConnection } = await browserOf()
    const ids: string[] = []
    for (let i = 0; i < 8; i++) ids.push((await enqueue()).id)
    const pages = await openTabs(ids)
    queue.work({ concurrency: 8 })
    for (const [i, { seen }] of pages.entries()) {
      await lead(ids[i]!).tell((context) => context.stage('drawing'))
      await seen.find((now) => now.stage?.key === 'drawing')
      await oneConnection()
    }
    for (const [i, { seen }] of pages.entries()) expect(new Set(seen.all.map(({ id }) => id))).toEqual(new Set([ids[i]]))
  })
})

describe('when the tab that leads', () => {
  /** Two tabs of one running job; the first leads. */
  const two = async () => {
    const made = await browserOf()
    const job = await made.enqueue()
    const [leader, follower] = await made.openTabs([job.id, job.id])
    made.queue.work()
    const advance = async (stage: string, page = follower!) => {
      await made.lead(job.id).tell((context) => context.stage(stage))
      await page.seen.find((now) => now.stage?.key === stage)
    }
    await made.oneConnection()
    await advance('drawing')
    const [before] = made.connections
    /** Whether it is another connection than before, and the only one. */
    const isAnother = async () => {
      await made.oneConnection()
      return !made.connections.has(before!)
    }
    return { ...made, job, leader: leader!, follower: follower!, advance, isAnother }
  }
  it('is closed, another leads and misses nothing', async () => {
    const { leader, advance, isAnother } = await two()
    leader.jobs.close()
    await advance('saving')
    expect(await isAnother()).toBe(true)
  })
  it('crashes, another leads and misses nothing', async () => {
    const { leader, advance, isAnother } = await two()
    leader.tab.kill()
    await advance('saving')
    expect(await isAnother()).toBe(true)
  })
  it('stops to watch, the others are told on', async () => {
    const { leader, advance, isAnother } = await two()
    leader.stop()
    await advance('saving')
    expect(await isAnother()).toBe(false)
  })
  it('is hidden, the one that is looked at leads, for a hidden one may be frozen', async () => {
    const { leader, follower, advance, isAnother } = await two()
    leader.tab.hide()
    await follower.seen.find(() => true)
    follower.tab.show()
    await advance('saving')
    leader.tab.isFrozen = true
    await advance('ready')
    expect(await isAnother()).toBe(true)
  })
  it('is frozen and gives no answer, the one that is looked at leads', async () => {
    const { leader, follower, advance, isAnother } = await two()
    leader.tab.isVisible = false
    leader.tab.isFrozen = true
    follower.tab.show()
    follower.tab.pass(2_000)
    await advance('saving')
    expect(await isAnother()).toBe(true)
  })
  it('goes into the back/forward cache, another leads; and it follows when it is shown again', async () => {
    const { leader, advance, isAnother } = await two()
    leader.tab.fire('pagehide')
    await advance('saving')
    leader.tab.fire('pageshow')
    await advance('ready', leader)
    expect(await isAnother()).toBe(true)
  })
})

describe('a tab', () => {
  it('reads itself what the token of the one that leads is not for', async () => {
    const { enqueue, token, openTab, queue, lead, connections } = await browserOf()
    const [one, two] = [await enqueue(), await enqueue()]
    const first = await openTab(one.id, () => token(one.id))
    const second = await openTab(two.id, () => token(two.id))
    queue.work()
    for (const [job, { seen }] of [[one, first] as const, [two, second] as const]) {
      await lead(job.id).tell((context) => context.stage('drawing'))
      await seen.find((now) => now.stage?.key === 'drawing')
    }
    expect(first.errors.all).toEqual([])
    expect(second.errors.all).toEqual([])
    expect(connections.size).toBe(2)
  })
  it('asks the server once whether it may see all of its jobs, however many', async () => {
    const { enqueue, openTab, token, origin, locks, requests, oneConnection } = await browserOf()
    const ids: string[] = []
    for (let i = 0; i < 30; i++) ids.push((await enqueue()).id)
    const { tab } = await openTab(ids[0]!)
    const wanted: unknown[] = []
    const channel = new BroadcastChannel(tab.channels[0]!)
    channel.addEventListener('message', (event) => {
      const { type, wants = [] } = (event as MessageEvent).data as { type: string; wants?: { id: string }[] }
      if (type === 'want' && wants.length > 0) wanted.push(wants.map(({ id }) => id))
    })
    onTestFinished(() => channel.close())
    const asked: (readonly string[])[] = []
    const getToken = (of: readonly string[]) => (asked.push(of), token([...of]))
    const jobs = client(origin, { getToken, fetch: byEvent }, new Tab(locks))
    const seen = new Seen<PublicJob>()
    for (const id of ids) jobs.watch(id, seen.add)
    for (const id of ids) await seen.find((job) => job.id === id)
    expect(asked).toEqual([ids])
    await vi.waitFor(() => expect(requests).toHaveLength(3)) // And the leader once more, for the new ones.
    await oneConnection()
    expect(new Set(wanted.map(String))).toEqual(new Set([String(ids)]))
  })
  it('is told nothing of a job that it may not see itself, though another tab shows it', async () => {
    const { enqueue, token, openTab, queue, lead } = await browserOf()
    const job = await enqueue()
    const first = await openTab(job.id)
    const outsider = await openTab(job.id, () => token('another'))
    expect(outsider.errors.all).toMatchObject([{ status: 403, code: 'forbidden' }])
    queue.work()
    await lead(job.id).tell((context) => context.stage('drawing'))
    await first.seen.find((now) => now.stage?.key === 'drawing')
    expect(outsider.seen.all).toEqual([])
  })
  it('hears over no channel of a job that it does not show', async () => {
    const { enqueue, openTabs, queue, lead } = await browserOf()
    const [one, two] = [await enqueue(), await enqueue()]
    const [first, second, third] = await openTabs([one.id, two.id, two.id])
    const heard: unknown[] = []
    const eavesdropper = new BroadcastChannel(third!.tab.channels.find((name) => !name.includes(two.id))!)
    eavesdropper.addEventListener('message', (event) => heard.push((event as MessageEvent).data))
    onTestFinished(() => eavesdropper.close())
    queue.work()
    for (const [job, { seen }] of [[one, first!] as const, [two, second!] as const, [two, third!] as const]) {
      await lead(job.id).tell((context) => context.stage('drawing'))
      await seen.find((now) => now.stage?.key === 'drawing')
    }
    expect(JSON.stringify(heard)).not.toContain('drawing')
    expect(third!.tab.channels.filter((name) => name.includes(one.id))).toEqual([])
  })
  it('that comes late has the whole of a text, and sees it grow with the others', async () => {
    const { enqueue, openTabs, queue, lead, oneConnection } = await browserOf()
    const job = await enqueue()
    const [first, second] = await openTabs([job.id, job.id])
    queue.work()
    const write = (text: string) => lead(job.id).tell((context) => context.stream('answer').write(text))
    const texts = [new Seen<StreamedText>(), new Seen<StreamedText>()] as const
    first!.jobs.stream(job.id, 'answer', texts[0].add)
    await write('Once ')
    await texts[0].find(({ text }) => text === 'Once ')
    second!.jobs.stream(job.id, 'answer', texts[1].add)
    await texts[1].find(({ text }) => text === 'Once ')
    await write('upon ')
    for (const seen of texts) await seen.find(({ text }) => text === 'Once upon ')
    await oneConnection()
    lead(job.id).end()
    for (const seen of texts) expect(await seen.find(({ final }) => final)).toMatchObject({ text: 'Once upon ', attempt: 1 })
  })
  it('leaves its jobs to the one that leads, though one of them is not there', async () => {
    const { enqueue, openTab, token, origin, locks, oneConnection } = await browserOf()
    const job = await enqueue()
    await openTab(job.id)
    const jobs = client(origin, { getToken: (ids) => token([...ids]) }, new Tab(locks))
    const [seen, errors] = [new Seen<PublicJob>(), new Seen<JobsError>()]
    jobs.watch('not-there', seen.add, { onError: errors.add })
    jobs.watch(job.id, seen.add)
    await seen.find(() => true)
    expect(await errors.find(() => true)).toMatchObject({ status: 404, code: 'job_not_found' })
    await oneConnection()
  })
  it('follows a job that was repaired, though the one that leads shows its end', async () => {
    const { enqueue, openTab, openTabs, queue, lead } = await browserOf()
    const job = await enqueue()
    const [first] = await openTabs([job.id])
    const texts = new Seen<StreamedText>()
    first!.jobs.stream(job.id, 'answer', () => {})
    await queue.cancel(job.id)
    await first!.seen.find(({ final }) => final)
    await queue.retry(job.id)
    const second = await openTab(job.id)
    second.jobs.stream(job.id, 'answer', texts.add)
    queue.work()
    await lead(job.id).tell((context) => context.stream('answer').write('Anew'))
    await texts.find(({ text }) => text === 'Anew')
    lead(job.id).end()
    await second.seen.find(({ status }) => status === 'succeeded')
    expect(second.seen.all.filter(({ status }) => status === 'canceled')).toEqual([])
  })
  it('reads for itself where the browser has no locks', async () => {
    const made = await served()
    const job = await made.enqueue()
    const pages = [0, 1].map(() => {
      const seen = new Seen<PublicJob>()
      client(made.origin, { getToken: () => made.token(job.id) }).watch(job.id, seen.add)
      return seen
    })
    for (const seen of pages) await seen.find(() => true)
    expect(made.connections.size).toBe(2)
  })
})
