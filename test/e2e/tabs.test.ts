/** Eight tabs of one browser over HTTP/1.1, of which it opens six connections to a host. */
import type { Browser, Request } from 'playwright-core'
import { afterAll, beforeAll, expect, it, vi } from 'vitest'
import { Studio } from '../support/studio.js'
import { launch, openTab, visit, type StudioPage } from './browser.js'

let studio: Studio
let browser: Browser
beforeAll(async () => {
  ;[studio, browser] = await Promise.all([Studio.start(), launch()])
})
afterAll(async () => {
  await browser?.close()
  await studio?.remove()
})

it('all of them are live over one connection, also when the tab that holds it is closed', async () => {
  const first = await visit(browser, studio.url)
  const context = first.page.context()
  let open = 0
  const isLive = (url: string): boolean => url.includes('/jobs/events')
  context.on('request', (request) => {
    if (isLive(request.url())) open++
  })
  const over = (request: Request): void => {
    if (isLive(request.url())) open--
  }
  context.on('requestfinished', over)
  context.on('requestfailed', over)
  await first.click('summarise')
  const tabs = [first]
  while (tabs.length < 8) tabs.push(await openTab(context))
  await Promise.all(tabs.map((tab) => tab.until('assist', 'succeeded')))
  const texts = await Promise.all(tabs.map(lastText))
  expect(new Set(texts).size).toBe(1)

  await first.page.close()
  const rest = tabs.slice(1)
  // The model makes the job wait for seconds, in which nothing happens to it.
  await rest[0]!.page.locator('[data-kind=rate_limit]').click()
  await rest[0]!.click('rewrite')
  await Promise.all(rest.slice(1).map((tab) => tab.reload()))
  await Promise.all(rest.map((tab) => tab.until('assist', 'retrying')))
  await vi.waitFor(() => expect(open).toBe(1), { timeout: 3_000 })
  await Promise.all(rest.map((tab) => tab.job('assist').locator('.written', { hasText: /\w/ }).waitFor()))
  await Promise.all(rest.map((tab) => tab.until('assist', 'succeeded')))
  for (const tab of rest) expect(tab.errors).toEqual([])
})

async function lastText(tab: StudioPage): Promise<string | null> {
  return tab.job('assist').locator('.written').textContent()
}
