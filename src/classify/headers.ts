import { isObject, read, readPath } from './read.js'

/** The value of a response header, by its name in small letters. */
export type HeaderReader = (name: string) => string | undefined

const PATHS = [['headers'], ['responseHeaders'], ['response', 'headers'], ['$response', 'headers'], ['raw', 'headers']]

/**
 * Headers come as `Headers` or AxiosHeaders, which have `get`, or as a plain object in any case of letters.
 * The first place that has the header wins.
 */
export function headerReader(error: unknown): HeaderReader {
  const places = PATHS.map((path) => readPath(error, ...path)).filter(isObject)
  return (name) => {
    for (const headers of places) {
      const value = get(headers, name)
      if (value !== undefined) return value
    }
    return undefined
  }
}

function get(headers: object, name: string): string | undefined {
  try {
    const getter = read(headers, 'get')
    if (typeof getter === 'function') return text(getter.call(headers, name))
    const key = Object.keys(headers).find((own) => own.toLowerCase() === name)
    return key === undefined ? undefined : text(read(headers, key))
  } catch {
    return undefined
  }
}

function text(value: unknown): string | undefined {
  if (typeof value === 'number') return String(value)
  if (Array.isArray(value)) return text(value[0])
  return typeof value === 'string' ? value.trim() : undefined
}
