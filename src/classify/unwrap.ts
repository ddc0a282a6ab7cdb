import { isObject, read, readList } from './read.js'

/** How deep an error is unwrapped, and how many errors are looked at in all. */
const MAX_DEPTH = 10
const MAX_NODES = 100

/** An error and what it wraps. `members` are failures side by side, `inner` are reasons one behind the other. */
export interface ErrorTree {
  error: unknown
  inner: readonly ErrorTree[]
  members: readonly ErrorTree[]
}

// lastError: AI SDK; detail: Stripe; originalError: many; driverError: TypeORM; original: Sequelize.
const INNER = ['lastError', 'cause', 'detail', 'originalError', 'driverError', 'original'] as const

/** The tree under an error, cut at a depth of 10, each object at most once. */
export function unwrap(error: unknown): ErrorTree {
  const seen = new Set<unknown>()

  function grow(value: unknown, depth: number): ErrorTree {
    seen.add(value)
    if (!isObject(value) || depth === MAX_DEPTH) return { error: value, inner: [], members: [] }
    const child = (candidate: unknown): ErrorTree[] => {
      if (!isObject(candidate) || seen.has(candidate) || seen.size >= MAX_NODES) return []
      return [grow(candidate, depth + 1)]
    }
    const inner = INNER.flatMap((key) => child(read(value, key)))
    // A retry error lists every attempt; only the last one counts.
    const members = isObject(read(value, 'lastError')) ? [] : readList(read(value, 'errors'), MAX_NODES).flatMap(child)
    return { error: value, inner, members }
  }

  return grow(error, 0)
}

/** Every error of a tree, the outermost first. */
export function flatten(tree: ErrorTree): unknown[] {
  return [tree.error, ...[...tree.inner, ...tree.members].flatMap(flatten)]
}
