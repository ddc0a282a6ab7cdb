/** Eight tabs of one browser over HTTP/1.1, of which it opens six connections to a host. */
import type { BrowserContext, Page, Request } from 'playwright-core'
import { expect, it } from 'vitest'
import { openTab } from './browser.js'
import { product } from './product.js'

const here = product()

it('all of them are live over one connection, also when the tab that holds it is closed in mid-run', async () => {
  const first = await here.visit()
  const context = first.page.context()
  const streams = new Streams(context)
  await context.request.post('/actions/troubles', { data: { kind: 'none', paceMs: 250 } })
  await first.click('summarise')
  const tabs = [first]
  while (tabs.length < 8) tabs.push(await openTab(context))
  const texts = tabs.map((tab) => tab.job('assist').locator('.written', { hasText: /\w/ }))
  await Promise.all(texts.map((text) => text.waitFor()))

  // Each tab asks for a moment whether it may; then one reads for all.
  const leader = await streams.onlyOne()
  expect(await first.job('assist').getAttribute('data-status')).toBe('running')
  await leader.close()
  const rest = tabs.filter((tab) => tab.page !== leader)
  expect(rest).toHaveLength(7)
  await Promise.all(rest.map((tab) => tab.until('assist', 'succeeded')))
  const written = await Promise.all(rest.map((tab) => tab.job('assist').locator('.written').textContent()))
  expect(new Set(written).size).toBe(1)
  expect(written[0]).toMatch(/^In short.*took its place\.$/)
  for (const tab of rest) expect(tab.errors).toEqual([])
})

/** The streams of events that all tabs together have open. */
class Streams {
  readonly #open = new Map<Request, Page>()
  #changed = (): void => {}

  constructor(context: BrowserContext) {
    context.on('request', (request) => {
      if (request.url().includes('/jobs/events')) this.#open.set(request, request.frame().page())
      this.#changed()
    })
    const over = (request: Request): void => {
      this.#open.delete(request)
      this.#changed()
    }
    context.on('requestfinished', over)
    context.on('requestfailed', over)
  }

  /** The tab that reads, once there is one and no other. */
  async onlyOne(): Promise<Page> {
    while (this.#open.size !== 1) await new Promise<void>((resolve) => (this.#changed = resolve))
    return [...this.#open.values()][0]!
  }
}
