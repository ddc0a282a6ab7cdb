/**
 * A network between a client and a server of this machine that a test can break: stall it, so that bytes stop and nobody is
 * told, or cut it, so that every connection is reset.
 */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'

export class TcpProxy {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  #stalled = false

  private constructor(target: number) {
    this.#server = createServer({ allowHalfOpen: true }, (client) => {
      const server = connect({ port: target, host: '127.0.0.1', allowHalfOpen: true })
      this.#forward(client, server)
      this.#forward(server, client)
    })
  }

  /** Forwards to a port of 127.0.0.1. */
  static async create(target: number): Promise<TcpProxy> {
    const proxy = new TcpProxy(target)
    proxy.#server.listen(0, '127.0.0.1')
    await once(proxy.#server, 'listening')
    return proxy
  }

  get port(): number {
    return (this.#server.address() as AddressInfo).port
  }

  /** The same URL by way of this proxy. */
  url(target: string): string {
    return Object.assign(new URL(target), { hostname: '127.0.0.1', port: String(this.port) }).href
  }

  /** How many connections are open. */
  get connections(): number {
    return Math.ceil(this.#sockets.size / 2)
  }

  /** From now on nothing passes. Connections stay open, and new ones are taken but lead nowhere. */
  stall(): void {
    this.#stalled = true
    for (const socket of this.#sockets) socket.pause()
  }

  /** What was held back passes now. */
  resume(): void {
    this.#stalled = false
    for (const socket of this.#sockets) socket.resume()
  }

  /** Resets every connection; new ones pass, unless it is stalled. */
  cut(): void {
    for (const socket of this.#sockets) socket.resetAndDestroy()
  }

  async remove(): Promise<void> {
    this.#server.close()
    this.cut()
    await once(this.#server, 'close')
  }

  #forward(from: Socket, to: Socket): void {
    this.#sockets.add(from)
    if (this.#stalled) from.pause()
    from.on('data', (bytes) => {
      if (!to.write(bytes)) from.pause()
    })
    to.on('drain', () => {
      if (!this.#stalled) from.resume()
    })
    from.on('end', () => to.end())
    from.on('error', () => to.resetAndDestroy())
    from.on('close', () => {
      this.#sockets.delete(from)
      to.destroy()
    })
  }
}
