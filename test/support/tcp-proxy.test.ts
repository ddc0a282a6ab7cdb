import { once } from 'node:events'
import { connect, createServer, type AddressInfo, type Socket } from 'node:net'
import { expect, it, onTestFinished } from 'vitest'
import { TcpProxy } from './tcp-proxy.js'

async function echo(): Promise<TcpProxy> {
  const server = createServer((socket) => socket.on('error', () => {}).pipe(socket)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const proxy = await TcpProxy.create((server.address() as AddressInfo).port)
  onTestFinished(async () => {
    await proxy.remove()
    server.close()
  })
  return proxy
}

async function client(proxy: TcpProxy): Promise<Socket> {
  const socket = connect(proxy.port, '127.0.0.1').setEncoding('utf8')
  await once(socket, 'connect')
  return socket
}

it('a stalled network holds back what is sent, on old and new connections, and lets it pass later', async () => {
  const proxy = await echo()
  const old = await client(proxy)
  old.write('one')
  expect(await once(old, 'data')).toEqual(['one'])

  proxy.stall()
  const heard: unknown[] = []
  const young = await client(proxy)
  for (const socket of [old, young]) socket.on('data', (text) => heard.push(text)).write('two')
  // Whoever connects past the stall is answered at once: time enough has passed for bytes that are not held back.
  const free = await client(await echo())
  free.write('three')
  await once(free, 'data')
  expect(heard).toEqual([])

  proxy.resume()
  await Promise.all([once(old, 'data'), once(young, 'data')])
  expect(heard).toEqual(['two', 'two'])
  old.destroy()
  young.destroy()
  free.destroy()
})

it('a cut resets every connection, and new ones pass', async () => {
  const proxy = await echo()
  const old = await client(proxy)
  old.write('one')
  await once(old, 'data')
  expect(proxy.connections).toBe(1)

  proxy.cut()
  const [error] = await once(old, 'error')
  expect(error).toMatchObject({ code: 'ECONNRESET' })

  const young = await client(proxy)
  young.write('two')
  expect(await once(young, 'data')).toEqual(['two'])
  young.destroy()
})
