/**
 * The handler of requests for live jobs, from a `Request` to a `Response`, under one path:
 *
 *   GET   {path}/{id}           a public snapshot, with an ETag; `?after={rev}&wait={seconds}` waits for one that is newer
 *   GET   {path}/{id}/events    a stream of snapshots
 *   GET   {path}/events?id=...  one stream of many jobs: those named, else those of the token
 *   GET   {path}/{id}/streams/{name}   the text of one of its streams; from a place on, `?attempt=1&offset=20`, also with `&wait={seconds}`
 *   POST  {path}/{id}/cancel    asks for the job's cancellation
 *   GET   {path}/{id}/file      its file
 *
 * Every request is answered in this order: is there such a route, may they, is there such a job. So nobody learns of a job that they may
 * not see.
 */
import { createHash } from 'node:crypto'
import { parseDuration, type Duration } from '../duration.js'
import { JobtableError } from '../errors.js'
import { checkOptionNames, type OptionNames } from '../options.js'
import { LOCALES, type Locale } from '../messages.js'
import { isPassing } from '../outage.js'
import type { Queue } from '../queue.js'
import type { JobRow } from '../store.js'
import { isFinal } from '../transition.js'
import { prepareAccess, type AccessOptions, type Grant } from './access.js'
import { download } from './download.js'
import { Hub, type FollowedJob } from './hub.js'
import { LiveStreams, type LiveOptions } from './live.js'
import { localeOf } from './locale.js'
import { revsOf, textPlace, textsOf, wholeNumber } from './places.js'
import { empty, hasTag, json, jsonText, Refusal, refusals, refused } from './respond.js'
import { parseRoute, type Route } from './route.js'
import type { JobAction } from './token.js'

/** The longest long poll, below the 30 s after which some proxies give up. Seconds. */
const LONGEST_WAIT_S = 25
/** So many jobs in one stream; more make an address that is too long for some servers. */
const MOST_JOBS = 100

export type HttpOptions = AccessOptions & {
  /** Where the handler is, as browsers see it. Default `/jobs`. */
  path?: string
  /** The language of those who ask for neither English nor Chinese. Default: the queue's. */
  locale?: Locale
  /** A stream ends after this long, and its reader comes back and is checked anew. Default `15m`. */
  maxStream?: Duration
}

const NAMES: OptionNames<Required<HttpOptions>> = { secrets: true, authorize: true, path: true, locale: true, maxStream: true }

export interface HttpHandler {
  (request: Request): Promise<Response>
  /** Ends the open streams and answers who waits; their pages come back, to another process. */
  close(): Promise<void>
}

/** A handler of requests about the jobs of this queue. Closed to everybody but those whom `secrets` or `authorize` let in. */
export function httpHandler(queue: Queue, options: HttpOptions): HttpHandler {
  checkOptionNames('httpHandler', options ?? {}, NAMES)
  const access = prepareAccess(options ?? {})
  const path = checkPath(options.path ?? '/jobs')
  const fallback = checkLocale(options.locale ?? queue.locale)
  const hub = new Hub(queue, path)
  const streams = new LiveStreams(hub)
  const maxStreamMs = parseDuration(options.maxStream ?? '15m')
  const context = { queue, hub, streams, maxStreamMs }
  let closed = false

  const handler = async (request: Request): Promise<Response> => {
    const response = await respond(request)
    return request.method === 'HEAD' ? new Response(null, response) : response
  }
  const respond = async (request: Request): Promise<Response> => {
    try {
      const url = new URL(request.url)
      const route = parseRoute(url.pathname, path)
      if (!route) throw refusals.noRoute()
      const grant = await access(request, url)
      const locale = localeOf(request, url, fallback)
      const ids = await permitted(route, url, grant)
      if (!route.methods.includes(request.method)) throw refusals.method(route.methods.join(', '))
      if (closed) throw refusals.unavailable()
      return await answer(route, { ...context, request, url, grant, locale, ids })
    } catch (error) {
      return refused(asRefusal(error, queue))
    }
  }
  return Object.assign(handler, {
    async close() {
      closed = true
      streams.close()
      hub.close()
    },
  })
}

interface Asked {
  queue: Queue
  hub: Hub
  streams: LiveStreams
  maxStreamMs: number
  request: Request
  url: URL
  grant: Grant
  locale: Locale
  /** The jobs that it is about, which they may see. */
  ids: readonly string[]
}

function answer(route: Route, asked: Asked): Promise<Response> {
  switch (route.name) {
    case 'snapshot':
      return snapshot(asked)
    case 'text':
      return text(asked, route.stream)
    case 'events':
      return events(asked)
    case 'many':
      return many(asked)
    case 'cancel':
      return cancel(asked)
    case 'file':
      return file(asked)
  }
}

async function permitted(route: Route, url: URL, grant: Grant): Promise<readonly string[]> {
  if (route.name !== 'many') {
    await grant.check(route.id, route.action)
    return [route.id]
  }
  const named = url.searchParams.getAll('id')
  const ids = [...new Set(named.length > 0 ? named : grant.jobs)]
  if (ids.length === 0 || ids.length > MOST_JOBS) throw refusals.invalid(`name 1 to ${MOST_JOBS} jobs, as ?id=...&id=...`)
  const refused = (await Promise.all(ids.map((id) => isRefused(grant, id, route.action)))).flat()
  if (refused.length > 0) throw refusals.forbiddenOf(refused)
  return ids
}

/** The id if it is. */
async function isRefused(grant: Grant, id: string, action: JobAction): Promise<string[]> {
  try {
    await grant.check(id, action)
    return []
  } catch (error) {
    if (error instanceof Refusal) return [id]
    throw error
  }
}

async function snapshot({ hub, request, url, grant, locale, ids: [id] }: Asked): Promise<Response> {
  const after = wholeNumber(url, 'after')
  const isNews = (now: FollowedJob): boolean => after === undefined || now.rev > after
  const waitMs = waitOf(url, grant) ?? 0
  const job = waitMs > 0 ? await hub.wait(id!, isNews, waitMs, request.signal) : await hub.known(id!)
  if (!job || !isNews(job)) return empty(204)
  const body = job.text(locale)
  const etag = `"${createHash('sha256').update(body).digest('base64url').slice(0, 22)}"`
  if (hasTag(request.headers.get('if-none-match'), etag)) return empty(304, { etag })
  return json(200, body, { etag })
}

async function events(asked: Asked): Promise<Response> {
  const { hub, ids } = asked
  const options = liveOptions(asked, ids[0])
  const stream = asked.streams.open(ids, options)
  try {
    const job = await hub.known(ids[0]!)
    const after = options.after.get(job.id)
    if (after === undefined || !job.final || job.rev > after || options.texts.length > 0) return stream.response()
    // The only answer after which an EventSource does not come back.
    stream.close()
    return empty(204)
  } catch (error) {
    stream.close()
    throw error
  }
}

async function many(asked: Asked): Promise<Response> {
  return asked.streams.open(asked.ids, liveOptions(asked)).response()
}

function liveOptions({ request, url, grant, locale, maxStreamMs, ids }: Asked, ofJob?: string): LiveOptions {
  const waitMs = waitOf(url, grant) ?? 0
  return {
    locale,
    until: Math.min(grant.until, Date.now() + maxStreamMs),
    after: revsOf(url, ids, request.headers.get('last-event-id')),
    texts: textsOf(url, ids, ofJob),
    ...(waitMs > 0 && { pollMs: waitMs }),
  }
}

async function text({ hub, request, url, grant, ids: [id] }: Asked, name: string): Promise<Response> {
  const at = { id: id!, name, place: textPlace(url), done: false }
  const piece = await hub.textAfter(at, waitOf(url, grant) ?? 0, request.signal)
  if (!piece) return empty(204)
  if (piece.text.attempt === 0) throw refusals.noStream()
  return json(200, jsonText(piece.text))
}

async function cancel({ queue, hub, locale, ids: [id] }: Asked): Promise<Response> {
  const store = await queue.open()
  const [row] = await store.cancel([id!], 'the end user')
  if (!row) throw refusals.noJob()
  hub.saw(row)
  // Too late for what has succeeded or failed; asking twice is asking once.
  const tooLate = isFinal(row.status) && row.status !== 'canceled'
  return json(tooLate ? 409 : 200, hub.textOf(row, locale))
}

async function file({ queue, request, ids: [id] }: Asked): Promise<Response> {
  const [row]: (JobRow | undefined)[] = await (await queue.open()).get([id!])
  if (!row) throw refusals.noJob()
  return download(request, row, queue.files)
}

/** How long a request with `?wait={seconds}` may be kept waiting. Milliseconds. */
function waitOf(url: URL, grant: Grant): number | undefined {
  const seconds = wholeNumber(url, 'wait')
  return seconds && Math.max(0, Math.min(Math.min(seconds, LONGEST_WAIT_S) * 1_000, grant.until - Date.now()))
}

/** What happened is for the log; who asked learns only that something did. */
function asRefusal(error: unknown, queue: Queue): Refusal {
  if (error instanceof Refusal) return error
  if (isPassing(error) || (error instanceof JobtableError && error.code === 'queue_closed')) return refusals.unavailable()
  queue.logger.error({ err: error }, 'a request about a job failed')
  return refusals.internal()
}

function checkPath(path: string): string {
  if (typeof path === 'string' && /^(?:\/[\w.~-]+)+$/.test(path)) return path
  throw new JobtableError('config_invalid', `path must be such as /jobs or /api/jobs, not ${JSON.stringify(path)}`)
}

function checkLocale(locale: Locale): Locale {
  if (LOCALES.includes(locale)) return locale
  throw new JobtableError('config_invalid', `locale must be ${LOCALES.join(' or ')}, not ${JSON.stringify(locale)}`)
}
