import { SignJWT } from 'jose'
import { describe, expect, it, onTestFinished } from 'vitest'
import { httpHandler, signToken } from '../../src/http/index.js'
import { testQueue } from '../../src/testing/test-queue.js'
import { OTHER_SECRET, place, SECRET, withFile } from './support.js'

const ROUTES = [
  ['GET', '/jobs/ID', 'view'],
  ['HEAD', '/jobs/ID', 'view'],
  ['GET', '/jobs/ID?after=0&wait=20', 'view'],
  ['GET', '/jobs/ID/events', 'view'],
  ['GET', '/jobs/events?id=ID', 'view'],
  ['GET', '/jobs/events?id=ID&text=ID/answer', 'view'],
  ['GET', '/jobs/events?id=ID&after=0&wait=20', 'view'],
  ['GET', '/jobs/ID/events?text=answer', 'view'],
  ['GET', '/jobs/ID/streams/answer', 'view'],
  ['HEAD', '/jobs/ID/streams/answer', 'view'],
  ['GET', '/jobs/ID/streams/answer?attempt=1&offset=0&wait=20', 'view'],
  ['POST', '/jobs/ID/cancel', 'cancel'],
  ['GET', '/jobs/ID/file', 'download'],
  ['HEAD', '/jobs/ID/file', 'download'],
] as const

/** All that an outsider can see of an answer, but for the id that they asked for. */
async function seen(response: Response, id: string): Promise<unknown> {
  return { status: response.status, headers: [...response.headers], body: (await response.text()).replaceAll(id, 'ID') }
}

describe.each(ROUTES)('%s %s', (method, path, action) => {
  const bench = async () => {
    const made = await place()
    const job = await withFile(made, 'r.txt', 'the content', undefined, 'some text')
    const guess = '01926f3c-0d6c-7c60-a4d5-0f2b64d3b7a1'
    const ask = (token?: string, id = job.id) => made.ask(path.replaceAll('ID', id), token, { method })
    return { ...made, job, guess, ask }
  }

  it('lets in whoever has a token for the job and the action', async () => {
    const { ask, token, job } = await bench()
    const response = await ask(await token(job.id, [action]))
    expect(response.status).toBe(method === 'POST' ? 409 : 200)
    await response.body?.cancel()
  })
  it('is closed without a token', async () => {
    const { ask } = await bench()
    expect((await ask()).status).toBe(401)
  })
  it('is closed to an expired token, and says so', async () => {
    const { ask, job } = await bench()
    const expired = await signToken({ jobs: [job.id], actions: [action], expiresIn: '0s' }, SECRET)
    const response = await ask(expired)
    expect(response.status).toBe(401)
    if (method !== 'HEAD') expect(await response.json()).toMatchObject({ error: 'token_expired' })
  })
  it('is closed to the token of another job, and says the same of a job that is not there', async () => {
    const { ask, token, guess, job } = await bench()
    const other = await token('another-job', [action])
    const response = await ask(other)
    expect(response.status).toBe(403)
    expect(await seen(response, job.id)).toEqual(await seen(await ask(other, guess), guess))
  })
  it('is closed to a token for other actions, and says the same of a job that is not there', async () => {
    const { ask, token, job, guess } = await bench()
    const others = (['view', 'cancel', 'download'] as const).filter((each) => each !== action)
    const wrong = await token([job.id, guess], others)
    const response = await ask(wrong)
    expect(response.status).toBe(403)
    expect(await seen(response, job.id)).toEqual(await seen(await ask(wrong, guess), guess))
  })
  it('is closed to a token that was tampered with, signed by another, or unsigned', async () => {
    const { ask, token, job } = await bench()
    const [head, , signature] = (await token('another-job', [action])).split('.')
    const claims = { jobs: [job.id], actions: [action], aud: 'jobtable', exp: 4_102_444_800 }
    const encode = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')
    const key = new TextEncoder().encode(SECRET)
    const tokens = [
      `${head}.${encode(claims)}.${signature}`,
      `${encode({ alg: 'none' })}.${encode(claims)}.`,
      await token(job.id, [action], OTHER_SECRET),
      await new SignJWT(claims).setProtectedHeader({ alg: 'HS512' }).sign(key),
      await new SignJWT({ ...claims, aud: 'sessions' }).setProtectedHeader({ alg: 'HS256' }).sign(key),
      await new SignJWT({ ...claims, jobs: '*' }).setProtectedHeader({ alg: 'HS256' }).sign(key),
      await new SignJWT({ jobs: [job.id], actions: [action] })
        .setAudience('jobtable')
        .setProtectedHeader({ alg: 'HS256' })
        .sign(key),
      'x.y.z',
    ]
    for (const each of tokens) expect((await ask(each)).status).toBe(401)
  })
  it('looks nothing up for outsiders', async () => {
    const { ask, token, calls, guess } = await bench()
    calls.get = 0
    await ask()
    await ask('x.y.z')
    await ask(await token('another-job', ['view', 'cancel', 'download']), guess)
    expect(calls.get).toBe(0)
  })
  it('asks authorize about the job and the action, and takes only true for a yes', async () => {
    const asked: unknown[] = []
    let says: unknown = true
    const { ask } = await (async () => {
      const made = await place({
        secrets: undefined,
        authorize: (_request: Request, access: unknown) => (asked.push(access), says as boolean),
      } as never)
      const job = await withFile(made, 'r.txt', 'the content', undefined, 'some text')
      return { ask: () => made.ask(path.replaceAll('ID', job.id), undefined, { method }) }
    })()
    const response = await ask()
    expect(response.status).toBe(method === 'POST' ? 409 : 200)
    await response.body?.cancel()
    expect(asked).toEqual([{ jobId: expect.any(String) as string, action }])
    for (says of [false, undefined, 'yes', 1, { allowed: false }]) expect((await ask()).status).toBe(403)
  })
})

describe('a handler', () => {
  it('must be told at the start who may', () => {
    const queue = testQueue()
    onTestFinished(() => queue.close())
    const authorize = () => true
    for (const options of [undefined, {}, { secrets: [] }, { secrets: [SECRET], authorize }, { secrets: ['short'] }]) {
      expect(() => httpHandler(queue, options as never)).toThrow(expect.objectContaining({ code: 'config_invalid' }))
    }
  })
  it('wants a path, a language and a longest time that make sense', () => {
    const queue = testQueue()
    onTestFinished(() => queue.close())
    for (const options of [{ path: 'jobs' }, { path: '/jobs/' }, { path: '/a?b' }, { locale: 'fr' }]) {
      expect(() => httpHandler(queue, { secrets: [SECRET], ...options } as never)).toThrow(
        expect.objectContaining({ code: 'config_invalid' }),
      )
    }
    expect(() => httpHandler(queue, { secrets: [SECRET], maxStream: 900 as never })).toThrow(
      expect.objectContaining({ code: 'duration_invalid' }),
    )
  })
  it('takes a token as ?token= where headers cannot be set', async () => {
    const { ask, token, enqueue } = await place()
    const job = await enqueue()
    expect((await ask(`/jobs/${job.id}?token=${await token(job.id)}`)).status).toBe(200)
    expect((await ask(`/jobs/${job.id}?token=x`)).status).toBe(401)
  })
  it('takes tokens of an older secret until that is taken off the list', async () => {
    const during = await place({ secrets: [OTHER_SECRET, SECRET] })
    const job = await during.enqueue()
    for (const secret of [SECRET, OTHER_SECRET]) {
      expect((await during.ask(`/jobs/${job.id}`, await during.token(job.id, ['view'], secret))).status).toBe(200)
    }
    const after = await place({ secrets: [OTHER_SECRET] })
    expect((await after.ask(`/jobs/${job.id}`, await after.token(job.id, ['view'], SECRET))).status).toBe(401)
  })
  it('opens a stream only to whoever may see every job of it', async () => {
    const { ask, token, enqueue } = await place()
    const [mine, other] = [await enqueue(), await enqueue()]
    const response = await ask(`/jobs/events?id=${mine.id}&id=${other.id}`, await token(mine.id))
    expect(response.status).toBe(403)
  })
  it('stays closed when authorize throws, and tells the asker nothing of it', async () => {
    const { ask, enqueue } = await place({
      secrets: undefined,
      authorize: () => {
        throw new Error('the session store is at 10.0.0.7')
      },
    } as never)
    const response = await ask(`/jobs/${(await enqueue()).id}`)
    expect(response.status).toBe(500)
    expect(await response.text()).not.toContain('10.0.0.7')
  })
  it('refuses a cancellation that comes from the page of another site', async () => {
    const { ask, enqueue } = await place({ secrets: undefined, authorize: () => true } as never)
    const job = await enqueue()
    const from = (site: string) =>
      ask(`/jobs/${job.id}/cancel`, undefined, { method: 'POST', headers: { 'sec-fetch-site': site } })
    expect((await from('cross-site')).status).toBe(403)
    expect((await job.refresh()).status).toBe('pending')
    expect((await from('same-origin')).status).toBe(200)
  })
  it('makes no token that opens nothing or what is no action', async () => {
    const sign = (scope: object) => signToken({ jobs: ['a'], actions: ['view'], expiresIn: '1h', ...scope }, SECRET)
    await expect(sign({ actions: ['delete'] })).rejects.toMatchObject({ code: 'config_invalid' })
    await expect(sign({ actions: [] })).rejects.toMatchObject({ code: 'config_invalid' })
    await expect(sign({ jobs: [] })).rejects.toMatchObject({ code: 'config_invalid' })
  })
})

describe('several tokens at once', () => {
  const bench = async () => {
    const made = await place()
    const [one, two] = [await made.enqueue(), await made.enqueue()]
    const expired = await signToken({ jobs: [two.id], actions: ['view'], expiresIn: '0s' }, SECRET)
    const many = (...tokens: string[]) => made.ask(`/jobs/events?id=${one.id}&id=${two.id}&wait=1`, tokens.join('~'))
    return { ...made, one, two, expired, many }
  }

  it('are for the jobs of each', async () => {
    const { token, one, two, many } = await bench()
    const text = await (await many(await token(one.id), await token(two.id))).text()
    for (const { id } of [one, two]) expect(text).toContain(`"id":"${id}"`)
  })
  it('permit no more than each alone: not the job of one with the action of another', async () => {
    const { ask, token, one, two } = await bench()
    const tokens = [await token(one.id, ['view']), await token(two.id, ['cancel'])].join('~')
    expect((await ask(`/jobs/${one.id}`, tokens)).status).toBe(200)
    expect((await ask(`/jobs/${two.id}`, tokens)).status).toBe(403)
    expect((await ask(`/jobs/${one.id}/cancel`, tokens, { method: 'POST' })).status).toBe(403)
  })
  it('lose only the jobs of those that are expired or forged, by name', async () => {
    const { token, one, two, expired, many } = await bench()
    for (const bad of [expired, await token(two.id, ['view'], OTHER_SECRET), 'a.b.c', '']) {
      const response = await many(await token(one.id), bad)
      expect([response.status, await response.json()]).toMatchObject([403, { error: 'forbidden', jobs: [two.id] }])
    }
  })
  it('are refused as one is where none of them is good', async () => {
    const { expired, many } = await bench()
    expect(await (await many('a.b.c', expired)).json()).toMatchObject({ error: 'token_expired' })
    expect(await (await many('a.b.c', 'd.e.f')).json()).toMatchObject({ error: 'unauthorized' })
  })
  it('are no more than a hundred', async () => {
    const { token, one, many } = await bench()
    const soon = await signToken({ jobs: ['job'], actions: ['view'], expiresIn: '0s' }, SECRET)
    expect((await many(...Array.from({ length: 101 }, () => soon))).status).toBe(400)
    expect((await many(await token(one.id), ...Array.from({ length: 99 }, () => soon))).status).toBe(403)
  })
})
