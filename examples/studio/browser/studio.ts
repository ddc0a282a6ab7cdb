/** The page: fills in what the server knows, passes on what the visitor does, and shows every job of theirs, live. */
import { jobsClient } from 'jobtable/client'
import { defineJobProgress } from 'jobtable/element'
import { isLanguage, wordsOf, type Word } from '../words.js'
import { Card } from './card.js'
import { byId } from './dom.js'
import { Draft, Untitled } from './draft.js'
import { Notice } from './notice.js'
import { act, getToken, Refused, state, type Answer, type State } from './server.js'
import { Troubles } from './troubles.js'

/** What changes at the same time is asked for once. Milliseconds. */
const SOON_MS = 200
/** How many jobs are shown at first, and how many more each time. */
const SOME = 20
/** How often to look for a worker that is being started. Milliseconds. */
const WORKER_MS = 1_000

defineJobProgress()
const language = isLanguage(document.documentElement.lang) ? document.documentElement.lang : 'en'
const say = wordsOf(language)
const jobs = jobsClient({ getToken, locale: language })
const draft = new Draft(say)
const cards = new Map<string, Card>()
const troubles = new Troubles(say, {
  choose: (kind) => void attemptAndTell(() => act('troubles', { kind })),
  kill: () => void attemptAndTell(() => act('worker/kill', {})),
})
const notice = new Notice()
/** Tells the other tabs of this visitor that there is something new. */
const news = new BroadcastChannel('studio')
const activity = byId('activity', HTMLElement)
const older = byId('older', HTMLButtonElement)
let most = SOME

/** What each button asks for. */
const ACTIONS: Readonly<Record<string, () => Promise<Answer>>> = {
  export: () => withDocument((version) => act('export', { version })),
  summarise: () => withDocument((version) => act('assist', { version, task: 'summarise' })),
  rewrite: () => withDocument((version) => act('assist', { version, task: 'rewrite' })),
  sync: () => act('sync', { request: crypto.randomUUID() }),
  credits: async () => {
    const answer = await act('credits', {})
    // The provider has told of it meanwhile, so it is there.
    const paid = answer.activity.find(({ type }) => type === 'add_credits')
    return { ...answer, ...(paid && { started: { job: paid.job, duplicate: false } }) }
  },
}

for (const button of document.querySelectorAll<HTMLButtonElement>('button[data-action]')) {
  const action = ACTIONS[button.dataset['action']!]!
  button.addEventListener('click', () => void whileBusy(button, () => attemptAndTell(action)))
}
byId('document', HTMLFormElement).addEventListener('submit', (event) => {
  event.preventDefault()
  void attemptAndTell(async () => (await draft.save()) ?? state())
})
byId('mail', HTMLFormElement).addEventListener('submit', (event) => {
  event.preventDefault()
  const to = byId('to', HTMLInputElement).value
  void whileBusy(event.submitter as HTMLButtonElement, () =>
    attemptAndTell(() => withDocument((version) => act('mail', { version, to }))),
  )
})
older.addEventListener('click', () => {
  most += SOME
  void attempt(state)
})
news.addEventListener('message', refreshSoon)
// What has begun elsewhere, on another device for example, is seen by whoever comes back to the page.
addEventListener('focus', refreshSoon)
addEventListener('pageshow', ({ persisted }) => {
  if (persisted) refreshSoon()
})
document.addEventListener('visibilitychange', () => {
  if (document.visibilityState === 'visible') refreshSoon()
})
void attempt(state)

/** Asks for something that is about the document as it is now. */
async function withDocument(ask: (version: number) => Promise<Answer>): Promise<Answer> {
  const saved = await draft.save()
  if (saved) show(saved)
  return ask(draft.version)
}

/** Shows the answer, or in words why there is none. */
async function attempt(ask: () => Promise<Answer | State>): Promise<void> {
  notice.hide()
  try {
    const answer = await ask()
    show(answer)
    if ('started' in answer && answer.started) pointTo(answer.started, answer.activity)
  } catch (error) {
    notice.show(say(problemOf(error)))
  }
}

/** Another tab hears of it whatever came of it: an answer that got lost may have been a yes. */
async function attemptAndTell(ask: () => Promise<Answer | State>): Promise<void> {
  await attempt(ask).finally(() => news.postMessage('changed'))
}

function problemOf(error: unknown): Word {
  if (error instanceof Untitled) return 'untitled'
  if (!(error instanceof Refused)) throw error
  if (error.status === 409) return 'changedElsewhere'
  return error.status === 0 || error.status >= 500 ? 'offline' : 'refused'
}

function show(now: State): void {
  draft.show(now.document)
  byId('credits', HTMLElement).textContent = String(now.credits)
  troubles.show(now.troubles)
  showJobs(now.activity)
  if (now.troubles.worker === null) setTimeout(refreshSoon, WORKER_MS)
}

/** Newest first. A card that is there stays where it is: it would begin anew elsewhere. */
function showJobs(all: State['activity']): void {
  const shown = all.slice(0, most)
  for (const [job, card] of cards) {
    if (shown.some((each) => each.job === job)) continue
    card.close()
    cards.delete(job)
  }
  let place = activity.firstElementChild
  for (const each of shown) {
    const card = cards.get(each.job) ?? addCard(each, place)
    card.update(each)
    place = card.element.nextElementSibling
  }
  byId('nothing', HTMLElement).hidden = all.length > 0
  older.hidden = all.length <= most
}

function addCard(each: State['activity'][number], before: Element | null): Card {
  const card = new Card(each, { jobs, language, say, onStatus: refreshSoon })
  cards.set(each.job, card)
  activity.insertBefore(card.element, before)
  return card
}

function pointTo({ job, duplicate }: NonNullable<Answer['started']>, all: State['activity']): void {
  if (duplicate) notice.show(say('duplicate'), 'note')
  // One that answers for a second request may be an old one.
  most = Math.max(most, all.findIndex((each) => each.job === job) + 1)
  showJobs(all)
  cards.get(job)?.point()
}

async function whileBusy(button: HTMLButtonElement, work: () => Promise<void>): Promise<void> {
  button.disabled = true
  await work().finally(() => (button.disabled = false))
}

let refreshing: ReturnType<typeof setTimeout> | undefined
function refreshSoon(): void {
  refreshing ??= setTimeout(() => {
    refreshing = undefined
    // An outage is told when somebody asks for something; the jobs say theirs themselves.
    void state().then(show, () => {})
  }, SOON_MS)
}
