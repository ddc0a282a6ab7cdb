import { describe, expect, it, vi } from 'vitest'
import { newJob } from '../../src/testing/new-job.js'
import { PermanentError, TransientError } from '../../src/index.js'
import type { PublicJob } from '../../src/http/index.js'
import { finished, followed, place, withFile, type Place } from './support.js'

/** What the job's page gets to see. */
async function view({ ask, token }: Place, id: string, headers: Record<string, string> = {}): Promise<PublicJob> {
  const response = await ask(`/jobs/${id}`, await token(id), { headers })
  expect(response.status).toBe(200)
  return (await response.json()) as PublicJob
}

const EVIL = '</script><img src=x onerror=alert(1)>'

describe('a snapshot', () => {
  it('holds the public members, and nothing else', async () => {
    const made = await place()
    const job = await made.enqueue({ secret: 'of the payload' })
    expect(await view(made, job.id)).toEqual({
      id: job.id,
      type: 'export',
      status: 'pending',
      final: false,
      rev: expect.any(Number) as number,
      stage: null,
      progress: null,
      attempt: 0,
      maxAttempts: 3,
      retryAt: null,
      userMessage: null,
      cancelRequested: false,
      createdAt: job.createdAt.toISOString(),
      finishedAt: null,
      result: null,
      file: null,
      streams: ['answer', 'notes'],
    })
  })
  it('tells of the stage in words of the reader, of the attempt, and of when the next one is due', async () => {
    const made = await place()
    const job = await made.enqueue()
    const worker = made.queue.work()
    await made.lead(job.id).tell(async (context) => {
      context.progress(0.25)
      await context.stage('drawing')
    })
    expect(await view(made, job.id)).toMatchObject({ status: 'running', progress: 0.25, attempt: 1 })
    const stageIn = async (language: string) => (await view(made, job.id, { 'accept-language': language })).stage
    const drawing = { key: 'drawing', index: 0, count: 3 }
    expect(await stageIn('fr;q=0.9, zh-TW;q=0.8, en;q=0.2')).toEqual({ ...drawing, label: '正在绘制' })
    expect(await stageIn('de, en-GB')).toEqual({ ...drawing, label: 'Drawing' })
    expect(await stageIn('*')).toEqual({ ...drawing, label: 'Drawing' })
    made.lead(job.id).end(new TransientError('the database at 10.0.0.7 is away'))
    await worker.idle()
    const retrying = await view(made, job.id)
    expect(retrying).toMatchObject({ status: 'retrying', attempt: 1, maxAttempts: 3, final: false, userMessage: null })
    expect(retrying.retryAt).toBe((await job.refresh()).runAfter.toISOString())
    expect(JSON.stringify(retrying)).not.toContain('10.0.0.7')
  })
  it('has all of the progress once its job has succeeded, and of one that has failed what was reported', async () => {
    const made = await place()
    expect(await view(made, (await finished(made, 'done')).id)).toMatchObject({ status: 'succeeded', progress: 1 })
    expect(await view(made, (await finished(made, new PermanentError('bad'))).id)).toMatchObject({ progress: null })
  })
  it('takes the language of ?locale= before all, and that of the option where nobody says', async () => {
    const made = await place({ locale: 'zh' })
    const job = await finished(made, new PermanentError('bad', { code: 'quota_exhausted' }))
    expect((await view(made, job.id)).userMessage).toBe('额度已用完，如需继续使用，请联系客服。')
    const response = await made.ask(`/jobs/${job.id}?locale=en`, await made.token(job.id), {
      headers: { 'accept-language': 'zh' },
    })
    expect(await response.json()).toMatchObject({
      userMessage: 'The usage limit has been reached. Please contact support to go on.',
    })
  })
  it('tells of a failure in words for the user, in their language, and not of the error', async () => {
    const made = await place()
    const error = Object.assign(new PermanentError('key sk-12345 was refused by 10.0.0.7', { code: 'quota_exhausted' }))
    const job = await finished(made, error)
    const chinese = await view(made, job.id, { 'accept-language': 'zh-CN' })
    expect(chinese).toMatchObject({ status: 'failed', final: true, userMessage: '额度已用完，如需继续使用，请联系客服。' })
    expect(JSON.stringify(chinese)).not.toMatch(/sk-12345|10\.0\.0\.7|Error|stack/)
  })
  it('leaves words that came with the error as they are', async () => {
    const made = await place()
    const job = await finished(made, new PermanentError('no', { userMessage: 'Page 3 has no text.' }))
    expect((await view(made, job.id, { 'accept-language': 'zh' })).userMessage).toBe('Page 3 has no text.')
  })
  it('gives the result, or of a file its name, size, type and address', async () => {
    const made = await place()
    expect(await view(made, (await finished(made, { pages: 3 })).id)).toMatchObject({ result: { pages: 3 }, file: null })
    const job = await withFile(made, '报告.pdf', 'the content')
    expect(await view(made, job.id)).toMatchObject({
      result: null,
      file: { name: '报告.pdf', size: 11, contentType: 'application/pdf', url: `/jobs/${job.id}/file` },
    })
  })
  it('keeps HTML and scripts inert in results, messages, labels and names', async () => {
    const made = await place()
    const jobs = [
      await finished(made, { html: EVIL }),
      await finished(made, new PermanentError('no', { userMessage: EVIL })),
      await withFile(made, EVIL.replaceAll('/', ''), 'x'),
    ]
    for (const { id } of jobs) {
      const response = await made.ask(`/jobs/${id}`, await made.token(id))
      expect(response.headers.get('content-type')).toBe('application/json; charset=utf-8')
      expect(response.headers.get('x-content-type-options')).toBe('nosniff')
      expect(await response.text()).not.toContain('<')
    }
  })
  it('survives a row that somebody wrote by hand', async () => {
    const made = await place()
    const [id, get] = ['a b/ü?', made.store.get]
    await made.store.insert([{ ...newJob(), type: 'unknown_here', id }])
    made.store.get = async (ids) =>
      (await get(ids)).map((row) => row && { ...row, status: 'failed', createdAt: 9e15, result: 'no JSON', stage: 'constructor' })
    const response = await made.ask(`/jobs/${encodeURIComponent(id)}`, await made.token(id))
    expect(await response.json()).toMatchObject({
      id,
      maxAttempts: null,
      createdAt: null,
      result: null,
      stage: { key: 'constructor', label: 'constructor', index: null, count: 0 },
    })
  })
  it('has a tag, and is not sent again to whoever has it', async () => {
    const made = await place()
    const job = await made.enqueue()
    const ask = async (headers = {}) => made.ask(`/jobs/${job.id}`, await made.token(job.id), { headers })
    const etag = (await ask()).headers.get('etag')!
    const again = await ask({ 'if-none-match': etag })
    expect([again.status, again.body, again.headers.get('etag')]).toEqual([304, null, etag])
    await job.cancel()
    expect((await ask({ 'if-none-match': etag })).status).toBe(200)
  })
  it('is kept by no cache, and its address by no other site', async () => {
    const made = await place()
    const job = await made.enqueue()
    const { headers } = await made.ask(`/jobs/${job.id}`, await made.token(job.id))
    expect(headers.get('cache-control')).toBe('private, no-cache, no-transform')
    expect(headers.get('referrer-policy')).toBe('no-referrer')
  })
})

describe('a long poll', () => {
  it('is answered by the change that it waits for', async () => {
    const made = await place()
    const job = await made.enqueue()
    const token = await made.token(job.id)
    const { rev } = await view(made, job.id)
    const waiting = made.ask(`/jobs/${job.id}?after=${rev}&wait=20`, token)
    made.queue.work()
    await made.lead(job.id).tell((context) => context.stage('drawing'))
    const news = (await (await waiting).json()) as PublicJob
    expect(news.rev).toBeGreaterThan(rev)
    const next = made.ask(`/jobs/${job.id}?after=${news.rev}&wait=20`, token)
    made.lead(job.id).end({ pages: 3 })
    expect(((await (await next).json()) as PublicJob).rev).toBeGreaterThan(news.rev)
  })
  it('is answered at once where there is news already, or nobody waits', async () => {
    const made = await place()
    const job = await made.enqueue()
    const token = await made.token(job.id)
    expect((await made.ask(`/jobs/${job.id}?wait=20`, token)).status).toBe(200)
    const { rev } = await view(made, job.id)
    expect((await made.ask(`/jobs/${job.id}?after=${rev}`, token)).status).toBe(204)
  })
  it('ends when its reader leaves, and when the handler is closed', async () => {
    const made = await place()
    const job = await made.enqueue()
    const token = await made.token(job.id)
    const { rev } = await view(made, job.id)
    const leaving = new AbortController()
    const now = followed(made)
    const left = made.ask(`/jobs/${job.id}?after=${rev}&wait=20`, token, { signal: leaving.signal })
    const stayed = made.ask(`/jobs/${job.id}?after=${rev}&wait=20`, token)
    await vi.waitFor(() => expect(now()).toBe(1))
    leaving.abort()
    expect((await left).status).toBe(204)
    await made.handler.close()
    expect((await stayed).status).toBe(204)
    expect(now()).toBe(0)
    expect((await made.ask(`/jobs/${job.id}`, token)).status).toBe(503)
  })
})

describe('a request', () => {
  it('for a job that is not there is told so, if its token is for it', async () => {
    const made = await place()
    const token = await made.token('gone', ['view', 'cancel', 'download'])
    for (const path of ['/jobs/gone', '/jobs/gone?after=0&wait=20', '/jobs/gone/events', '/jobs/gone/file']) {
      const response = await made.ask(path, token)
      expect([response.status, await response.json()]).toEqual([404, expect.objectContaining({ error: 'job_not_found' })])
    }
    expect((await made.ask('/jobs/gone/cancel', token, { method: 'POST' })).status).toBe(404)
  })
  it('that is none of the routes, in no way that the route knows, or odd, is refused', async () => {
    const made = await place()
    const job = await made.enqueue()
    const token = await made.token(job.id, ['view', 'cancel', 'download'])
    const status = async (path: string, method = 'GET') => (await made.ask(path, token, { method })).status
    for (const path of [
      '/',
      '/jobs',
      '/jobs/',
      `/jobs/${job.id}/`,
      `/jobs/${job.id}/secrets`,
      `/jobs/${job.id}/file/x`,
      '/jobs/%zz',
    ])
      expect([path, await status(path)]).toEqual([path, 404])
    expect(await status(`/jobs/${job.id}`, 'DELETE')).toBe(405)
    expect(await status(`/jobs/${job.id}/cancel`)).toBe(405)
    expect(await status(`/jobs/${job.id}?after=x`)).toBe(400)
    expect(await status(`/jobs/events?${Array.from({ length: 101 }, (_, i) => `id=${i}`).join('&')}`)).toBe(400)
  })
  it('is told nothing of what went wrong inside, which is logged', async () => {
    const made = await place()
    const job = await made.enqueue()
    made.store.cancel = () => Promise.reject(new Error('password of 10.0.0.7'))
    const response = await made.ask(`/jobs/${job.id}/cancel`, await made.token(job.id, ['cancel']), { method: 'POST' })
    expect([response.status, await response.text()]).toEqual([500, expect.not.stringContaining('password') as string])
  })
})

describe('a cancellation', () => {
  it('of a job that waits is done at once, and may be asked for twice', async () => {
    const made = await place()
    const job = await made.enqueue()
    const token = await made.token(job.id, ['cancel'])
    for (let i = 0; i < 2; i++) {
      const response = await made.ask(`/jobs/${job.id}/cancel`, token, { method: 'POST' })
      expect([response.status, await response.json()]).toEqual([
        200,
        expect.objectContaining({ status: 'canceled', final: true }),
      ])
    }
  })
  it('of a running job is a request, which the snapshot tells of', async () => {
    const made = await place()
    const job = await made.enqueue()
    made.queue.work()
    await made.lead(job.id).tell(() => {})
    const response = await made.ask(`/jobs/${job.id}/cancel`, await made.token(job.id, ['cancel']), { method: 'POST' })
    expect([response.status, await response.json()]).toEqual([
      200,
      expect.objectContaining({ status: 'running', cancelRequested: true }),
    ])
  })
  it('of a job that has succeeded comes too late, and shows what it became', async () => {
    const made = await place()
    const job = await finished(made, 'done')
    const response = await made.ask(`/jobs/${job.id}/cancel`, await made.token(job.id, ['cancel']), { method: 'POST' })
    expect([response.status, await response.json()]).toEqual([409, expect.objectContaining({ status: 'succeeded' })])
  })
})
