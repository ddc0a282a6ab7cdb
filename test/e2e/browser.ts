/** The browser of the tests, and a visitor of the product in it. */
import { accessSync, constants } from 'node:fs'
import { delimiter, join } from 'node:path'
import { chromium, type Browser, type BrowserContext, type BrowserContextOptions, type Locator, type Page } from 'playwright-core'
import { onTestFinished } from 'vitest'
import type { STAGES } from '../../examples/studio/stages.js'

export type Type = keyof typeof STAGES

/** Longer than any job of the tests takes, on a busy machine. Milliseconds. */
const PATIENCE_MS = 45_000

const NAMES = ['chromium', 'chromium-browser', 'google-chrome', 'chrome']

function executable(): string {
  const given = process.env['CHROMIUM']
  if (given) return given
  const folders = (process.env['PATH'] ?? '').split(delimiter)
  const found = folders.flatMap((folder) => NAMES.map((name) => join(folder, name))).find(isExecutable)
  if (found) return found
  throw new Error('there is no Chromium: apt-get install chromium, or put the path of one into CHROMIUM')
}

function isExecutable(path: string): boolean {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}

export function launch(): Promise<Browser> {
  // Its sandbox does not work for root, as which containers run their tests.
  return chromium.launch({ executablePath: executable(), chromiumSandbox: process.getuid?.() !== 0 })
}

/** A page in which a visitor who is new has the product before them. It closes with the test. */
export async function visit(
  browser: Browser,
  url: string,
  { lang = 'en', ...options }: BrowserContextOptions & { lang?: 'en' | 'zh' } = {},
): Promise<StudioPage> {
  const context = await browser.newContext({ baseURL: url, ...options })
  onTestFinished(() => context.close())
  return openTab(context, `/?lang=${lang}`)
}

/** Another tab of the same visitor. */
export async function openTab(context: BrowserContext, path = '/'): Promise<StudioPage> {
  context.setDefaultTimeout(PATIENCE_MS)
  const studio = new StudioPage(await context.newPage())
  await studio.page.addInitScript(recordSeen)
  await studio.page.goto(path)
  await studio.ready()
  return studio
}

export class StudioPage {
  readonly page: Page
  /** What went wrong in the page: errors of its script, and what its policy has refused. */
  readonly errors: string[] = []

  constructor(page: Page) {
    this.page = page
    page.on('pageerror', (error) => this.errors.push(error.message))
    page.on('console', (message) => {
      if (/Content Security Policy/i.test(message.text())) this.errors.push(message.text())
    })
  }

  /** Resolves once the page has its document. */
  async ready(): Promise<void> {
    await this.page.locator('#saved', { hasText: /\d/ }).waitFor()
  }

  async reload(): Promise<void> {
    await this.page.reload()
    await this.ready()
  }

  /** The newest job of a type. */
  job(type: Type): Locator {
    return this.page.locator(`li.job[data-type="${type}"]`).first()
  }

  async until(type: Type, status: string): Promise<void> {
    await this.page.locator(`li.job[data-type="${type}"][data-status="${status}"]`).first().waitFor()
  }

  /** What the newest job of a type has to say, beyond what happens now. */
  detail(type: Type, text: string | RegExp): Locator {
    return this.job(type).locator('[part="detail"]', { hasText: text })
  }

  /** Presses a button of the newest job of a type. */
  async press(type: Type, name: RegExp): Promise<void> {
    await this.job(type).getByRole('button', { name }).click()
  }

  async click(action: 'export' | 'summarise' | 'rewrite' | 'sync' | 'credits'): Promise<void> {
    await this.page.locator(`button[data-action="${action}"]`).click()
  }

  /** The next request to the model meets it. */
  async trouble(kind: 'rate_limit' | 'overloaded' | 'cut' | 'quota'): Promise<void> {
    await this.page.locator(`#troubles [data-kind="${kind}"]`).click()
    await this.page.locator(`#troubles [data-kind="${kind}"][aria-pressed="true"]`).waitFor()
  }

  async write(title: string, text: string): Promise<void> {
    await this.page.locator('#title').fill(title)
    await this.page.locator('#text').fill(text)
    await this.page.locator('#save').click()
  }

  async send(to: string): Promise<void> {
    await this.page.locator('#to').fill(to)
    await this.page.locator('#mail button').click()
  }

  /** What the visitor could read, in order: the stages of a type, the texts of an answer, or of a sync how many files and how much of the bar. */
  seen(what: string): Promise<string[]> {
    return this.page.evaluate((name) => (window as unknown as Recorded).seen[name] ?? [], what)
  }
}

interface Recorded {
  seen: Record<string, string[]>
}

/** Runs in the page: keeps each stage that was marked as the present one, each text that a model has written so far, and how a sync went. */
function recordSeen(): void {
  const seen: Recorded['seen'] = {}
  ;(window as unknown as Recorded).seen = seen
  const note = (name: string, text: string): void => {
    const list = (seen[name] ??= [])
    if (list.at(-1) !== text) list.push(text)
  }
  new MutationObserver(() => {
    for (const stage of document.querySelectorAll('[aria-current="step"]')) {
      note(stage.closest<HTMLElement>('.job')?.dataset['type'] ?? '', stage.textContent)
    }
    for (const text of document.querySelectorAll('.written')) if (text.textContent) note('written', text.textContent)
    for (const sync of document.querySelectorAll('[data-type="sync_folder"]')) {
      note('files', String(sync.querySelectorAll('.files li').length))
      const bar = sync.querySelector('job-progress')?.shadowRoot?.querySelector('[role="progressbar"]')
      const percent = bar?.getAttribute('aria-valuenow')
      if (percent) note('bar', percent)
    }
  }).observe(document, { subtree: true, childList: true, attributes: true, characterData: true })
}
