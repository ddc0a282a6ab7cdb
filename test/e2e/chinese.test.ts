/** The product in Chinese: the same jobs, troubles and words. */
import { readFile } from 'node:fs/promises'
import { expect, it } from 'vitest'
import { readPdf } from '../examples/pdf.js'
import { product } from './product.js'

const here = product()

it('an export shows every stage in order, and its PDF can be downloaded and read', async () => {
  const page = await here.visit({ lang: 'zh' })
  await page.click('export')
  await page.until('export_pdf', 'succeeded')
  const stages = ['排版', '保存', '可以下载']
  const seen = await page.seen('export_pdf')
  expect(seen).toEqual(stages.slice(0, Math.max(2, seen.length)))
  const [download] = await Promise.all([
    page.page.waitForEvent('download'),
    page.job('export_pdf').getByRole('button', { name: /下载/ }).click(),
  ])
  expect(download.suggestedFilename()).toBe('北角的灯塔.pdf')
  const pdf = await readPdf(await readFile(await download.path()))
  expect(pdf.title).toBe('北角的灯塔')
  expect(pdf.text.join('')).toContain('三位守灯人')
})

it('text streams, meets a rate limit that is told in words, and goes on over a reload', async () => {
  const page = await here.visit({ lang: 'zh' })
  await page.trouble('rate_limit')
  await page.click('summarise')
  await page.until('assist', 'retrying')
  await page.detail('assist', /\d+ 秒后/).waitFor()
  const text = page.job('assist').locator('.written', { hasText: /概括地说/ })
  await text.waitFor()
  const before = (await text.textContent())!
  await page.reload()
  await page.until('assist', 'succeeded')
  const texts = await page.seen('written')
  for (const [index, now] of texts.entries()) expect(now.startsWith(texts[index - 1] ?? before)).toBe(true)
  expect(texts.at(-1)).toMatch(/^概括地说：一八七一年秋天/)
})

it('a quota that is used up fails at once, and says so', async () => {
  const page = await here.visit({ lang: 'zh' })
  await page.trouble('quota')
  await page.click('summarise')
  await page.until('assist', 'failed')
  await page.detail('assist', '额度已用完').waitFor()
  expect(await page.detail('assist', /秒后/).count()).toBe(0)
})

it('a job can be canceled', async () => {
  const page = await here.visit({ lang: 'zh' })
  await page.click('rewrite')
  await page
    .job('assist')
    .locator('.written', { hasText: /守灯人/ })
    .waitFor()
  await page.press('assist', /取消/)
  await page.until('assist', 'canceled')
  await page.job('assist').getByText('已取消').first().waitFor()
  expect(await page.detail('assist', /秒后/).count()).toBe(0)
})

it('a payment that is reported twice is booked once', async () => {
  const page = await here.visit({ lang: 'zh' })
  await page.click('credits')
  await page.page.locator('#credits', { hasText: /^100$/ }).waitFor()
  await page.job('add_credits').getByText('通知了 2 次，只入账一次').waitFor()
  expect(await page.page.locator('li.job').count()).toBe(1)
})

it('is remembered, and can be left', async () => {
  const page = await here.visit({ lang: 'zh' })
  await page.page.goto('/')
  await page.ready()
  expect(await page.page.locator('html').getAttribute('lang')).toBe('zh')
  await page.page.getByRole('link', { name: 'English' }).click()
  await page.page.getByRole('heading', { name: 'Activity' }).waitFor()
})
