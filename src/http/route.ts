import type { JobAction } from './token.js'

interface OneJob {
  name: 'snapshot' | 'events' | 'cancel' | 'file'
  id: string
}

export type Route = (OneJob | { name: 'many' }) & { action: JobAction; methods: readonly string[] }

const READ = ['GET', 'HEAD']

/** Undefined for an address that is none of the handler's. `{path}/events` is the stream of many jobs, no job of that name. */
export function parseRoute(pathname: string, path: string): Route | undefined {
  if (!pathname.startsWith(`${path}/`)) return undefined
  const [first = '', second, ...more] = pathname.slice(path.length + 1).split('/')
  const id = decoded(first)
  if (!id || more.length > 0) return undefined
  if (first === 'events' && second === undefined) return { name: 'many', action: 'view', methods: ['GET'] }
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

function decoded(segment: string): string | undefined {
  try {
    return decodeURIComponent(segment)
  } catch {
    return undefined // A % that is none.
  }
}
