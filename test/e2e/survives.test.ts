/** What a running job and its page live through: a reload, a broken connection, a killed worker, a restart of the product. */
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { freePort } from '../support/ports.js'
import { Studio } from '../support/studio.js'
import { TcpProxy } from '../support/tcp-proxy.js'
import type { StudioPage } from './browser.js'
import { product } from './product.js'

const here = product()

/** Resolves once at least so many characters of the answer can be read. */
async function written(page: StudioPage, length: number): Promise<string> {
  const text = page.job('assist').locator('.written', { hasText: new RegExp(`^[\\s\\S]{${length}}`) })
  await text.waitFor()
  return (await text.textContent())!
}

function expectToGrow(texts: readonly string[]): void {
  for (const [index, text] of texts.entries()) expect(text.startsWith(texts[index - 1] ?? '')).toBe(true)
}

it('a page that is reloaded in mid-run shows the stage and the text at which the job is, and goes on', async () => {
  const page = await here.visit()
  await page.click('rewrite')
  const before = await written(page, 60)
  await page.reload()
  await written(page, 1)
  await page.until('assist', 'succeeded')
  const texts = await page.seen('written')
  expect(texts[0]!.startsWith(before)).toBe(true)
  expectToGrow(texts)
  expect(await page.page.locator('li.job').count()).toBe(1)
})

it('a page whose connection breaks goes on at the very character where it was', async () => {
  const network = await TcpProxy.create(Number(new URL(here.studio.url).port))
  onTestFinished(() => network.remove())
  const page = await here.visit({}, network.url(here.studio.url))
  await page.click('rewrite')
  const before = await written(page, 60)
  const again = page.page.waitForRequest((request) => request.url().includes('/jobs/events'))
  network.cut()
  const [, , attempt, length] = new URL((await again).url()).searchParams.get('text')!.split('/')
  expect(attempt).toBe('1')
  expect(Number(length)).toBeGreaterThanOrEqual(before.length)
  await page.until('assist', 'succeeded')
  expectToGrow(await page.seen('written'))
})

it('a job whose worker is killed goes on with another worker, and does nothing twice', async () => {
  const page = await here.visit()
  await page.click('sync')
  await page.job('sync_folder').locator('.files li:nth-child(3)').waitFor()
  const worker = (await page.page.locator('#worker').textContent())!
  await page.page.locator('#kill').click()
  await page.until('sync_folder', 'succeeded')
  const outcome = page.job('sync_folder').getByText(/^13 copied, \d+ of them before an interruption, 0 unchanged$/)
  const earlier = Number(/(\d+) of them/.exec((await outcome.textContent())!)![1])
  expect(earlier).toBeGreaterThanOrEqual(3)
  expect(earlier).toBeLessThan(13)
  expect(await page.job('sync_folder').locator('.files li').count()).toBe(13)
  expect(await page.job('sync_folder').locator('.files .earlier').count()).toBe(earlier)
  // It goes on with what is left: no bar that begins anew, and no file that looks as if it were copied again.
  const lengths = (await page.seen('files')).map(Number)
  const later = lengths.slice(lengths.findIndex((length) => length >= 3))
  expect(later.filter((length) => length > 0 && length < 3)).toEqual([])
  const bar = (await page.seen('bar')).map(Number).filter((percent) => percent > 0)
  expect(bar.length).toBeGreaterThan(3)
  // Three of thirteen were there, whichever stage the next attempt is in.
  const reached = Math.floor((3 / 13) * 100)
  expect(Math.min(...bar.slice(bar.findIndex((percent) => percent >= reached)))).toBeGreaterThanOrEqual(reached)
  const now = page.page.locator('#worker', { hasText: /\d/ })
  await now.waitFor()
  expect(await now.textContent()).not.toBe(worker)
  const copies = await readdir(join(here.studio.folder, 'elsewhere'), { recursive: true, withFileTypes: true })
  expect(copies.filter((entry) => entry.isFile())).toHaveLength(13)
})

it('a restart of the whole product loses no job, and a page that stays open shows how they go on', async () => {
  const port = String(await freePort())
  const first = await Studio.start({ PORT: port })
  const page = await here.visit({}, first.url)
  await page.click('export')
  await page.until('export_pdf', 'succeeded')
  await page.click('rewrite')
  await written(page, 60)
  await first.stop()
  const second = await Studio.start({ PORT: port }, first.folder)
  try {
    await page.until('assist', 'succeeded')
    await page.reload()
    await page.until('export_pdf', 'succeeded')
    await page.until('assist', 'succeeded')
    expect(await page.page.locator('li.job').count()).toBe(2)
  } finally {
    await second.remove()
  }
})
