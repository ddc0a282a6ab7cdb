/** The web process: the page, its actions, and its jobs, live. */
import { once } from 'node:events'
import type { Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { serve } from '@hono/node-server'
import { queue } from './contract.js'
import { database } from './database.js'
import { refuse, untilStopped } from './process.js'
import { settings } from './settings.js'
import { studio } from './web/app.js'

await queue.open()
const { fetch, close } = await studio()
const server = serve({ fetch, port: settings.port, hostname: '127.0.0.1' }) as Server
if (!server.listening) {
  await once(server, 'listening').catch((error: unknown) => refuse(`listen on port ${settings.port}`, error))
}
untilStopped(async () => {
  await close()
  server.close()
  server.closeAllConnections()
  await queue.close()
  await database.destroy()
})
process.send?.({ url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` })
