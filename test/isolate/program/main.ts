/** A product in TypeScript with isolated handlers; prints what they return. */
import { jobtable } from 'jobtable'
import { z } from 'zod'

const queue = jobtable(process.argv[2], { durability: 'relaxed' })
for (const isolate of ['thread', 'process'] as const) {
  const type = queue.define(`upper-${isolate}`, {
    payload: z.object({ text: z.string() }),
    idempotency: { none: 'a test' },
    result: z.string(),
    isolate,
    // A bundle has its handlers beside it.
    run: new URL(import.meta.url.endsWith('.ts') ? './upper.ts' : './upper.mjs', import.meta.url),
  })
  const { job } = await type.enqueue({ text: isolate })
  await queue.drain()
  console.log(await job.result())
}
await queue.close()
