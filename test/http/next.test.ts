/** A Next.js product, built and started, that shows the jobs which a worker runs in another process: this one. */
import { execFile, spawn, type ChildProcess } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, it } from 'vitest'
import type { NextRequest } from 'next/server.js'
import { z } from 'zod'
import { nextHandlers, signToken, type HttpHandler, type JobAction } from '../../src/http/index.js'
import { jobtable, type Queue } from '../../src/index.js'
import { freePort } from '../support/ports.js'
import { EventReader, SECRET } from './support.js'

const root = join(import.meta.dirname, '../..')
const next = join(root, 'node_modules/next/dist/bin/next')

const FILES: Record<string, string> = {
  'package.json': '{ "private": true, "type": "module" }',
  'next.config.mjs': `export default {
    serverExternalPackages: ['jobtable', 'better-sqlite3'],
    turbopack: { root: ${JSON.stringify(root)} },
  }`,
  'app/jobs/[...path]/route.js': `
    import { jobtable } from 'jobtable'
    import { httpHandler, nextHandlers } from 'jobtable/http'

    const queue = jobtable()
    export const { GET, HEAD, POST } = nextHandlers(httpHandler(queue, { secrets: [process.env.JOBS_SECRET] }))
  `,
}

/** As Next.js checks a route's types, which has to do with a request of its own class. */
nextHandlers satisfies (handler: HttpHandler) => Record<'GET' | 'HEAD' | 'POST', (request: NextRequest) => Promise<Response>>

let folder: string
let queue: Queue
let server: ChildProcess
let address: string

beforeAll(async () => {
  mkdirSync(join(root, '.tmp'), { recursive: true })
  folder = mkdtempSync(join(root, '.tmp/next-'))
  for (const [name, text] of Object.entries(FILES)) {
    mkdirSync(join(folder, name, '..'), { recursive: true })
    writeFileSync(join(folder, name), text)
  }
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(root, join(folder, 'node_modules/jobtable'))
  const database = `sqlite:${join(folder, 'app.db')}`
  const env = {
    ...process.env,
    NODE_ENV: 'production' as const,
    NEXT_TELEMETRY_DISABLED: '1',
    JOBTABLE_URL: database,
    JOBS_SECRET: SECRET,
  }
  await promisify(execFile)(process.execPath, [next, 'build'], { cwd: folder, env })

  const port = await freePort()
  address = `http://127.0.0.1:${port}`
  server = spawn(process.execPath, [next, 'start', '-p', String(port), '-H', '127.0.0.1'], { cwd: folder, env })
  let output = ''
  await new Promise<void>((resolve, reject) => {
    const more = (text: Buffer): void => {
      output += text.toString()
      if (output.includes('Ready')) resolve()
    }
    server.stdout!.on('data', more)
    server.stderr!.on('data', more)
    server.once('exit', () => reject(new Error(output)))
  })
  queue = jobtable(database)
}, 240_000)

afterAll(async () => {
  await queue?.close()
  if (server?.exitCode === null) {
    server.kill()
    await once(server, 'exit')
  }
  rmSync(folder, { recursive: true, force: true })
})

it('Next.js route handlers refuse outsiders, stream every stage of a running job, serve its file and cancel', async () => {
  let go = (): void => {}
  const type = queue.define('export', {
    payload: z.object({}),
    idempotency: { none: 'a test' },
    run: async (job) => {
      for (const stage of ['drawing', 'saving']) {
        await job.stage(stage)
        await new Promise<void>((resolve) => (go = resolve))
      }
      return job.file('报告.txt', 'the content')
    },
  })
  const { job } = await type.enqueue({})
  const ask = async (path: string, action: JobAction = 'view', init: RequestInit = {}) => {
    const headers = new Headers(init.headers)
    headers.set('authorization', `Bearer ${await signToken({ jobs: [job.id], actions: [action], expiresIn: '1h' }, SECRET)}`)
    return fetch(`${address}/jobs/${path}`, { ...init, headers })
  }
  expect((await fetch(`${address}/jobs/${job.id}`)).status).toBe(401)
  expect((await ask('another')).status).toBe(403)

  const page = new EventReader(await ask(`${job.id}/events`))
  expect(await page.job()).toMatchObject({ id: job.id, status: 'pending' })
  queue.work()
  for (const stage of ['drawing', 'saving']) {
    await page.job((now) => now.stage?.key === stage)
    go()
  }
  expect(await page.job(({ final }) => final)).toMatchObject({ status: 'succeeded', file: { name: '报告.txt' } })
  expect((await page.rest()).at(-1)!.event).toBe('end')

  expect(await (await ask(job.id)).json()).toMatchObject({ status: 'succeeded' })
  const file = await ask(`${job.id}/file`, 'download', { headers: { range: 'bytes=4-' } })
  expect([file.status, file.headers.get('content-range'), await file.text()]).toEqual([206, 'bytes 4-10/11', 'content'])
  const head = await ask(`${job.id}/file`, 'download', { method: 'HEAD' })
  expect([head.status, head.headers.get('accept-ranges'), await head.text()]).toEqual([200, 'bytes', '']) // Next.js drops the length.
  expect((await ask(`${job.id}/cancel`, 'cancel', { method: 'POST' })).status).toBe(409)
})
