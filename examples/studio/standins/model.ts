/**
 * Stands in for a language model: the protocol of OpenAI's chat completions, word by word, and the troubles that a real one has. What it
 * answers is taken from the document, and the same each time.
 */
import { setTimeout as pause } from 'node:timers/promises'
import { Hono } from 'hono'
import { streamSSE } from 'hono/streaming'
import { z } from 'zod'
import { answerTo } from './answers.js'

export const troubles = z.object({
  /** What the next requests meet. */
  kind: z.enum(['none', 'rate_limit', 'quota', 'overloaded', 'cut']),
  /** How many of them. */
  count: z.int().min(0).max(100).default(1),
  /** Between two words. Milliseconds. */
  paceMs: z.int().min(0).max(5_000).optional(),
})
export type Troubles = z.output<typeof troubles>

const REFUSALS = {
  rate_limit: {
    status: 429,
    headers: { 'retry-after': '5' },
    error: { message: 'Rate limit reached', type: 'requests', code: 'rate_limit_exceeded' },
  },
  quota: {
    status: 429,
    headers: {},
    error: { message: 'You exceeded your current quota', type: 'insufficient_quota', code: 'insufficient_quota' },
  },
  overloaded: {
    status: 503,
    headers: {},
    error: { message: 'The engine is currently overloaded', type: 'server_error', code: 'engine_overloaded' },
  },
} as const

/** Of a connection that is cut: how many words get through. */
const WORDS_BEFORE_CUT = 12
const DEFAULT_PACE_MS = 45

const request = z.object({
  model: z.string(),
  stream: z.literal(true),
  messages: z.array(z.object({ role: z.string(), content: z.string() })).min(1),
})

export class Model {
  /** By visitor, so that nobody's troubles meet somebody else. */
  readonly #troubles = new Map<string, Required<Troubles>>()

  readonly routes = new Hono().post('/chat/completions', async (context) => {
    const { model, messages } = request.parse(await context.req.json())
    const visitor = context.req.header('x-visitor') ?? ''
    const { paceMs } = this.#of(visitor)
    const trouble = this.#next(visitor)
    if (trouble !== 'none' && trouble !== 'cut') {
      const { status, headers, error } = REFUSALS[trouble]
      return context.json({ error }, status, headers)
    }
    const words = wordsOf(answerTo(messages))
    const sent = trouble === 'cut' ? words.slice(0, WORDS_BEFORE_CUT) : words
    return streamSSE(context, async (stream) => {
      const chunk = (delta: object, finish_reason: string | null): Promise<void> =>
        stream.writeSSE({
          data: JSON.stringify({
            id: 'chatcmpl-studio',
            object: 'chat.completion.chunk',
            created: 0,
            model,
            choices: [{ index: 0, delta, finish_reason }],
          }),
        })
      for (const content of sent) {
        if (stream.aborted) return
        await chunk({ content }, null)
        await pause(paceMs)
      }
      if (trouble === 'cut') return
      await chunk({}, 'stop')
      await stream.writeSSE({ data: '[DONE]' })
    })
  })

  set(visitor: string, { kind, count, paceMs }: Troubles): void {
    this.#troubles.set(visitor, { kind, count: kind === 'none' ? 0 : count, paceMs: paceMs ?? this.#of(visitor).paceMs })
  }

  now(visitor: string): { kind: Troubles['kind']; count: number } {
    const { kind, count } = this.#of(visitor)
    return { kind, count }
  }

  #of(visitor: string): Required<Troubles> {
    return this.#troubles.get(visitor) ?? { kind: 'none', count: 0, paceMs: DEFAULT_PACE_MS }
  }

  #next(visitor: string): Troubles['kind'] {
    const { kind, count, paceMs } = this.#of(visitor)
    if (count === 0) return 'none'
    this.set(visitor, { kind: count === 1 ? 'none' : kind, count: count - 1, paceMs })
    return kind
  }
}

/** With the spaces after them, so that all of them together are the text. */
function wordsOf(text: string): string[] {
  const words: string[] = []
  for (const { segment, isWordLike } of new Intl.Segmenter('zh', { granularity: 'word' }).segment(text)) {
    if (isWordLike || words.length === 0) words.push(segment)
    else words[words.length - 1] += segment
  }
  return words
}
