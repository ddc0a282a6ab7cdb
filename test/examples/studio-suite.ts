/** The example product without a browser, on any database: its five jobs, and who may do what. What the page shows of them is for test/e2e. */
import { once } from 'node:events'
import { readdir } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import type { PublicJob } from 'jobtable/http'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { Answer } from '../../examples/studio/web/actions.js'
import { Studio, type Visitor } from '../support/studio.js'
import { readPdf } from './pdf.js'

let studio: Studio

/** A visitor who has a document, as the page makes one. */
async function arrive(): Promise<Visitor> {
  const visitor = studio.visitor()
  await visitor.fetch('/state')
  return visitor
}

async function act(visitor: Visitor, action: string, body: object): Promise<Answer> {
  const response = await visitor.post(`/actions/${action}`, body)
  if (!response.ok) throw new Error(`${action} was answered with ${response.status}: ${await response.text()}`)
  return (await response.json()) as Answer
}

async function tokenOf(visitor: Visitor): Promise<string> {
  return ((await (await visitor.fetch('/token')).json()) as { token: string }).token
}

/** The job when it is over, or when it waits for another attempt. */
async function settled(visitor: Visitor, id: string): Promise<PublicJob> {
  const token = await tokenOf(visitor)
  for (let query = ''; ;) {
    const response = await visitor.fetch(`/jobs/${id}${query}`, { headers: { authorization: `Bearer ${token}` } })
    if (!response.ok) throw new Error(`${id} was answered with ${response.status}`)
    if (response.status === 204) continue
    const job = (await response.json()) as PublicJob
    if (job.final || job.status === 'retrying') return job
    query = `?after=${job.rev}&wait=20`
  }
}

async function run(visitor: Visitor, action: string, body: object): Promise<PublicJob> {
  const { started } = await act(visitor, action, body)
  return settled(visitor, started!.job)
}

/** `database` answers with the URL of an empty database, or with undefined for the product's own. */
export function describeStudio(database: () => Promise<string | undefined>): void {
  beforeAll(async () => {
    const url = await database()
    studio = await Studio.start({ STUDIO_LINGER_MS: '0', ...(url !== undefined && { JOBTABLE_URL: url }) })
  }, 120_000)
  afterAll(() => studio?.remove())

  describe('the jobs of the studio', { timeout: 60_000 }, () => {
    it('exports a PDF that can be downloaded, and the same version only once', async () => {
      const visitor = await arrive()
      const job = await run(visitor, 'export', { version: 1 })
      expect(job).toMatchObject({ status: 'succeeded', stage: { key: 'ready', index: 2, count: 3 } })
      const file = await visitor.fetch(`${job.file!.url}?token=${await tokenOf(visitor)}`)
      expect(file.headers.get('content-security-policy')).toBe("default-src 'none'; sandbox")
      const pdf = await readPdf(Buffer.from(await file.arrayBuffer()))
      expect(pdf.text.join('\n')).toContain('lighthouse on Mull Head')

      const again = await act(visitor, 'export', { version: 1 })
      expect(again.started).toEqual({ job: job.id, duplicate: true })
      expect(again.activity).toEqual([{ job: job.id, type: 'export_pdf', about: '1', asked: 2 }])
    })

    it('says in words why an empty document cannot be exported', async () => {
      const visitor = await arrive()
      await act(visitor, 'document', { base: 1, title: 'Nothing', text: '' })
      const job = await run(visitor, 'export', { version: 2 })
      expect(job).toMatchObject({ status: 'failed', attempt: 1 })
      expect(job.userMessage).toBe('There is no text to export yet. Write something first.')
    })

    it('lets the model answer, waits as long as it asks, and gives up at once where the quota is used up', async () => {
      const visitor = await arrive()
      await act(visitor, 'troubles', { kind: 'none', paceMs: 0 })
      const summary = await run(visitor, 'assist', { version: 1, task: 'summarise' })
      expect(summary).toMatchObject({ status: 'succeeded', result: { characters: expect.any(Number) as number } })

      await act(visitor, 'troubles', { kind: 'rate_limit' })
      const limited = await run(visitor, 'assist', { version: 1, task: 'rewrite' })
      expect(limited).toMatchObject({ status: 'retrying' })
      expect(Date.parse(limited.retryAt!) - Date.now()).toBeLessThan(8_000)

      await act(visitor, 'document', { base: 1, title: 'Next', text: 'One paragraph.' })
      await act(visitor, 'troubles', { kind: 'quota' })
      const refused = await run(visitor, 'assist', { version: 2, task: 'summarise' })
      expect(refused).toMatchObject({ status: 'failed', attempt: 1 })
      expect(refused.userMessage).toContain('usage limit')
    })

    it('takes an answer that breaks off for none', async () => {
      const visitor = await arrive()
      await act(visitor, 'troubles', { kind: 'cut', paceMs: 0 })
      const cut = await run(visitor, 'assist', { version: 1, task: 'summarise' })
      expect(cut).toMatchObject({ status: 'retrying', attempt: 1, maxAttempts: 5 })
    })

    it('sends a version to an address once, and says where an address does not exist', async () => {
      const visitor = await arrive()
      const job = await run(visitor, 'mail', { version: 1, to: 'ada@example.com' })
      expect(job).toMatchObject({ status: 'succeeded' })
      expect((await act(visitor, 'mail', { version: 1, to: 'ada@example.com' })).started).toEqual({
        job: job.id,
        duplicate: true,
      })
      const inbox = await (await visitor.fetch('/inbox')).text()
      expect(inbox.match(/<article/g)).toHaveLength(1)
      expect(inbox).toContain('The lighthouse on Mull Head')
      expect(await (await (await arrive()).fetch('/inbox')).text()).not.toContain('<article')

      const refused = await run(visitor, 'mail', { version: 1, to: 'nobody@example.com' })
      expect(refused).toMatchObject({ status: 'failed', attempt: 1 })
      expect(refused.userMessage).toContain('check the e-mail address')
    })

    it('copies a folder, and the next time only what has changed', async () => {
      const visitor = await arrive()
      const sync = () => run(visitor, 'sync', { request: crypto.randomUUID() })
      expect(await sync()).toMatchObject({ status: 'succeeded', result: { copied: 13, unchanged: 0 } })
      await act(visitor, 'document', { base: 1, title: 'A second one', text: 'New.' })
      const second = await sync()
      expect(second).toMatchObject({ status: 'succeeded', progress: 1, result: { copied: 1, unchanged: 13, bytes: 4 } })
      const copies = await readdir(join(studio.folder, 'elsewhere'), { recursive: true })
      expect(copies.filter((path) => path.endsWith(join('notes', 'outline.md')))).toHaveLength(1)
      expect(copies.filter((path) => path.endsWith('A second one.md'))).toHaveLength(1)
    })

    it('books a payment once, however often the provider tells of it', async () => {
      const visitor = await arrive()
      const { activity } = await act(visitor, 'credits', {})
      expect(activity).toEqual([{ job: expect.any(String) as string, type: 'add_credits', about: '100', asked: 2 }])
      expect(await settled(visitor, activity[0]!.job)).toMatchObject({ status: 'succeeded', result: { credits: 100 } })
      expect((await act(visitor, 'troubles', { kind: 'none' })).credits).toBe(100)
    })
  })

  describe('who may do what in the studio', () => {
    it('lets the page load only what is its own', async () => {
      const policy = (await (await arrive()).fetch('/')).headers.get('content-security-policy')
      expect(policy).toContain("default-src 'self'")
    })

    it('refuses a webhook without the right signature', async () => {
      const visitor = await arrive()
      for (const signature of [undefined, 't=1,v1=00']) {
        const headers = { 'content-type': 'application/json', ...(signature && { 'stripe-signature': signature }) }
        const body = JSON.stringify({ id: 'evt_1', type: 'checkout.session.completed' })
        expect((await visitor.fetch('/webhooks/payments', { method: 'POST', headers, body })).status).toBe(400)
      }
    })

    it('sends signed events to itself, whatever a request calls it', async () => {
      const elsewhere = createServer((_, response) => void response.end())
      await once(elsewhere.listen(0, '127.0.0.1'), 'listening')
      let asked = 0
      elsewhere.on('request', () => asked++)
      const { port } = elsewhere.address() as AddressInfo
      const visitor = await arrive()
      expect(await visitor.postAs(`127.0.0.1:${port}`, '/actions/credits', {})).toBe(200)
      elsewhere.close()
      expect(asked).toBe(0)
    })

    it('shows nobody the jobs of somebody else', async () => {
      const [ada, eve] = [await arrive(), await arrive()]
      const { started } = await act(ada, 'export', { version: 1 })
      await act(eve, 'export', { version: 1 })
      const headers = { authorization: `Bearer ${await tokenOf(eve)}` }
      expect((await eve.fetch(`/jobs/${started!.job}`, { headers })).status).toBe(403)
      expect((await eve.fetch(`/jobs/${started!.job}`)).status).toBe(401)
    })

    it('takes no action that a form of another site could send', async () => {
      const visitor = await arrive()
      const form = { method: 'POST', body: new URLSearchParams({ version: '1' }) }
      for (const action of ['document', 'assist', 'export', 'mail', 'sync', 'credits', 'troubles', 'worker/kill']) {
        const response = await visitor.fetch(`/actions/${action}`, form)
        expect(response.status, action).toBe(415)
        expect(await response.json()).toMatchObject({ error: 'unsupported_media_type' })
      }
    })

    it.each([
      ['export', { version: 99 }, 404, 'not_found'],
      ['assist', { version: 99, task: 'summarise' }, 404, 'not_found'],
      ['mail', { version: 99, to: 'ada@example.com' }, 404, 'not_found'],
      ['export', { version: 'x' }, 400, 'invalid_request'],
      ['document', { base: 99, title: '', text: '' }, 400, 'invalid_request'],
      ['nothing', {}, 404, 'not_found'],
    ])('says in JSON why it does not %s %j', async (action, body, status, error) => {
      const visitor = await arrive()
      const response = await visitor.post(`/actions/${action}`, body)
      expect(response.status).toBe(status)
      expect(await response.json()).toEqual({ error, message: expect.stringMatching(/\w/) as string })
    })

    it('refuses to save over what another tab has saved', async () => {
      const visitor = await arrive()
      await act(visitor, 'document', { base: 1, title: 'One', text: 'one' })
      const response = await visitor.post('/actions/document', { base: 1, title: 'Two', text: 'two' })
      expect(response.status).toBe(409)
      expect(await response.json()).toMatchObject({ error: 'changed_elsewhere' })
    })
  })
}
