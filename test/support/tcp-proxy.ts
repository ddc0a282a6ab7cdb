/**
 * A network between a client and a server of this machine that a test can break: stall it, so that bytes stop and nobody is
 * told, cut it, so that every connection is reset, or let it lead to another server.
 */
import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Server, type Socket } from 'node:net'

export class TcpProxy {
  readonly #server: Server
  readonly #sockets = new Set<Socket>()
  /** Nothing passes there any more, whatever becomes of the rest. */
  readonly #stranded = new WeakSet<Socket>()
  #stalled = false
  #target: number

  private constructor(target: number) {
    this.#target = target
    this.#server = createServer({ allowHalfOpen: true }, (client) => {
      const server = connect({ port: this.#target, host: '127.0.0.1', allowHalfOpen: true })
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
    for (const socket of this.#sockets) if (!this.#stranded.has(socket)) socket.resume()
  }

  /** Nothing passes on the present connections any more, though they stay open; new ones are as ever. */
  strand(): void {
    for (const socket of this.#sockets) {
      this.#stranded.add(socket)
      socket.pause()
    }
  }

  /** New connections lead to this port; the present ones stay. */
  redirect(target: number): void {
    this.#target = target
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
      if (!this.#stalled && !this.#stranded.has(from)) from.resume()
    })
    from.on('end', () => to.end())
    from.on('error', () => to.resetAndDestroy())
    from.on('close', () => {
      this.#sockets.delete(from)
      to.destroy()
    })
  }
}
