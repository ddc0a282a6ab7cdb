/** The product and a browser, for the tests of one file. */
import type { Browser, BrowserContextOptions } from 'playwright-core'
import { afterAll, beforeAll } from 'vitest'
import { Studio } from '../support/studio.js'
import { launch, visit, type StudioPage } from './browser.js'

type VisitOptions = BrowserContextOptions & { lang?: 'en' | 'zh' }

export interface Product {
  readonly studio: Studio
  /** A visitor who is new; at this address, where the product has another one. */
  visit(options?: VisitOptions, url?: string): Promise<StudioPage>
}

export function product(start: () => Promise<Studio> = () => Studio.start()): Product {
  let studio: Studio
  let browser: Browser
  beforeAll(async () => {
    ;[studio, browser] = await Promise.all([start(), launch()])
  })
  afterAll(async () => {
    await browser?.close()
    await studio?.remove()
  })
  return {
    get studio() {
      return studio
    },
    visit: (options, url = studio.url) => visit(browser, url, options),
  }
}
