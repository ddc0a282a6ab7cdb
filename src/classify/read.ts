/**
 * Reading what was thrown. Anything can be thrown: Proxies whose traps throw, objects whose getters throw. Each read here
 * fails by itself and quietly, so that one bad property hides no other.
 */

export function isObject(value: unknown): value is object {
  return (typeof value === 'object' && value !== null) || typeof value === 'function'
}

export function read(value: unknown, key: PropertyKey): unknown {
  if (!isObject(value)) return undefined
  try {
    return (value as Record<PropertyKey, unknown>)[key]
  } catch {
    return undefined
  }
}

/** `read` along a path: `readPath(error, 'response', 'data', 'error')`. */
export function readPath(value: unknown, ...keys: readonly PropertyKey[]): unknown {
  return keys.reduce<unknown>((current, key) => read(current, key), value)
}

export function readString(value: unknown, ...keys: readonly PropertyKey[]): string | undefined {
  const found = readPath(value, ...keys)
  return typeof found === 'string' && found !== '' ? found : undefined
}

export function readNumber(value: unknown, ...keys: readonly PropertyKey[]): number | undefined {
  const found = readPath(value, ...keys)
  return typeof found === 'number' && Number.isFinite(found) ? found : undefined
}

/** The first members of an array, at most `limit`; nothing for what is no array. */
export function readList(value: unknown, limit: number): unknown[] {
  try {
    if (!Array.isArray(value)) return []
    const members: unknown[] = []
    for (let i = 0; i < Math.min(value.length, limit); i++) members.push(read(value, i))
    return members
  } catch {
    return []
  }
}

export function isInstance<T>(value: unknown, ofClass: abstract new (...args: never[]) => T): value is T {
  try {
    return value instanceof ofClass
  } catch {
    return false
  }
}

/** The name of the class, which is often not the `name` of the error. */
export function className(value: unknown): string {
  return readString(value, 'constructor', 'name') ?? ''
}
