/** The page: fills in what the server knows, passes on what the visitor does, and shows every job of theirs, live. */
import { jobsClient } from 'jobtable/client'
import { defineJobProgress } from 'jobtable/element'
import { isLanguage, wordsOf } from '../words.js'
import { Card } from './card.js'
import { byId } from './dom.js'
import { Draft, Untitled } from './draft.js'
import { act, getToken, Refused, state, type Answer, type State } from './server.js'
import { Troubles } from './troubles.js'

/** What changes at the same time is asked for once. Milliseconds. */
const SOON_MS = 200
/** How often to look for a worker that is being started. Milliseconds. */
const WORKER_MS = 1_000

defineJobProgress()
const language = isLanguage(document.documentElement.lang) ? document.documentElement.lang : 'en'
const say = wordsOf(language)
const jobs = jobsClient({ getToken, locale: language })
const draft = new Draft(say)
const cards = new Map<string, Card>()
const troubles = new Troubles(say, {
  choose: (kind) => void attempt(() => act('troubles', { kind })),
  kill: () => void attempt(() => act('worker/kill', {})),
})
const problem = byId('problem', HTMLElement)
const activity = byId('activity', HTMLElement)

/** What each button asks for. */
const ACTIONS: Readonly<Record<string, () => Promise<Answer>>> = {
  export: () => withDocument((version) => act('export', { version })),
  summarise: () => withDocument((version) => act('assist', { version, task: 'summarise' })),
  rewrite: () => withDocument((version) => act('assist', { version, task: 'rewrite' })),
  sync: () => act('sync', { request: crypto.randomUUID() }),
  credits: () => act('credits', {}),
}

for (const button of document.querySelectorAll<HTMLButtonElement>('button[data-action]')) {
  const action = ACTIONS[button.dataset['action']!]!
  button.addEventListener('click', () => void whileBusy(button, () => attempt(action)))
}
byId('document', HTMLFormElement).addEventListener('submit', (event) => {
  event.preventDefault()
  void attempt(async () => (await draft.save()) ?? state())
})
byId('mail', HTMLFormElement).addEventListener('submit', (event) => {
  event.preventDefault()
  const to = byId('to', HTMLInputElement).value
  void whileBusy(event.submitter as HTMLButtonElement, () =>
    attempt(() => withDocument((version) => act('mail', { version, to }))),
  )
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
  problem.hidden = true
  try {
    const answer = await ask()
    show(answer)
    if ('started' in answer && answer.started) pointTo(answer.started)
  } catch (error) {
    if (error instanceof Untitled) return tell(say('untitled'))
    if (!(error instanceof Refused)) throw error
    tell(say(error.status === 409 ? 'changedElsewhere' : error.status === 0 || error.status >= 500 ? 'offline' : 'refused'))
  }
}

function show(now: State): void {
  draft.show(now.document)
  byId('credits', HTMLElement).textContent = String(now.credits)
  troubles.show(now.troubles)
  for (const [job, card] of cards) {
    if (now.activity.some((each) => each.job === job)) continue
    card.close()
    cards.delete(job)
  }
  // Oldest first, so that each newer one comes on top.
  for (const each of now.activity.toReversed()) {
    const card = cards.get(each.job) ?? addCard(each)
    card.update(each)
  }
  byId('nothing', HTMLElement).hidden = cards.size > 0
  if (now.troubles.worker === null) setTimeout(refreshSoon, WORKER_MS)
}

function addCard(each: State['activity'][number]): Card {
  const card = new Card(each, { jobs, language, say, onStatus: refreshSoon })
  cards.set(each.job, card)
  activity.prepend(card.element)
  return card
}

function pointTo({ job, duplicate }: NonNullable<Answer['started']>): void {
  if (duplicate) tell(say('duplicate'), 'note')
  cards.get(job)?.point()
}

function tell(text: string, kind: 'problem' | 'note' = 'problem'): void {
  problem.textContent = text
  problem.className = kind
  problem.hidden = false
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
