/** A Redis server for the length of a run: every write in a log that reaches the disk each second, and no second copy beside it. */
import { spawn, spawnSync } from 'node:child_process'
import { cpuSeconds, dataFolder, freePort } from './process.mjs'

/** Undefined when this machine has no Redis. */
export async function startRedis() {
  const version = /v=([\d.]+)/.exec(spawnSync('redis-server', ['--version'], { encoding: 'utf8' }).stdout ?? '')?.[1]
  if (version === undefined) return undefined
  const [folder, port] = [dataFolder('redis'), await freePort()]
  const options = {
    port,
    bind: '127.0.0.1',
    dir: folder,
    appendonly: 'yes',
    appendfsync: 'everysec',
    save: '',
    'maxmemory-policy': 'noeviction',
  }
  const server = spawn(
    'redis-server',
    Object.entries(options).flatMap(([name, value]) => [`--${name}`, String(value)]),
    { stdio: ['ignore', 'pipe', 'inherit'] },
  )
  const end = () => server.kill('SIGKILL')
  process.once('exit', end)
  await new Promise((resolve, reject) => {
    server.once('exit', (code) => reject(new Error(`redis-server ended with ${code}`)))
    server.stdout.on('data', (text) => /Ready to accept connections/.test(text) && resolve())
  })
  return {
    version,
    url: `redis://127.0.0.1:${port}`,
    cpuSeconds: () => cpuSeconds(server.pid),
    async stop() {
      process.off('exit', end)
      const exited = new Promise((resolve) => server.once('exit', resolve))
      end()
      await exited
    },
  }
}
