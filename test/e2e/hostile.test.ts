/** Text of visitors is text wherever it is shown, whatever it looks like. */
import { expect, it } from 'vitest'
import { Studio } from '../support/studio.js'
import { product } from './product.js'

const here = product(() => Studio.start({ STUDIO_LINGER_MS: '50' }))

const IMAGE = `<img src=/planted onerror="window.ran='image'">`
const SCRIPT = `<script>window.ran='script'</script>`
const LINK = `[click](javascript:window.ran='link')`

it('HTML and scripts in a title, a text, an answer, a mail and the name of a file do nothing', async () => {
  const page = await here.visit()
  const planted: string[] = []
  page.page.context().on('request', (request) => {
    if (request.url().includes('planted')) planted.push(request.url())
  })
  await page.write(IMAGE, `${IMAGE} ${SCRIPT} ${LINK}\n\n${SCRIPT}</textarea></script>${IMAGE}`)
  await page.page.locator('#saved', { hasText: '2' }).waitFor()
  await page.click('summarise')
  await page.click('sync')
  await page.send('ada@example.com')
  await page.click('export')
  for (const type of ['assist', 'sync_folder', 'send_mail', 'export_pdf'] as const) await page.until(type, 'succeeded')

  // It is there, as text.
  await page.job('assist').getByText(IMAGE).waitFor()
  await page.job('sync_folder').locator('.files li', { hasText: `<img src= planted` }).waitFor()
  await page.reload()
  expect(await page.page.locator('#title').inputValue()).toBe(IMAGE)
  await page.job('assist').getByText(IMAGE).waitFor()
  expect(await page.page.locator('main img').count()).toBe(0)
  expect(await page.page.evaluate('window.ran')).toBeUndefined()

  await page.page.goto('/inbox')
  await page.page.locator('.mail h3', { hasText: IMAGE }).waitFor()
  await page.page.locator('.mail pre', { hasText: SCRIPT }).waitFor()
  expect(await page.page.locator('main img, main script').count()).toBe(0)
  expect(await page.page.evaluate('window.ran')).toBeUndefined()
  expect(planted).toEqual([])
  // Not even the page's policy had anything to stop.
  expect(page.errors).toEqual([])
})
