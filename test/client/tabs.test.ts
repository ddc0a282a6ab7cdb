import { describe, expect, it, onTestFinished } from 'vitest'
import type { JobsError, PublicJob, StreamedText } from '../../src/client/index.js'
import type { place } from '../http/support.js'
import { LockManager, Tab } from './browser.js'
import { client, Seen, served } from './support.js'

type Options = Parameters<typeof place>[0]

/** A server and a browser, whose tabs show a job each. */
async function browserOf(options: Options = {}) {
  const made = await served(options)
  const locks = new LockManager()
  const openTab = async (id: string, getToken = (ids: readonly string[]) => made.token([...ids])) => {
    const tab = new Tab(locks)
    const jobs = client(made.origin, { getToken }, tab)
    const seen = new Seen<PublicJob>()
    const errors = new Seen<JobsError>()
    const stop = jobs.watch(id, seen.add, { onError: errors.add })
    await Promise.race([seen.find(() => true), errors.find(() => true)])
    return { tab, jobs, seen, errors, stop }
  }
  /** Opened one after the other, so that the first one leads. */
  const openTabs = async (ids: readonly string[]) => {
    const pages: Awaited<ReturnType<typeof openTab>>[] = []
    for (const id of ids) pages.push(await openTab(id))
    return pages
  }
  const streams = () => made.requests.filter((each) => each.includes('/events'))
  return { ...made, locks, openTab, openTabs, streams }
}

describe('eight tabs of a browser', () => {
  it('share one connection, where they show the same job', async () => {
    const { queue, enqueue, openTabs, lead, streams } = await browserOf()
    const job = await enqueue()
    const pages = await openTabs(Array.from({ length: 8 }, () => job.id))
    queue.work()
    for (const stage of ['drawing', 'saving', 'ready']) {
      await lead(job.id).tell((context) => context.stage(stage))
      for (const { seen } of pages) await seen.find((now) => now.stage?.key === stage)
    }
    lead(job.id).end()
    for (const { seen } of pages) await seen.find(({ final }) => final)
    expect(streams()).toHaveLength(1)
  })
  it('have one connection open at a time, where each shows another job', async () => {
    const { queue, enqueue, openTabs, lead, connections } = await browserOf()
    const ids: string[] = []
    for (let i = 0; i < 8; i++) ids.push((await enqueue()).id)
    const pages = await openTabs(ids)
    queue.work({ concurrency: 8 })
    for (const [i, { seen }] of pages.entries()) {
      await lead(ids[i]!).tell((context) => context.stage('drawing'))
      await seen.find((now) => now.stage?.key === 'drawing')
      expect(connections.size).toBe(1)
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
    await advance('drawing')
    expect(made.streams()).toHaveLength(1)
    return { ...made, job, leader: leader!, follower: follower!, advance }
  }
  it('is closed, another leads and misses nothing', async () => {
    const { leader, advance, streams } = await two()
    leader.jobs.close()
    await advance('saving')
    expect(streams()).toHaveLength(2)
  })
  it('crashes, another leads and misses nothing', async () => {
    const { leader, advance, streams } = await two()
    leader.tab.kill()
    await advance('saving')
    expect(streams()).toHaveLength(2)
  })
  it('stops to watch, the others are told on', async () => {
    const { leader, advance, streams } = await two()
    leader.stop()
    await advance('saving')
    expect(streams()).toHaveLength(1)
  })
  it('is hidden, the one that is looked at leads, for a hidden one may be frozen', async () => {
    const { leader, follower, advance, streams } = await two()
    leader.tab.hide()
    await follower.seen.find(() => true)
    follower.tab.show()
    await advance('saving')
    leader.tab.isFrozen = true
    await advance('ready')
    expect(streams()).toHaveLength(2)
  })
  it('is frozen and gives no answer, the one that is looked at leads', async () => {
    const { leader, follower, advance, streams } = await two()
    leader.tab.isVisible = false
    leader.tab.isFrozen = true
    follower.tab.show()
    follower.tab.pass(2_000)
    await advance('saving')
    expect(streams()).toHaveLength(2)
  })
  it('goes into the back/forward cache, another leads; and it follows when it is shown again', async () => {
    const { leader, advance, connections } = await two()
    leader.tab.fire('pagehide')
    await advance('saving')
    leader.tab.fire('pageshow')
    await advance('ready', leader)
    expect(connections.size).toBe(1)
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
    const { enqueue, openTabs, queue, lead, streams } = await browserOf()
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
    lead(job.id).end()
    for (const seen of texts) expect(await seen.find(({ final }) => final)).toMatchObject({ text: 'Once upon ', attempt: 1 })
    expect(streams()).toHaveLength(2) // One more when a text was wanted.
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
