import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import type { Queue } from '../../src/queue.js'
import { disposition } from '../../src/http/download.js'
import { finished, place, withFile } from './support.js'

const CONTENT = 'abcdefghijklmnopqrstuvwxyz'

/** A store that has the four methods and no more, and keeps what its reads give. */
function plain(queue: Queue, content: () => Readable): Readable[] {
  const sources: Readable[] = []
  delete queue.files.readRange
  queue.files.read = async () => {
    sources.push(content())
    return sources.at(-1)!
  }
  return sources
}

async function bench({ name = 'report.pdf', content = CONTENT, contentType = undefined as string | undefined } = {}) {
  const made = await place()
  const job = await withFile(made, name, content, contentType)
  const token = await made.token(job.id, ['download'])
  const get = (headers: Record<string, string> = {}, method = 'GET') =>
    made.ask(`/jobs/${job.id}/file`, token, { method, headers })
  return { ...made, job, token, get }
}

describe('a download', () => {
  it('is the file, with its size, type, tag and name', async () => {
    const { get } = await bench()
    const response = await get()
    expect(Object.fromEntries(response.headers)).toMatchObject({
      'accept-ranges': 'bytes',
      'content-disposition': `attachment; filename="report.pdf"; filename*=UTF-8''report.pdf`,
      'content-length': '26',
      'content-type': 'application/pdf',
      etag: expect.stringMatching(/^"[0-9a-f]{64}"$/) as string,
      'x-content-type-options': 'nosniff',
    })
    expect(await response.text()).toBe(CONTENT)
  })
  it('tells the same without the content to HEAD', async () => {
    const { get } = await bench()
    const [whole, head] = [await get(), await get({}, 'HEAD')]
    expect([head.status, head.body]).toEqual([200, null])
    expect([...head.headers]).toEqual([...whole.headers])
    await whole.body!.cancel()
  })
  it.each([
    ['bytes=0-0', 'a', '0-0'],
    ['bytes=3-6', 'defg', '3-6'],
    ['bytes=20-', 'uvwxyz', '20-25'],
    ['bytes=20-1000', 'uvwxyz', '20-25'],
    ['bytes=-3', 'xyz', '23-25'],
    ['bytes=-1000', CONTENT, '0-25'],
  ])('gives the range %s', async (range, text, said) => {
    const { get } = await bench()
    const response = await get({ range })
    expect(response.status).toBe(206)
    expect(response.headers.get('content-range')).toBe(`bytes ${said}/26`)
    expect(response.headers.get('content-length')).toBe(String(text.length))
    expect(await response.text()).toBe(text)
  })
  it.each(['bytes=5-3', 'bytes=0-1,4-5', 'bytes=-', 'pages=1-2', 'bytes=a-b'])(
    'is whole for %s, which is no single range',
    async (range) => {
      const { get } = await bench()
      const response = await get({ range })
      expect([response.status, await response.text()]).toEqual([200, CONTENT])
    },
  )
  it.each(['bytes=26-', 'bytes=100-200', 'bytes=-0'])('refuses %s, which lies outside', async (range) => {
    const { get } = await bench()
    const response = await get({ range })
    expect([response.status, response.headers.get('content-range'), response.body]).toEqual([416, 'bytes */26', null])
  })
  it('goes on where it broke off only while the file is the same', async () => {
    const { get } = await bench()
    const etag = (await get({}, 'HEAD')).headers.get('etag')!
    expect((await get({ range: 'bytes=20-', 'if-range': etag })).status).toBe(206)
    expect((await get({ range: 'bytes=20-', 'if-range': '"another"' })).status).toBe(200)
    expect((await get({ 'if-none-match': etag })).status).toBe(304)
  })
  it('reads no more of the file than the range, where the store can', async () => {
    const { get, queue } = await bench()
    const asked: unknown[] = []
    const readRange = queue.files.readRange!.bind(queue.files)
    queue.files.readRange = (key, start, end) => (asked.push([start, end]), readRange(key, start, end))
    expect(await (await get({ range: 'bytes=-2' })).text()).toBe('yz')
    expect(asked).toEqual([[24, 26]])
  })
  it('of an empty file is empty', async () => {
    const { get } = await bench({ content: '' })
    const response = await get()
    expect([response.status, response.headers.get('content-length'), await response.text()]).toEqual([200, '0', ''])
    expect((await get({ range: 'bytes=0-' })).status).toBe(416)
  })
  it('cuts ranges out of chunks, wherever these begin and end', async () => {
    const { get, queue } = await bench()
    plain(queue, () => Readable.from([...CONTENT.matchAll(/.{1,5}/g)].map(([part]) => Buffer.from(part))))
    for (const [first, last] of [
      [4, 5],
      [5, 9],
      [0, 25],
      [7, 21],
    ] as const) {
      expect(await (await get({ range: `bytes=${first}-${last}` })).text()).toBe(CONTENT.slice(first, last + 1))
    }
  })
  it('of HTML or SVG is inert: an attachment, of its own type, in a sandbox', async () => {
    for (const name of ['page.html', 'picture.svg']) {
      const { headers, body } = await (await bench({ name, content: '<script>alert(1)</script>' })).get()
      expect(headers.get('content-disposition')).toMatch(/^attachment;/)
      expect(headers.get('content-security-policy')).toBe("default-src 'none'; sandbox")
      expect(headers.get('x-content-type-options')).toBe('nosniff')
      await body!.cancel()
    }
  })
  it('has a type that cannot be read as bytes', async () => {
    const { get } = await bench({ contentType: 'text/html\r\nset-cookie: a=b' })
    expect((await get({}, 'HEAD')).headers.get('content-type')).toBe('application/octet-stream')
  })
  it('frees the file when the reader leaves, or has its range', async () => {
    const { get, queue } = await bench()
    const sources = plain(queue, () => Readable.from([Buffer.from(CONTENT), Buffer.from('and more that is never read')]))
    await (await get()).body!.cancel()
    await (await get({ range: 'bytes=0-3' })).text()
    expect(sources.map(({ destroyed }) => destroyed)).toEqual([true, true])
  })
  it('breaks off where the file is shorter than it was', async () => {
    const { get, queue } = await bench()
    plain(queue, () => Readable.from([Buffer.from('abc')]))
    await expect((await get()).text()).rejects.toThrow('ended after 3 bytes')
  })
  it('is gone when the store has it no more', async () => {
    const { get, queue } = await bench()
    queue.files.exists = async () => false
    for (const method of ['GET', 'HEAD']) expect((await get({}, method)).status).toBe(410)
  })
  it('is none where a hand has spoiled its description', async () => {
    const { get, store } = await bench()
    const read = store.get.bind(store)
    for (const size of ['"26"', '-', 'null', '1e99']) {
      store.get = async (ids) =>
        (await read(ids)).map((row) => row && { ...row, result: row.result!.replace('"size":26', `"size":${size}`) })
      expect((await get()).status).toBe(404)
    }
  })
  it('is not there for a job without a file', async () => {
    const made = await place()
    const job = await finished(made, { pages: 3 })
    const response = await made.ask(`/jobs/${job.id}/file`, await made.token(job.id, ['download']))
    expect([response.status, await response.json()]).toEqual([404, expect.objectContaining({ error: 'no_file' })])
  })
})

describe('the name of a download', () => {
  it.each([
    ['报告 3.pdf', `filename="__ 3.pdf"; filename*=UTF-8''%E6%8A%A5%E5%91%8A%203.pdf`],
    ['Résumé.txt', `filename="Resume.txt"; filename*=UTF-8''R%C3%A9sum%C3%A9.txt`],
    [`a"b;c'(d)*.txt`, `filename="a_b_c__d__.txt"; filename*=UTF-8''a%22b%3Bc%27%28d%29%2A.txt`],
    ['a\r\nset-cookie: x=y', `filename="a__set-cookie_ x_y"; filename*=UTF-8''a%0D%0Aset-cookie%3A%20x%3Dy`],
  ])('of %j is safe in a header, and whole in UTF-8', (name, value) => {
    expect(disposition(name)).toBe(`attachment; ${value}`)
    expect(new Headers({ 'content-disposition': disposition(name) }).get('content-disposition')).toBe(disposition(name))
  })
})
