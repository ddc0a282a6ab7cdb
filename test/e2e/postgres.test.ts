/** The same product on PostgreSQL, in short. */
import { expect, it } from 'vitest'
import { emptyDatabase } from '../support/postgres/database.js'
import { Studio } from '../support/studio.js'
import { product } from './product.js'

const here = product(async () => Studio.start({ JOBTABLE_URL: await emptyDatabase() }))

it('exports, streams and books a payment once', async () => {
  const page = await here.visit()
  await page.click('export')
  await page.click('summarise')
  await page.click('credits')
  await page.until('export_pdf', 'succeeded')
  await page
    .job('export_pdf')
    .getByRole('button', { name: /download/i })
    .waitFor()
  await page.job('add_credits').getByText('reported 2 times, booked once').waitFor()
  await page.page.locator('#credits', { hasText: /^100$/ }).waitFor()
  await page.until('assist', 'succeeded')
  const texts = await page.seen('written')
  expect(texts.length).toBeGreaterThan(5)
  expect(texts.at(-1)).toContain('In short: The lamp was lit')
})
