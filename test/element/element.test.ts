import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { JobsError, PublicJob } from '../../src/client/index.js'
import { defineJobProgress, type JobProgressElement } from '../../src/element/define.js'
import type { Authorize } from '../../src/http/index.js'
import { served } from '../client/support.js'
import { OTHER_SECRET, withFile } from '../http/support.js'
import { window } from './dom.js'

defineJobProgress()

const fetchOfNode = globalThis.fetch

/** An element on a page, and what is seen and heard of it. */
function element(attributes: Record<string, string>, properties: Partial<JobProgressElement> = {}) {
  const host = document.createElement('job-progress')
  for (const [name, value] of Object.entries(attributes)) host.setAttribute(name, value)
  Object.assign(host, properties)
  document.body.append(host)
  onTestFinished(() => host.remove())
  const part = (name: string) => host.shadowRoot!.querySelector<HTMLElement>(`[part=${name}]`)!
  const spoken: string[] = []
  new MutationObserver(() => spoken.push(part('spoken').textContent)).observe(part('spoken'), { childList: true })
  return {
    host,
    part,
    spoken,
    text: (name: string) => part(name).textContent,
    bar: () => Object.fromEntries([...part('track').attributes].map(({ name, value }) => [name, value])),
    /** The next snapshot of which this holds. */
    shows: (is: (job: PublicJob) => boolean) =>
      new Promise<void>((resolve) => {
        if (host.snapshot && is(host.snapshot)) resolve()
        host.addEventListener('jobchange', () => {
          if (is(host.snapshot!)) resolve()
        })
      }),
  }
}

async function bench(options: Parameters<typeof served>[0] = {}) {
  const made = await served(options)
  const path = `${made.origin}/jobs`
  return { ...made, path }
}

describe('<job-progress>', () => {
  it('shows each stage of a job as a progress bar, in words and in numbers, to its end', async () => {
    const { enqueue, token, path, queue, lead } = await bench()
    const job = await enqueue()
    const { shows, text, bar } = element({ job: job.id, path, token: await token(job.id), label: 'Export' })
    await shows(({ status }) => status === 'pending')
    expect(text('label')).toBe('Waiting to start')
    expect(bar()).toMatchObject({ role: 'progressbar', 'aria-label': 'Export', 'aria-valuemin': '0', 'aria-valuemax': '100' })
    expect(bar()).not.toHaveProperty('aria-valuenow')
    queue.work()
    await lead(job.id).tell(async (context) => {
      context.progress(0.42)
      await context.stage('saving')
    })
    await shows(({ stage }) => stage?.key === 'saving')
    expect([text('label'), text('value'), text('detail')]).toEqual(['Saving <b>', '42%', 'Step 2 of 3'])
    expect(bar()).toMatchObject({ 'aria-valuenow': '42', 'aria-valuetext': 'Saving <b>, 42%' })
    lead(job.id).end()
    await shows(({ final }) => final)
    expect([text('label'), text('value'), text('detail')]).toEqual(['Done', '100%', ''])
  })
  it('says aloud what stage it is, and nothing of the numbers in between', async () => {
    const { enqueue, token, path, queue, lead } = await bench()
    const job = await enqueue()
    const { shows, spoken, part } = element({ job: job.id, path, token: await token(job.id) })
    expect(part('spoken').getAttribute('aria-live')).toBe('polite')
    await shows(({ status }) => status === 'pending')
    queue.work()
    await lead(job.id).tell((context) => context.stage('drawing'))
    for (const progress of [0.1, 0.2, 0.3]) {
      await lead(job.id).tell((context) => context.progress(progress))
      await shows((now) => now.progress === progress)
    }
    lead(job.id).end()
    await shows(({ final }) => final)
    await vi.waitFor(() => expect(spoken).toEqual(['Waiting to start', 'Drawing · Step 1 of 3', 'Done']))
  })
  it('speaks Chinese where the page does, and has the words of the server in Chinese too', async () => {
    const { enqueue, token, path, queue, lead } = await bench()
    const job = await enqueue()
    const page = document.createElement('main')
    page.lang = 'zh-CN'
    document.body.append(page)
    const { host, shows, text, part } = element({ job: job.id, path, token: await token(job.id, ['view', 'cancel']) })
    page.append(host)
    queue.work()
    await lead(job.id).tell((context) => context.stage('drawing'))
    await shows(({ stage }) => stage?.label === '正在绘制')
    expect([text('label'), text('detail'), part('cancel').textContent]).toEqual(['正在绘制', '第 1 步，共 3 步', '取消'])
  })
  it('counts down to the next attempt, and says which one of how many it is', async () => {
    vi.useFakeTimers({ toFake: ['Date', 'setTimeout', 'clearTimeout'] })
    onTestFinished(() => void vi.useRealTimers())
    const { host, text } = element({ job: 'job' })
    const soon = new Date(Date.now() + 20_000).toISOString()
    host.snapshot = snapshot({ status: 'retrying', retryAt: soon, attempt: 1, maxAttempts: 5 })
    await vi.advanceTimersByTimeAsync(0)
    expect(text('detail')).toBe('Trying again in 20 s · attempt 2 of 5')
    await vi.advanceTimersByTimeAsync(5_000)
    expect(text('detail')).toBe('Trying again in 15 s · attempt 2 of 5')
    await vi.advanceTimersByTimeAsync(15_000)
    expect(text('detail')).toBe('Trying again now · attempt 2 of 5')
    expect(text('spoken')).toBe('Interrupted · attempt 2 of 5')
  })
  it('says that the connection is lost, in the language of the page, until it is back or the job is over', async () => {
    const { enqueue, token, path } = await bench()
    const job = await enqueue()
    let isAway = true
    const getToken = async () => {
      if (isAway) throw new Error('the server of the product is away')
      return token(job.id)
    }
    const { host, shows, text, part } = element({ job: job.id, path, lang: 'zh' }, { getToken })
    await vi.waitFor(() => expect(text('offline')).toBe('连接已断开，正在重试。'))
    expect([part('offline').hidden, part('box').hasAttribute('data-offline')]).toEqual([false, true])
    host.setAttribute('lang', 'en')
    await vi.waitFor(() => expect(text('offline')).toBe('Connection lost, trying again.'))
    isAway = false
    await shows(() => true)
    await vi.waitFor(() => expect(part('offline').hidden).toBe(true))
    expect([text('offline'), part('box').hasAttribute('data-offline')]).toEqual(['', false])
  })
  it('says why a job has failed, as text', async () => {
    const { host, text, part } = element({ job: 'job' })
    host.snapshot = snapshot({ status: 'failed', final: true, userMessage: '<img src=x onerror=alert(1)>' })
    await vi.waitFor(() => expect(text('detail')).toBe('<img src=x onerror=alert(1)>'))
    expect(part('box').querySelector('img')).toBeNull()
    expect(text('label')).toBe('Failed')
  })
  it('never goes back within an attempt, and shows no number of one that has failed', async () => {
    const { host, text } = element({ job: 'job' })
    const stage = (index: number) => ({ key: 'a', label: 'A', index, count: 3 })
    const shown: (string | null)[] = []
    const steps: Partial<PublicJob>[] = [
      { stage: stage(0) },
      { stage: stage(1) },
      { stage: stage(1), progress: 0.03 },
      { stage: stage(1), progress: 0.03, cancelRequested: true },
      { stage: stage(1), progress: 0.5 },
      { stage: stage(2), progress: 0.5 },
      { stage: stage(2), progress: 0.9 },
      { stage: stage(2), progress: 0.9, status: 'failed', final: true },
      { stage: stage(2), progress: 0.9, status: 'canceled', final: true },
    ]
    for (const [rev, step] of steps.entries()) {
      host.snapshot = snapshot({ rev, ...step })
      await new Promise((resolve) => setImmediate(resolve))
      shown.push(text('value'))
    }
    expect(shown).toEqual(['0%', '33%', '33%', '33%', '50%', '66%', '90%', '', ''])
  })
  it('says no more that a job could not be canceled once it has ended', async () => {
    const authorize: Authorize = (_, { action }) => action === 'view'
    const { enqueue, path, queue, lead } = await bench({ authorize })
    const job = await enqueue()
    const { shows, text, part } = element({ job: job.id, path })
    await shows(() => true)
    part('cancel').click()
    await vi.waitFor(() => expect(text('detail')).toBe('This could not be canceled.'))
    queue.work()
    await lead(job.id).tell(() => {})
    lead(job.id).end()
    await shows(({ final }) => final)
    expect([text('label'), text('detail')]).toEqual(['Done', ''])
  })
  it('cancels, where the token permits that, and shows it', async () => {
    const { enqueue, token, path } = await bench()
    const [may, mayNot] = [await enqueue(), await enqueue()]
    const one = element({ job: may.id, path, token: await token(may.id, ['view', 'cancel']) })
    const two = element({ job: mayNot.id, path, token: await token(mayNot.id, ['view']) })
    await Promise.all([one.shows(() => true), two.shows(() => true)])
    expect([one.part('cancel').hidden, two.part('cancel').hidden]).toEqual([false, true])
    one.part('cancel').click()
    await one.shows(({ status }) => status === 'canceled')
    expect([one.text('label'), one.part('cancel').hidden]).toEqual(['Canceled', true])
  })
  it('offers the file of a job that has one, at an address of the moment', async () => {
    const made = await bench()
    const job = await withFile(made, 'report.pdf', 'the content')
    const getToken = (ids: readonly string[]) => made.token([...ids], ['view', 'download'])
    const { shows, part } = element({ job: job.id, path: made.path }, { getToken })
    await shows(({ final }) => final)
    expect([part('download').textContent, part('download').hidden]).toEqual(['Download report.pdf', false])
    const clicked = new Promise<string>((resolve) => {
      const click = vi.spyOn(window.HTMLAnchorElement.prototype, 'click')
      onTestFinished(() => click.mockRestore())
      click.mockImplementation(function (this: { href: string }) {
        resolve(this.href)
      })
    })
    part('download').click()
    expect(await (await fetch(await clicked)).text()).toBe('the content')
  })
  it('says that something did not work, and takes back a button that is not permitted', async () => {
    const authorize: Authorize = (_, { action }) => action === 'view'
    const { enqueue, path } = await bench({ authorize })
    const { shows, text, spoken, part } = element({ job: (await enqueue()).id, path })
    await shows(() => true)
    expect(part('cancel').hidden).toBe(false)
    part('cancel').click()
    await vi.waitFor(() => expect(text('detail')).toBe('This could not be canceled.'))
    expect(part('cancel').hidden).toBe(true)
    await vi.waitFor(() => expect(spoken.at(-1)).toBe('This could not be canceled.'))
  })
  it('says nothing of what was asked of a job that it does not show any more', async () => {
    let refuse = (): void => {}
    const refused = new Promise<void>((resolve) => (refuse = resolve))
    const authorize: Authorize = async (_, { action }) => action === 'view' || refused.then(() => false)
    const { enqueue, path } = await bench({ authorize })
    const [one, two] = [await enqueue(), await enqueue()]
    const { host, shows, text, spoken, part } = element({ job: one.id, path })
    await shows(({ id }) => id === one.id)
    onTestFinished(() => void vi.restoreAllMocks())
    const answered = new Promise<void>((resolve) => {
      vi.spyOn(globalThis, 'fetch').mockImplementation(async (...asked) => {
        const response = await fetchOfNode(...asked)
        if (response.url.includes('/cancel')) setImmediate(resolve)
        return response
      })
    })
    part('cancel').click()
    host.setAttribute('job', two.id)
    await shows(({ id }) => id === two.id)
    refuse()
    await answered
    await new Promise((resolve) => setImmediate(resolve))
    expect([text('label'), text('detail')]).toEqual(['Waiting to start', ''])
    expect(part('cancel').hidden).toBe(false)
    expect(spoken).not.toContain('This could not be canceled.')
  })
  it('tells the page of what it shows, and why it shows nothing', async () => {
    const { token, path } = await bench()
    const { host, text, bar } = element({ job: 'other', path, token: await token('mine') })
    const error = await new Promise<JobsError>((resolve) => {
      host.addEventListener('joberror', (event) => resolve((event as CustomEvent<JobsError>).detail))
    })
    expect(error).toMatchObject({ status: 403 })
    expect(text('label')).toContain('You have no access')
    expect(bar()).not.toHaveProperty('aria-valuenow')
  })
  it('follows another job when its attribute changes, and lets go when it is taken off the page', async () => {
    const { enqueue, token, path, connections } = await bench()
    const [one, two] = [await enqueue(), await enqueue()]
    const { host, shows } = element({ job: one.id, path, token: await token([one.id, two.id]) })
    await shows(({ id }) => id === one.id)
    host.setAttribute('job', two.id)
    await shows(({ id }) => id === two.id)
    expect(connections.size).toBe(1)
    host.remove()
    await vi.waitFor(() => expect(connections.size).toBe(0))
  })
  it('shares a connection with the others of its page that have the same function for tokens', async () => {
    const { enqueue, token, path, requests } = await bench()
    const [one, two] = [await enqueue(), await enqueue()]
    const getToken = (ids: readonly string[]) => token([...ids])
    const pages = [element({ job: one.id, path }, { getToken }), element({ job: two.id, path }, { getToken })]
    for (const { shows } of pages) await shows(() => true)
    expect(requests).toHaveLength(1)
  })
  it('shares a connection with those that have a token of their own, which each permits its own job and no more', async () => {
    const { enqueue, token, path, queue, lead, requests, connections } = await bench()
    const jobs = await Promise.all(Array.from({ length: 8 }, () => enqueue()))
    const pages = await Promise.all(
      jobs.map(async ({ id }, n) => element({ job: id, path, token: await token(id, n === 0 ? ['view', 'cancel'] : ['view']) })),
    )
    for (const { shows } of pages) await shows(() => true)
    expect(connections.size).toBe(1)
    expect(requests.length).toBeLessThan(4) // Elements that come later make the connection anew.
    expect(pages.map(({ part }) => part('cancel').hidden)).toEqual([false, ...Array.from({ length: 7 }, () => true)])
    queue.work()
    await lead(jobs.at(-1)!.id).tell((context) => context.stage('drawing'))
    await pages.at(-1)!.shows(({ stage }) => stage?.key === 'drawing')
  })
  it('with a bad token shows that alone, and the others stay live', async () => {
    const { enqueue, token, path, queue, lead, connections } = await bench()
    const [mine, bad] = [await enqueue(), await enqueue()]
    const forged = element({ job: bad.id, path, token: await token(bad.id, ['view'], OTHER_SECRET) })
    const good = element({ job: mine.id, path, token: await token(mine.id) })
    await vi.waitFor(() => expect(forged.text('label')).toContain('You have no access'))
    queue.work()
    await lead(mine.id).tell((context) => context.stage('drawing'))
    await good.shows(({ stage }) => stage?.key === 'drawing')
    expect(connections.size).toBe(1)
    forged.host.setAttribute('token', await token(bad.id))
    await forged.shows(({ id }) => id === bad.id)
  })
  it('says no more tokens at once than a header holds, and takes a token of the product alone', async () => {
    const { path } = await bench({ authorize: () => true })
    const said: string[] = []
    onTestFinished(() => void vi.restoreAllMocks())
    vi.spyOn(globalThis, 'fetch').mockImplementation((address, init) => {
      said.push((init!.headers as { authorization: string }).authorization)
      return fetchOfNode(address, init)
    })
    const claims = btoa(JSON.stringify({ aud: 'jobtable', actions: ['view'] }))
    const tokens = Array.from({ length: 30 }, (_, n) => `head.${claims}.${String(n).repeat(300).slice(0, 300)}`)
    const own = ['a token of the product', 'another of them']
    for (const [n, token] of [...tokens, ...own].entries()) element({ job: `job-${n}`, path, token })
    await vi.waitFor(() => expect(said).toHaveLength(4))
    expect(said.every((header) => header.length < 8_000)).toBe(true)
    expect(new Set(said.flatMap((header) => header.replace('Bearer ', '').split('~')))).toEqual(new Set([...tokens, ...own]))
    expect(said.slice(2)).toEqual(own.map((token) => `Bearer ${token}`))
  })
  it('takes what was set on it before it was defined', async () => {
    const host = document.createElement('late-progress') as JobProgressElement
    host.setAttribute('job', 'job')
    host.snapshot = snapshot({ status: 'succeeded', final: true })
    document.body.append(host)
    onTestFinished(() => host.remove())
    defineJobProgress('late-progress')
    await vi.waitFor(() => expect(host.shadowRoot?.querySelector('[part=label]')?.textContent).toBe('Done'))
  })
})

function snapshot(more: Partial<PublicJob>): PublicJob {
  return {
    id: 'job',
    type: 'export',
    status: 'running',
    final: false,
    rev: 1,
    stage: null,
    progress: null,
    attempt: 1,
    maxAttempts: 5,
    retryAt: null,
    userMessage: null,
    cancelRequested: false,
    createdAt: null,
    finishedAt: null,
    result: null,
    file: null,
    streams: [],
    ...more,
  }
}
