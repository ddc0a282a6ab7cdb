/** A queue whose jobs report and end when the test says so, and a page's view of it. */
import { onTestFinished, vi } from 'vitest'
import { z } from 'zod'
import { httpHandler, signToken, type HttpOptions, type JobAction, type PublicJob } from '../../src/http/index.js'
import type { FileContent } from '../../src/files.js'
import type { JobContext } from '../../src/worker/context.js'
import { testQueue } from '../../src/testing/test-queue.js'

export const SECRET = 'a secret of tests, and long enough for them'
export const OTHER_SECRET = 'another secret, which is as long as it must be'

/** How a running handler is led: what it is told to do, it does, and then waits for more. */
export interface Lead {
  /** What the handler does next; resolves when it is done. */
  tell(what: (context: JobContext<unknown>) => unknown): Promise<void>
  /** The handler returns this, or throws it if it is an error. */
  end(value?: unknown): void
}

export async function place(options: Partial<HttpOptions> & { locale?: 'en' | 'zh' } = {}) {
  const queue = testQueue()
  const leads = new Map<string, ReturnType<typeof leader>>()
  const leadOf = (id: string) => {
    let lead = leads.get(id)
    if (!lead) leads.set(id, (lead = leader(() => queue.clock.advance(1))))
    return lead
  }
  const type = queue.define('export', {
    payload: z.object({ secret: z.string().optional() }),
    idempotency: { none: 'a test' },
    stages: ['drawing', 'saving', 'ready'],
    stageLabels: { drawing: { en: 'Drawing', zh: '正在绘制' }, saving: 'Saving <b>' },
    publicStreams: ['answer', 'notes'],
    retry: { maxAttempts: 3 },
    run: (job) => leadOf(job.id).run(job),
  })
  const handler = httpHandler(queue, { ...(!options.authorize && { secrets: [SECRET] }), ...options } as HttpOptions)
  onTestFinished(async () => {
    await handler.close()
    for (const lead of leads.values()) lead.end()
    await queue.close()
  })
  const store = await queue.open()
  const calls = { get: 0 }
  const get = store.get.bind(store)
  store.get = (ids) => (calls.get++, get(ids))

  return {
    queue,
    handler,
    store,
    calls,
    /** A job that waits, or with `queue.work()` runs. */
    async enqueue(payload: { secret?: string } = {}) {
      return (await type.enqueue(payload)).job
    },
    lead: (id: string): Lead => leadOf(id),
    token: (jobs: string | string[], actions: JobAction[] = ['view'], secret = SECRET) =>
      signToken({ jobs: [jobs].flat(), actions, expiresIn: '1h' }, secret),
    /** Asks with this token. */
    ask(path: string, token?: string, init: RequestInit = {}) {
      const headers = new Headers(init.headers)
      if (token !== undefined) headers.set('authorization', `Bearer ${token}`)
      return handler(new Request(`http://product.example${path}`, { ...init, headers }))
    },
  }
}

/** Runs what is due to its end, led by the test. */
async function run({ queue }: Place, lead: () => unknown): Promise<void> {
  const worker = queue.work()
  await lead()
  await worker.idle()
  await worker.stop()
}

export type Place = Awaited<ReturnType<typeof place>>

/** A job that has succeeded with this result, or, given an error, failed. */
export async function finished(made: Place, result: unknown) {
  const job = await made.enqueue()
  await run(made, () => made.lead(job.id).end(result))
  return job
}

/** A job that has succeeded with a file, and perhaps a stream. */
export async function withFile(made: Place, name: string, content: FileContent, contentType?: string, answer?: string) {
  const job = await made.enqueue()
  const lead = made.lead(job.id)
  await run(made, () =>
    lead.tell(async (context) => {
      if (answer !== undefined) await context.stream('answer').write(answer)
      lead.end(await context.file(name, content, contentType === undefined ? {} : { contentType }))
    }),
  )
  return job
}

/** `begin` is called before each thing that the handler does. */
function leader(begin: () => void) {
  const commands: { what: (context: JobContext<unknown>) => unknown; done: () => void }[] = []
  let ending: { value: unknown } | undefined
  let wake = (): void => {}
  return {
    tell(what: (context: JobContext<unknown>) => unknown): Promise<void> {
      return new Promise((done) => {
        commands.push({ what, done })
        wake()
      })
    },
    end(value?: unknown): void {
      ending ??= { value }
      wake()
    },
    async run(context: JobContext<unknown>): Promise<unknown> {
      context.signal.addEventListener('abort', () => wake())
      for (;;) {
        for (let command = commands.shift(); command; command = commands.shift()) {
          begin()
          await command.what(context)
          command.done()
        }
        context.signal.throwIfAborted()
        if (ending) {
          begin()
          const { value } = ending
          if (value instanceof Error) {
            ending = undefined
            throw value
          }
          return value
        }
        await new Promise<void>((resolve) => (wake = resolve))
      }
    },
  }
}

/** How many jobs are followed, on behalf of whoever looks. */
export function followed({ queue }: Place): () => number {
  const follow = queue.follow.bind(queue)
  const followers = new Set<object>()
  vi.spyOn(queue, 'follow').mockImplementation(async (id, follower) => {
    followers.add(follower)
    const leave = (): void => void followers.delete(follower)
    const unfollow = await follow(id, {
      seen: (row) => follower.seen(row),
      failed: (error) => (leave(), follower.failed(error)),
    })
    return () => (leave(), unfollow())
  })
  return () => followers.size
}

export interface ServerEvent {
  id?: string
  event?: string
  data?: string
  retry?: string
  comment?: string
}

/** The events of a stream, one by one. */
export class EventReader {
  readonly #reader: ReadableStreamDefaultReader<Uint8Array>
  readonly #decoder = new TextDecoder()
  #text = ''

  constructor(response: Response) {
    this.#reader = response.body!.getReader()
  }

  /** The next block, or undefined at the end of the stream. */
  async next(): Promise<ServerEvent | undefined> {
    for (;;) {
      const end = this.#text.indexOf('\n\n')
      if (end !== -1) {
        const block = this.#text.slice(0, end)
        this.#text = this.#text.slice(end + 2)
        return parse(block)
      }
      const { value, done } = await this.#reader.read()
      if (done) return undefined
      this.#text += this.#decoder.decode(value, { stream: true })
    }
  }

  /** The next snapshot of which this holds. */
  async job(is: (job: PublicJob) => boolean = () => true): Promise<PublicJob> {
    for (let event = await this.next(); event; event = await this.next()) {
      if (event.event !== 'job') continue
      const job = JSON.parse(event.data!) as PublicJob
      if (is(job)) return job
    }
    throw new Error('the stream ended before')
  }

  /** What is left, to the end. */
  async rest(): Promise<ServerEvent[]> {
    const events: ServerEvent[] = []
    for (let event = await this.next(); event; event = await this.next()) events.push(event)
    return events
  }

  leave(): Promise<void> {
    return this.#reader.cancel()
  }
}

function parse(block: string): ServerEvent {
  return Object.fromEntries(
    block.split('\n').map((line) => {
      const [, name, value] = /^([a-z]*): ?(.*)$/.exec(line)!
      return [name === '' ? 'comment' : name, value]
    }),
  ) as ServerEvent
}
