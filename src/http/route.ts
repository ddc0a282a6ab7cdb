import { decoded } from './places.js'
import type { JobAction } from './token.js'

interface OneJob {
  name: 'snapshot' | 'events' | 'cancel' | 'file'
  id: string
}

interface OneText {
  name: 'text'
  id: string
  stream: string
}

export type Route = (OneJob | OneText | { name: 'many' }) & { action: JobAction; methods: readonly string[] }

const READ = ['GET', 'HEAD']

/** Undefined for an address that is none of the handler's. `{path}/events` is the stream of many jobs, no job of that name. */
export function parseRoute(pathname: string, path: string): Route | undefined {
  if (!pathname.startsWith(`${path}/`)) return undefined
  const [first = '', second, third, ...more] = pathname.slice(path.length + 1).split('/')
  const id = decoded(first)
  if (!id || more.length > 0) return undefined
  if (first === 'events' && second === undefined) return { name: 'many', action: 'view', methods: ['GET'] }
  if (second === 'streams' && third !== undefined) {
    const stream = decoded(third)
    return stream ? { name: 'text', id, stream, action: 'view', methods: READ } : undefined
  }
  if (third !== undefined) return undefined
  switch (second) {
    case undefined:
      return { name: 'snapshot', id, action: 'view', methods: READ }
    case 'events':
      return { name: 'events', id, action: 'view', methods: ['GET'] }
    case 'cancel':
      return { name: 'cancel', id, action: 'cancel', methods: ['POST'] }
    case 'file':
      return { name: 'file', id, action: 'download', methods: READ }
    default:
      return undefined
  }
}
