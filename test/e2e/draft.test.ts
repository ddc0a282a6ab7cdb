/** The document while it is written: what is not saved yet is not lost, and holds up nothing that needs no document. */
import { expect, it } from 'vitest'
import { Studio } from '../support/studio.js'
import { openTab, type StudioPage } from './browser.js'
import { product } from './product.js'

const here = product(() => Studio.start({ STUDIO_LINGER_MS: '50' }))

const note = (page: StudioPage, text: string) => page.page.locator('#saved', { hasText: text }).waitFor()

async function type(page: StudioPage, title: string, text: string): Promise<void> {
  await page.page.locator('#title').fill(title)
  await page.page.locator('#text').fill(text)
}

async function fields(page: StudioPage): Promise<string[]> {
  return [await page.page.locator('#title').inputValue(), await page.page.locator('#text').inputValue()]
}

it('a document without a title stops what is about the document, in words, and nothing else', async () => {
  const page = await here.visit()
  await type(page, '  ', 'Text.')
  await page.click('export')
  await page.page.getByText('The document needs a title first.').waitFor()
  expect(await page.page.evaluate('document.activeElement.id')).toBe('title')
  await page.click('credits')
  await page.click('sync')
  await page.until('add_credits', 'succeeded')
  await page.until('sync_folder', 'succeeded')
  expect(await page.page.locator('li.job').count()).toBe(2)
  await note(page, 'Not saved yet')
})

it('what is not saved is there again after the inbox and in another language, and can be saved', async () => {
  const page = await here.visit()
  await type(page, 'Half a title', 'Half a text')
  await page.page.getByRole('link', { name: 'Inbox' }).click()
  await page.page.getByRole('link', { name: 'Back to the document' }).click()
  await note(page, 'Not saved yet')
  expect(await fields(page)).toEqual(['Half a title', 'Half a text'])
  await page.page.getByRole('link', { name: '中文' }).click()
  await note(page, '尚未保存')
  expect(await fields(page)).toEqual(['Half a title', 'Half a text'])
  await page.page.locator('#save').click()
  await note(page, '2')
  await page.reload()
  expect(await fields(page)).toEqual(['Half a title', 'Half a text'])
})

it('what another tab has saved meanwhile is not saved over, and a reload shows it', async () => {
  const page = await here.visit()
  await type(page, 'Mine', 'mine')
  await page.page.goto('/inbox')
  const other = await openTab(page.page.context())
  await other.write('Theirs', 'theirs')
  await note(other, '2')
  await page.page.goto('/')
  await note(page, 'This was changed in another tab')
  expect(await fields(page)).toEqual(['Mine', 'mine'])
  await page.click('export')
  await page.page.locator('#problem', { hasText: 'This was changed in another tab' }).waitFor()
  await page.reload()
  expect(await fields(page)).toEqual(['Theirs', 'theirs'])
})
