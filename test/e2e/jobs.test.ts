/** Each job of the product as its visitor sees it, in Chromium. */
import { readFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { readPdf } from '../examples/pdf.js'
import { product } from './product.js'

const here = product()

it('an export shows every stage in order, and its PDF can be downloaded and read', async () => {
  const page = await here.visit()
  await page.click('export')
  await page.until('export_pdf', 'succeeded')
  const stages = ['Laying out', 'Saving', 'Ready']
  const seen = await page.seen('export_pdf')
  // Of the last one the end may be faster.
  expect(seen).toEqual(stages.slice(0, Math.max(2, seen.length)))
  const card = page.job('export_pdf')
  expect(await card.locator('.stages [data-is="done"]').allTextContents()).toEqual(stages)

  const [download] = await Promise.all([
    page.page.waitForEvent('download'),
    card.getByRole('button', { name: /download/i }).click(),
  ])
  expect(download.suggestedFilename()).toBe('The lighthouse on Mull Head.pdf')
  const pdf = await readPdf(await readFile(await download.path()))
  expect(pdf.title).toBe('The lighthouse on Mull Head')
  expect(pdf.text.join('\n')).toContain('Three keepers')
  expect(page.errors).toEqual([])
})

it('a second export of the same version is the first one', async () => {
  const page = await here.visit()
  await page.click('export')
  await page.until('export_pdf', 'succeeded')
  await page.click('export')
  await page.page.getByText('nothing was done twice').waitFor()
  expect(await page.page.locator('li.job').count()).toBe(1)
  await page.job('export_pdf').getByText('asked for 2 times, done once').waitFor()
})

it('the answer of the model can be read while it is written', async () => {
  const page = await here.visit()
  await page.click('summarise')
  await page.until('assist', 'succeeded')
  const texts = await page.seen('written')
  expect(texts.length).toBeGreaterThan(5)
  for (const [index, text] of texts.entries()) expect(text.startsWith(texts[index - 1] ?? '')).toBe(true)
  expect(texts.at(-1)).toMatch(/^In short: The lamp was lit .* took its place\.$/)
})

it('a rate limit is waited out: the page says when it goes on, and it does', async () => {
  const page = await here.visit()
  await page.trouble('rate_limit')
  await page.click('summarise')
  await page.until('assist', 'retrying')
  await page.detail('assist', /trying again in \d+ s/i).waitFor()
  await page.until('assist', 'succeeded')
  expect((await page.seen('written')).at(-1)).toContain('In short')
})

it('an overloaded model is tried again, which the page counts; canceled meanwhile, it is not', async () => {
  const page = await here.visit()
  await page.trouble('overloaded')
  await page.click('summarise')
  await page.detail('assist', /2 of 5/).waitFor()
  await page.press('assist', /cancel/i)
  await page.until('assist', 'canceled')
  expect(await page.detail('assist', /trying again/i).count()).toBe(0)
})

it('an answer that breaks off is begun anew, and nothing of the first one is left in it', async () => {
  const page = await here.visit()
  await page.trouble('cut')
  await page.click('summarise')
  await page.until('assist', 'retrying')
  await page.until('assist', 'succeeded')
  const last = (await page.seen('written')).at(-1)!
  expect(last.match(/In short/g)).toHaveLength(1)
})

it('a quota that is used up fails at once, in words', async () => {
  const page = await here.visit()
  await page.trouble('quota')
  await page.click('summarise')
  await page.until('assist', 'failed')
  await page.detail('assist', 'The usage limit has been reached').waitFor()
  expect(await page.detail('assist', /trying again/i).count()).toBe(0)
})

it('a job that runs can be canceled', async () => {
  const page = await here.visit()
  await page.click('rewrite')
  await page.job('assist').locator('.written', { hasText: /\w/ }).waitFor()
  await page.press('assist', /cancel/i)
  await page.until('assist', 'canceled')
  // It was stopped in the middle, and what it had written can be read.
  const text = (await page.job('assist').locator('.written').textContent())!
  expect(text.length).toBeGreaterThan(0)
  expect(text).not.toContain('six at a time')
})

it('a mail arrives once in the inbox', async () => {
  const page = await here.visit()
  await page.send('ada@example.com')
  await page.until('send_mail', 'succeeded')
  await page.send('ada@example.com')
  await page.page.getByText('nothing was done twice').waitFor()
  await page.page.getByRole('link', { name: 'Inbox' }).click()
  await page.page.locator('article.mail').waitFor()
  expect(await page.page.locator('article.mail').count()).toBe(1)
  await page.page.locator('article.mail', { hasText: 'To ada@example.com' }).waitFor()
})

it('a folder is copied file by file, and then only what has changed', async () => {
  const page = await here.visit()
  await page.click('sync')
  await page.job('sync_folder').getByText('13 copied, 0 unchanged').waitFor()
  expect(await page.job('sync_folder').locator('.files li').count()).toBe(13)
  await page.write('Something new', 'New.')
  await page.click('sync')
  await page.job('sync_folder').getByText('1 copied, 13 unchanged').waitFor()
  expect(await page.job('sync_folder').locator('.files li').allTextContents()).toEqual(['Something new.md'])
})

it('a payment that is reported twice is booked once', async () => {
  const page = await here.visit()
  await page.click('credits')
  await page.page.locator('#credits', { hasText: /^100$/ }).waitFor()
  await page.job('add_credits').getByText('reported 2 times, booked once').waitFor()
  await page.click('credits')
  await page.page.locator('#credits', { hasText: /^200$/ }).waitFor()
  expect(await page.page.locator('li.job').count()).toBe(2)
})

it('speaks Chinese as well, and remembers it', async () => {
  const page = await here.visit({ lang: 'zh' })
  await page.click('export')
  await page.until('export_pdf', 'succeeded')
  expect((await page.seen('export_pdf')).slice(0, 2)).toEqual(['排版', '保存'])
  await page.job('export_pdf').getByRole('button', { name: /下载/ }).waitFor()
  await page.trouble('quota')
  await page.click('summarise')
  await page.detail('assist', '额度已用完').waitFor()
  await page.click('credits')
  await page.job('add_credits').getByText('通知了 2 次，只入账一次').waitFor()

  await page.page.goto('/')
  await page.ready()
  expect(await page.page.locator('html').getAttribute('lang')).toBe('zh')
  await page.job('export_pdf').getByText('第 1 版').waitFor()
  await page.page.getByRole('link', { name: 'English' }).click()
  await page.page.getByRole('heading', { name: 'Activity' }).waitFor()
})
