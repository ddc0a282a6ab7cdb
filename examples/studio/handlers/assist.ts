/** The language model: what it answers can be read while it grows. */
import OpenAI from 'openai'
import { TransientError } from 'jobtable'
import { assist } from '../contract.js'
import { documentAt } from '../documents.js'
import { settings } from '../settings.js'
import { linger } from './linger.js'

const TASKS = {
  summarise: { en: 'Summarise the document in one short paragraph.', zh: '请用一小段中文概括这篇文档。' },
  rewrite: { en: 'Rewrite the document so that it is shorter and plainer.', zh: '请把这篇文档改写得更短、更直白。' },
} as const

// The job has retries of its own, which a person can see.
const openai = new OpenAI({ maxRetries: 0 })

export function handleAssist(): void {
  assist.handle(async (job) => {
    const { visitor, version, task, language } = job.payload
    await job.stage('reading')
    const { text } = await documentAt(visitor, version)
    await linger(job.signal)

    await job.stage('asking')
    const answer = await openai.chat.completions.create(
      {
        model: settings.model,
        stream: true,
        messages: [
          { role: 'system', content: TASKS[task][language] },
          { role: 'user', content: text },
        ],
      },
      // The stand-in plays the troubles of this visitor; real ones pass over such a header.
      { signal: job.signal, headers: { 'x-visitor': visitor } },
    )

    await job.stage('writing')
    const written = await job.stream('text').from(pieces(answer))
    return { characters: written.length }
  })
}

async function* pieces(answer: AsyncIterable<OpenAI.ChatCompletionChunk>): AsyncGenerator<string> {
  let finished = false
  for await (const { choices } of answer) {
    const [choice] = choices
    if (choice?.delta.content) yield choice.delta.content
    finished ||= Boolean(choice?.finish_reason)
  }
  // A connection that ends in the middle looks like an answer that is over.
  if (!finished) throw new TransientError('the answer of the model broke off', { code: 'provider_unavailable' })
}
