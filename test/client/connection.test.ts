/** The connection of a page: what breaks it, what is between, and what its page does. */
import { describe, expect, it, onTestFinished, vi } from 'vitest'
import type { JobsClientOptions, JobsError, PublicJob, StreamedText } from '../../src/client/index.js'
import { absence, Nginx } from '../support/nginx.js'
import { TcpProxy } from '../support/tcp-proxy.js'
import { Tab } from './browser.js'
import { client, Seen, served } from './support.js'

/** A running job, and a page that watches it. */
async function watched({ through }: { through?: (port: number) => Promise<number> } = {}) {
  const made = await served()
  const port = await (through?.(made.port) ?? made.port)
  const job = await made.enqueue()
  made.queue.work()
  const tab = new Tab(undefined)
  const tokens: string[] = []
  const getToken = async (ids: readonly string[]) => {
    const token = await made.token([...ids, `asked-${tokens.length}`])
    tokens.push(token)
    return token
  }
  const jobs = client(`http://127.0.0.1:${port}`, { getToken }, tab)
  const seen = new Seen<PublicJob>()
  const errors = new Seen<JobsError>()
  jobs.watch(job.id, seen.add, { onError: errors.add })
  const stage = async (key: string) => {
    await made.lead(job.id).tell((context) => context.stage(key))
  }
  /** Resolves once the page has been shown this stage, perhaps after the job has come to it. */
  const sees = async (key: string, to?: (key: string) => Promise<void>) => {
    await to?.(key)
    return seen.find((now) => now.stage?.key === key)
  }
  return { ...made, job, tab, tokens, jobs, seen, errors, stage, sees }
}

/** What the page's own functions have thrown. */
function hearsUncaught(): unknown[] {
  const uncaught: unknown[] = []
  const listeners = process.listeners('uncaughtException')
  process.removeAllListeners('uncaughtException').on('uncaughtException', (error) => uncaught.push(error))
  onTestFinished(() => {
    process.removeAllListeners('uncaughtException')
    for (const listener of listeners) process.on('uncaughtException', listener)
  })
  return uncaught
}

const forward = (seen: Seen<PublicJob>) => {
  const revs = seen.all.map(({ rev }) => rev)
  expect(revs).toEqual([...new Set(revs)].toSorted((a, b) => a - b))
}

describe('a connection that breaks', () => {
  it('every 5 s leaves the page live: it comes back within half a second, with a fresh token, and goes never back', async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    onTestFinished(() => void vi.useRealTimers())
    const proxies: TcpProxy[] = []
    const { tab, tokens, stage, sees, seen, errors, job, lead, requests } = await watched({
      through: async (port) => {
        proxies.push(await TcpProxy.create(port))
        return proxies[0]!.port
      },
    })
    onTestFinished(() => proxies[0]!.remove())
    await seen.find(() => true)
    for (const key of ['drawing', 'saving', 'ready']) {
      await stage(key)
      await sees(key)
      vi.setSystemTime(Date.now() + 5_000)
      proxies[0]!.cut()
      tab.pass(await tab.waits((ms) => ms <= 500))
    }
    lead(job.id).end()
    await seen.find(({ final }) => final)
    forward(seen)
    expect(errors.all).toEqual([])
    expect(requests).toHaveLength(4)
    expect(new Set(tokens).size).toBe(4)
  })
  it('is asked for again after longer and longer waits, at random, while the server is away; and at once when it is back', async () => {
    const tab = new Tab(undefined)
    let answer: () => Response | Promise<Response> = () => Promise.reject(new TypeError('fetch failed'))
    const seen = new Seen<PublicJob>()
    const jobs = client('http://server', { fetch: () => Promise.resolve(answer()) }, tab)
    tab.environment.random = () => 0.5
    jobs.watch('job', seen.add)
    const waits: number[] = []
    for (let i = 0; i < 7; i++) {
      waits.push(await tab.waits(isPause))
      tab.pass(60_000)
    }
    expect(waits).toEqual([750, 1_500, 3_000, 6_000, 12_000, 22_500, 22_500])
    answer = () => events({ id: 'job', rev: 3, final: false })
    await tab.waits(isPause)
    tab.fire('online')
    await seen.find(({ rev }) => rev === 3)
  })
})

describe('a page that asks for its connection', () => {
  it('is told once when its connection is lost, at once where it is lost already, and when it is back', async () => {
    const tab = new Tab(undefined)
    let answer: () => Response | Promise<Response> = () => Promise.reject(new TypeError('fetch failed'))
    const jobs = client('http://server', { fetch: () => Promise.resolve(answer()) }, tab)
    const [told, late] = [new Seen<boolean>(), new Seen<boolean>()]
    jobs.watch('job', () => {}, { onConnection: told.add })
    for (let i = 0; i < 3; i++) {
      await tab.waits(isPause)
      tab.pass(60_000)
    }
    await tab.waits(isPause)
    jobs.stream('job', 'answer', () => {}, { onConnection: late.add })
    expect([told.all, late.all]).toEqual([[false], [false]])
    answer = () => events({ id: 'job', rev: 1, final: false })
    tab.pass(60_000)
    await late.find((isLive) => isLive)
    expect([told.all, late.all]).toEqual([
      [false, true],
      [false, true],
    ])
  })
  it('is told nothing of a connection that holds, or that comes back at once', async () => {
    const tab = new Tab(undefined)
    vi.useFakeTimers({ toFake: ['Date'] })
    onTestFinished(() => void vi.useRealTimers())
    let rev = 0
    const answer = () => (
      vi.setSystemTime(Date.now() + 5_000),
      Promise.resolve(events({ id: 'job', rev: ++rev, final: rev > 2 }))
    )
    const [told, seen] = [new Seen<boolean>(), new Seen<PublicJob>()]
    client('http://server', { fetch: answer }, tab).watch('job', seen.add, { onConnection: told.add })
    for (let i = 0; i < 2; i++) tab.pass(await tab.waits(isPause))
    await seen.find(({ final }) => final)
    expect(told.all).toEqual([])
  })
})

describe('behind a proxy that gathers what the server sends', () => {
  const missing = absence()
  it.skipIf(missing)(`a page polls, and stays live to the end of its job${missing ? `: ${missing}` : ''}`, async () => {
    const made = await watched({
      through: async (port) => {
        const nginx = await Nginx.create(port, 'proxy_ignore_headers X-Accel-Buffering; proxy_buffering on;')
        onTestFinished(() => nginx.remove())
        return nginx.port
      },
    })
    const { tab, stage, sees, seen, lead, job, jobs, requests } = made
    await vi.waitFor(() => expect(requests).toHaveLength(1))
    await stage('drawing')
    tab.pass(await tab.waits((ms) => ms === 5_000)) // Nothing has come, though the server has told twice.
    await sees('drawing')
    const text = new Seen<StreamedText>()
    jobs.stream(job.id, 'answer', text.add)
    const polling = new AbortController()
    void passing(tab, polling.signal)
    for (const key of ['saving', 'ready']) {
      await stage(key)
      await sees(key)
      await lead(job.id).tell((context) => context.stream('answer').write(`${key}.`))
      await text.find((now) => now.text.endsWith(`${key}.`))
    }
    lead(job.id).end()
    await seen.find(({ final }) => final)
    expect((await text.find(({ final }) => final)).text).toBe('saving.ready.')
    polling.abort()
    forward(seen)
    const asked = requests.map((each) => each.includes('wait='))
    expect(asked[0]).toBe(false)
    expect(asked.slice(1)).toEqual(asked.slice(1).map(() => true))
  })
})

describe('a connection on which nothing comes', () => {
  it('from the beginning is followed by polls, and after five minutes by a stream again', async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    onTestFinished(() => void vi.useRealTimers())
    const addresses: string[] = []
    const tab = new Tab(undefined)
    const server = (input: unknown, { signal }: RequestInit = {}): Promise<Response> => {
      addresses.push(String(input))
      if (addresses.length > 2) return Promise.resolve(events({ id: 'job', rev: addresses.length, final: false }))
      return new Promise((_, reject) => signal!.addEventListener('abort', () => reject(new Error('aborted'))))
    }
    const seen = new Seen<PublicJob>()
    client('http://server', { fetch: server }, tab).watch('job', seen.add)
    tab.pass(await tab.waits((ms) => ms === 5_000))
    tab.pass(await tab.waits((ms) => ms === 35_000)) // A poll that is never answered is a failure.
    tab.pass(await tab.waits(isPause))
    await seen.find(({ rev }) => rev === 3)
    vi.setSystemTime(Date.now() + 300_000)
    tab.pass(await tab.waits(isPause))
    await seen.find(({ rev }) => rev === 4)
    expect(addresses.map((each) => each.includes('wait='))).toEqual([false, true, true, false])
  })
  it('any more, not even a comment, is given up', async () => {
    const { tab, stage, sees, seen, port, requests } = await watched()
    expect(port).toBeGreaterThan(0)
    await seen.find(() => true)
    tab.pass(await tab.waits((ms) => ms === 35_000))
    await stage('drawing')
    await sees('drawing')
    expect(requests[1]).toContain('wait=')
  })
})

describe('a page that wakes', () => {
  it.each(['visibilitychange', 'pageshow', 'online'])('asks at once at %s, where it was waiting to', async (event) => {
    const tab = new Tab(undefined)
    let isAway = true
    const server = () =>
      isAway ? Promise.reject(new TypeError('fetch failed')) : Promise.resolve(events({ id: 'job', rev: 1, final: true }))
    const seen = new Seen<PublicJob>()
    client('http://server', { fetch: server }, tab).watch('job', seen.add)
    await tab.waits(isPause)
    isAway = false
    tab.fire(event)
    expect(await seen.find(() => true)).toMatchObject({ final: true })
  })
  it('replaces a connection that may have died while it slept', async () => {
    vi.useFakeTimers({ toFake: ['Date'] })
    onTestFinished(() => void vi.useRealTimers())
    const proxy = { made: undefined as TcpProxy | undefined }
    const { tab, stage, sees, seen, requests } = await watched({
      through: async (port) => (proxy.made = await TcpProxy.create(port)).port,
    })
    onTestFinished(() => proxy.made!.remove())
    await seen.find(() => true)
    tab.show()
    expect(requests).toHaveLength(1)
    proxy.made!.strand() // Nobody is told.
    vi.setSystemTime(Date.now() + 60_000)
    tab.show()
    await stage('drawing')
    await sees('drawing')
    expect(requests).toHaveLength(2)
  })
})

describe('a page', () => {
  it('that goes into the back/forward cache has no connection there, and another when it is shown again', async () => {
    const { tab, stage, sees, seen, connections, requests } = await watched()
    await seen.find(() => true)
    tab.fire('pagehide')
    await vi.waitFor(() => expect(connections.size).toBe(0))
    tab.fire('pageshow')
    await stage('drawing')
    await sees('drawing')
    expect(requests).toHaveLength(2)
  })
  it('whose own function throws hears of that itself, and is shown what comes next', async () => {
    const uncaught = hearsUncaught()
    const { jobs, job, stage, sees, requests } = await watched()
    const mistake = new Error('a mistake of the page')
    await sees('drawing', stage)
    jobs.watch(job.id, ({ stage: now }) => {
      if (now?.key === 'saving') throw mistake
    })
    await sees('saving', stage)
    await sees('ready', stage)
    expect(uncaught).toEqual([mistake])
    expect(requests).toHaveLength(1)
  })
  it('whose function for errors throws hears of that itself, and its other jobs stay live', async () => {
    const uncaught = hearsUncaught()
    const answers = [
      Response.json({ error: 'forbidden', jobs: ['other'] }, { status: 403 }),
      stream('event: job\ndata: {"id":"mine","rev":1,"final":true}\n\n'),
    ]
    const jobs = client('http://server', { fetch: () => Promise.resolve(answers.shift()!) })
    const mistake = new Error('a mistake of the page')
    const seen = new Seen<PublicJob>()
    jobs.watch('mine', seen.add)
    jobs.watch('other', seen.add, {
      onError: () => {
        throw mistake
      },
    })
    expect(await seen.find(() => true)).toMatchObject({ id: 'mine' })
    expect(uncaught).toEqual([mistake])
  })
})

describe('access', () => {
  const asked = async (answers: Response[], options: Partial<JobsClientOptions> = {}) => {
    const requests: RequestInit[] = []
    const errors = new Seen<JobsError>()
    const server = (_: unknown, init: RequestInit) => (requests.push(init), Promise.resolve(answers.shift()!))
    const jobs = client('http://server', { fetch: server as typeof fetch, ...options })
    jobs.watch('job', () => {}, { onError: errors.add })
    const error = await errors.find(() => true)
    return { error, requests, jobs }
  }
  const refusal = (status: number, error: string, more: object = {}) =>
    Response.json({ error, message: 'no', ...more }, { status })

  it('is asked for once more with a fresh token where one has just expired', async () => {
    let count = 0
    const { error, requests } = await asked([refusal(401, 'token_expired'), refusal(403, 'forbidden')], {
      getToken: () => `token ${++count}`,
    })
    expect(requests.map(({ headers }) => headers)).toEqual([
      { authorization: 'Bearer token 1' },
      { authorization: 'Bearer token 2' },
    ])
    expect(error).toMatchObject({ status: 403, code: 'forbidden' })
  })
  it.each([
    ['tokens are not taken', [refusal(401, 'unauthorized'), refusal(401, 'unauthorized')], 401, 'unauthorized'],
    ['the job is not of the token', [refusal(403, 'forbidden', { jobs: ['job'] })], 403, 'forbidden'],
    ['there is no such job', [stream('event: gone\ndata: {"id":"job"}\n\n')], 404, 'job_not_found'],
    ['something else answers', [new Response('<h1>The product</h1>')], 200, 'http_error'],
    ['there is no such route', [new Response('<h1>Not found</h1>', { status: 404 })], 404, 'http_error'],
  ])('ends with an error where %s', async (_, answers, status, code) => {
    const { error, requests } = await asked(answers)
    expect(error).toMatchObject({ status, code })
    expect(answers).toEqual([])
    expect(requests.length).toBeGreaterThan(0)
  })
  it('ends with an error, and no request, where getToken has none', async () => {
    const { error, requests } = await asked([], { getToken: () => null })
    expect([error.status, error.code, requests]).toEqual([401, 'unauthorized', []])
  })
  it('that is refused to one job leaves the others live', async () => {
    const made = await served()
    const [mine, other] = [await made.enqueue(), await made.enqueue()]
    const jobs = client(made.origin, { getToken: () => made.token(mine.id) })
    const [seen, errors] = [new Seen<PublicJob>(), new Seen<JobsError>()]
    jobs.watch(mine.id, seen.add, { onError: errors.add })
    jobs.watch(other.id, seen.add, { onError: (error) => errors.add(error) })
    await errors.find(({ status }) => status === 403)
    made.queue.work()
    await made.lead(mine.id).tell((context) => context.stage('drawing'))
    await seen.find(({ stage }) => stage?.key === 'drawing')
    expect(errors.all).toHaveLength(1)
    expect(new Set(seen.all.map(({ id }) => id))).toEqual(new Set([mine.id]))
  })
})

describe('what a page sees', () => {
  it('goes never back, whoever tells what in which order', async () => {
    const told = [5, 4, 6, 6, 2, 7].map((rev) => ({ id: 'job', rev, final: rev === 7 }))
    const seen = new Seen<PublicJob>()
    const jobs = client('http://server', { fetch: () => Promise.resolve(events(...told)) })
    jobs.watch('job', seen.add, { initial: { ...told[1]!, rev: 1 } as PublicJob })
    await seen.find(({ final }) => final)
    expect(seen.all.map(({ rev }) => rev)).toEqual([1, 5, 6, 7])
  })
  it('of a text goes never back; it begins anew with a new attempt alone', async () => {
    const piece = (attempt: number, offset: number, text: string, last = false) => ({
      ...{ id: 'job', name: 'answer', attempt, offset, text, done: last, final: last },
    })
    const told = [
      piece(1, 0, 'Once '),
      piece(1, 0, 'On'),
      piece(1, 2, 'ce upon'),
      piece(1, 20, 'a gap'),
      piece(2, 0, 'There'),
      piece(1, 12, ' a time'),
      piece(2, 5, ' was', true),
    ]
    const seen = new Seen<StreamedText>()
    const jobs = client('http://server', { fetch: () => Promise.resolve(events(...told)) })
    jobs.stream('job', 'answer', seen.add)
    await seen.find(({ final }) => final)
    expect(seen.all.map(({ text, offset }) => [text, offset])).toEqual([
      ['Once ', 0],
      ['Once upon', 5],
      ['There', 0],
      ['There was', 5],
    ])
  })
})

/** Ends the waits of a page as soon as it waits, until the signal aborts. */
async function passing(tab: Tab, until: AbortSignal): Promise<void> {
  while (!until.aborted) tab.pass(await tab.waits((ms) => ms <= 500))
}

/** Not one after which a silent connection is given up. */
function isPause(ms: number): boolean {
  return ms !== 5_000 && ms !== 35_000
}

/** What a server tells, which then closes the connection. */
function events(...told: object[]): Response {
  const text = told.map((each) => `event: ${'text' in each ? 'text' : 'job'}\ndata: ${JSON.stringify(each)}\n\n`).join('')
  return stream(`retry: 1\n\n${text}`)
}

function stream(text: string): Response {
  return new Response(text, { headers: { 'content-type': 'text/event-stream' } })
}
