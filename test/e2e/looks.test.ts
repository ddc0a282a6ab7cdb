/** How the page looks, in either language and on any screen. The pictures are in .tmp/e2e, for people to look at. */
import { mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import axe, { type AxeResults } from 'axe-core'
import { beforeAll, describe, expect, it } from 'vitest'
import { Studio } from '../support/studio.js'
import type { StudioPage } from './browser.js'
import { product } from './product.js'

const folder = join(import.meta.dirname, '../../.tmp/e2e')

const here = product(() => Studio.start({ STUDIO_LINGER_MS: '150' }))
beforeAll(async () => void (await mkdir(folder, { recursive: true })))

const SCREENS = { desktop: { width: 1280, height: 860 }, phone: { width: 390, height: 844 }, narrow: { width: 360, height: 640 } }

describe.each(Object.entries(SCREENS))('on a %s screen', (screen, viewport) => {
  it.each([
    ['en', 'light'],
    ['zh', 'dark'],
    ['en', 'dark'],
    ['zh', 'light'],
  ] as const)('in %s and %s nothing is cut off, and everybody can use it', async (lang, colorScheme) => {
    const page = await here.visit({ lang, viewport, colorScheme, reducedMotion: 'reduce' })
    const picture = (name: string) =>
      page.page.screenshot({ path: join(folder, `${screen}-${lang}-${colorScheme}-${name}.png`), fullPage: true })
    await fillWith(page)
    await picture('running')
    await page.until('sync_folder', 'succeeded')
    await picture('done')
    const width = await page.page.evaluate(() => document.documentElement.scrollWidth)
    expect(width).toBeLessThanOrEqual(viewport.width)
    expect(await problemsOf(page)).toEqual([])
    await page.page.goto('/inbox')
    await picture('inbox')
    expect(await problemsOf(page)).toEqual([])
  })
})

/** A job in every state that there is to see, and a notice. */
async function fillWith(page: StudioPage): Promise<void> {
  await page.click('export')
  await page.send('ada@example.com')
  await page.until('export_pdf', 'succeeded')
  await page.trouble('quota')
  await page.click('rewrite')
  await page.until('assist', 'failed')
  await page.trouble('overloaded')
  await page.click('summarise')
  await page.until('assist', 'retrying')
  await page.click('credits')
  await page.until('add_credits', 'succeeded')
  await page.click('sync')
  await page.job('sync_folder').locator('.files li:nth-child(4)').waitFor()
  await page.click('export')
  await page.page.locator('#problem.note').waitFor()
}

/** What axe finds fault with, such as weak contrast or a button without a name. */
async function problemsOf(page: StudioPage): Promise<string[]> {
  await page.page.evaluate(axe.source)
  const { violations } = await page.page.evaluate<AxeResults>('axe.run()')
  return violations.flatMap(({ id, nodes }) => nodes.map(({ html }) => `${id}: ${html}`))
}
