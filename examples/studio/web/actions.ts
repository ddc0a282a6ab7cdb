/**
 * What a visitor can do. Each is a POST of JSON, which pages of other sites cannot send without asking, and its answer is the new state, with the
 * job that was started.
 */
import type { HttpBindings } from '@hono/node-server'
import { Hono, type Context } from 'hono'
import { HTTPException } from 'hono/http-exception'
import { z } from 'zod'
import { start, type Started } from '../activity.js'
import { assist, exportPdf, sendMail, syncFolder } from '../contract.js'
import { documentAt, draft, fileName, saveDocument } from '../documents.js'
import { troubles } from '../standins/model.js'
import { standIns } from './stand-ins.js'
import { stateOf, type State } from './state.js'
import type { Visit } from './visitor.js'

export type Answer = State & { started?: Started }

const version = z.int().positive()

export const actions = new Hono<Visit>()
  .post('/document', async (context) => {
    const { base, ...wanted } = await read(context, draft.extend({ base: version }))
    if (!(await saveDocument(context.var.visitor, base, wanted)))
      throw new HTTPException(409, { message: 'the document was saved elsewhere since' })
    return answer(context)
  })
  .post('/assist', async (context) => {
    const { visitor, language } = context.var
    const wanted = await read(context, z.object({ version, task: z.enum(['summarise', 'rewrite']) }))
    await documentAt(visitor, wanted.version)
    const about = `${wanted.task}/${wanted.version}`
    return answer(context, await start(visitor, about, (tx) => assist.enqueue({ visitor, language, ...wanted }, { tx })))
  })
  .post('/export', async (context) => {
    const { visitor } = context.var
    const wanted = await read(context, z.object({ version }))
    const { title } = await documentAt(visitor, wanted.version)
    const payload = { visitor, version: wanted.version, name: fileName(title, 'pdf') }
    return answer(context, await start(visitor, String(wanted.version), (tx) => exportPdf.enqueue(payload, { tx })))
  })
  .post('/mail', async (context) => {
    const { visitor } = context.var
    const wanted = await read(context, z.object({ version, to: z.email() }))
    await documentAt(visitor, wanted.version)
    return answer(context, await start(visitor, wanted.to, (tx) => sendMail.enqueue({ visitor, ...wanted }, { tx })))
  })
  .post('/sync', async (context) => {
    const { visitor } = context.var
    const { request } = await read(context, z.object({ request: z.uuid() }))
    return answer(context, await start(visitor, '', (tx) => syncFolder.enqueue({ visitor, request }, { tx })))
  })
  .post('/credits', async (context) => {
    await read(context, z.object({}))
    await standIns.pay(context.var.visitor, 100, `${addressOf(context)}/webhooks/payments`)
    return answer(context)
  })
  .post('/troubles', async (context) => {
    await standIns.setTroubles(context.var.visitor, await read(context, troubles))
    return answer(context)
  })
  .post('/worker/kill', async (context) => {
    await read(context, z.object({}))
    await standIns.killWorker()
    return answer(context)
  })
  .all('*', () => {
    throw new HTTPException(404, { message: 'there is no such action' })
  })

/** Where this server is, and not what a request calls it: signed events go nowhere else. */
function addressOf({ env }: Context<Visit>): string {
  const { localAddress, localPort } = (env as HttpBindings).incoming.socket
  return `http://${localAddress}:${localPort}`
}

async function answer(context: Context<Visit>, started?: Started): Promise<Response> {
  const state = await stateOf(context.var.visitor, context.var.language)
  return context.json({ ...state, ...(started && { started }) } satisfies Answer)
}

async function read<Schema extends z.ZodType>(context: Context, schema: Schema): Promise<z.output<Schema>> {
  if (!context.req.header('content-type')?.startsWith('application/json'))
    throw new HTTPException(415, { message: 'the body must be JSON' })
  const parsed = schema.safeParse(await context.req.json().catch(() => undefined))
  if (!parsed.success) throw new HTTPException(400, { message: z.prettifyError(parsed.error) })
  return parsed.data
}
