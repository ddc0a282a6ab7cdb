/** What the page does for who uses it: what is new is there in every tab, what was clicked is in sight, and old jobs are out of the way. */
import { expect, it } from 'vitest'
import { Studio } from '../support/studio.js'
import { openTab } from './browser.js'
import { product } from './product.js'

const here = product(() => Studio.start({ STUDIO_LINGER_MS: '50' }))

const PHONE = { width: 390, height: 844 }

it('what is begun in one tab is there in another, with the credits that come of it', async () => {
  const first = await here.visit()
  const second = await openTab(first.page.context())
  await first.click('credits')
  await second.until('add_credits', 'succeeded')
  await second.page.locator('#credits', { hasText: /^100$/ }).waitFor()
  await second.click('export')
  await first.until('export_pdf', 'succeeded')
  for (const tab of [first, second]) expect(await tab.page.locator('li.job').count()).toBe(2)
})

it('what has begun elsewhere is there as soon as somebody comes back to the page', async () => {
  const page = await here.visit()
  await page.page.context().request.post('/actions/export', { data: { version: 1 } })
  await page.page.evaluate(() => window.dispatchEvent(new Event('focus')))
  await page.until('export_pdf', 'succeeded')
  expect(page.errors).toEqual([])
})

it('on a phone the job that was clicked is in sight, and so is what went wrong', async () => {
  const page = await here.visit({ viewport: PHONE })
  const inSight = (selector: string) =>
    page.page.waitForFunction((what) => {
      const box = document.querySelector(what)?.getBoundingClientRect()
      return box && box.height > 0 && box.top >= 0 && box.bottom <= innerHeight
    }, selector)
  await page.click('credits')
  await inSight('li.job[data-type="add_credits"]')
  await page.click('export')
  await inSight('li.job[data-type="export_pdf"]')

  await page.page.locator('#title').fill('')
  await page.click('summarise')
  await inSight('#problem')
  expect(await page.page.locator('#problem').getAttribute('role')).toBe('alert')
  await page.page.getByRole('button', { name: 'Close' }).click()
  expect(await page.page.locator('#problem').isVisible()).toBe(false)

  await page.page.route('**/actions/troubles', (route) => route.abort())
  await page.page.locator('#troubles [data-kind="quota"]').click()
  await inSight('#problem')
})

it('shows the newest jobs, newest first, and older ones on demand', async () => {
  const page = await here.visit()
  for (let count = 1; count <= 22; count++) {
    await page.page.context().request.post('/actions/mail', { data: { version: 1, to: `reader-${count}@example.com` } })
  }
  await page.reload()
  const readers = () => page.page.locator('li.job .about').allTextContents()
  const expected = Array.from({ length: 22 }, (_, index) => `reader-${22 - index}@example.com`)
  expect(await readers()).toEqual(expected.slice(0, 20))
  await page.page.getByRole('button', { name: 'Older', exact: true }).click()
  await page.page.locator('li.job:nth-child(22)').waitFor()
  expect(await readers()).toEqual(expected)
  expect(await page.page.getByRole('button', { name: 'Older', exact: true }).isVisible()).toBe(false)
  await page.reload()
  await page.send('reader-1@example.com')
  await page.page.locator('li.job.pointed', { hasText: 'reader-1@example.com' }).waitFor()
})

it('says of which version a summary and a rewrite are', async () => {
  const page = await here.visit()
  await page.write('Next', 'One paragraph.')
  await page.click('summarise')
  await page.until('assist', 'succeeded')
  expect(await page.job('assist').locator('.job-head').textContent()).toBe('Summaryversion 2')
  await page.click('rewrite')
  await page.job('assist').getByText('Rewrite').waitFor()
  expect(await page.job('assist').locator('.about').textContent()).toBe('version 2')
})
