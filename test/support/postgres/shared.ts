/**
 * The PostgreSQL server that the test files of one run share. The global setup offers it at an address; the first file that
 * asks there starts it, so that runs without PostgreSQL do not wait for it.
 *
 * `JOBTABLE_TEST_POSTGRES`, the URL of a superuser's database on a running server, is used instead where it is set.
 */
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import type { TestProject } from 'vitest/node'
import { TestServer } from './server.js'

declare module 'vitest' {
  interface ProvidedContext {
    /** Answers a GET with the URL of the shared server. */
    postgres: string
  }
}

/** For the global setup; gives its end. */
export async function offerServer(project: TestProject): Promise<() => Promise<void>> {
  const given = process.env['JOBTABLE_TEST_POSTGRES']
  let server: Promise<TestServer> | undefined
  const answer = async (): Promise<string> => given ?? (await (server ??= TestServer.create())).url()

  const desk = createServer((_request, response) => {
    // A kept connection would be closed by one side as the other takes it for its next question.
    response.setHeader('connection', 'close')
    answer().then(
      (url) => response.end(url),
      (error: unknown) => response.writeHead(500).end(String(error)),
    )
  }).listen(0, '127.0.0.1')
  await once(desk, 'listening')
  project.provide('postgres', `http://127.0.0.1:${(desk.address() as AddressInfo).port}`)

  return async () => {
    desk.close()
    desk.closeAllConnections()
    // A server that did not start has said so to the tests that asked for it.
    await server?.then(
      (started) => started.remove(),
      () => {},
    )
  }
}
