/** Ports of 127.0.0.1 that nobody listens on. */
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/* Below the ports that systems give to outgoing connections, so that a server finds its own again when it restarts. */
const FIRST = 20_000
const LAST = 32_000

export async function freePort(): Promise<number> {
  for (;;) {
    const port = randomInt(FIRST, LAST)
    const probe = createServer().listen(port, '127.0.0.1')
    try {
      await once(probe, 'listening')
    } catch {
      continue
    }
    await new Promise((resolve) => probe.close(resolve))
    return port
  }
}
