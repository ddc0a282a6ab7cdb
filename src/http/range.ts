/** The first byte, and the one after the last. */
export interface ByteRange {
  start: number
  end: number
}

/**
 * The one range that is asked for. Undefined for the whole: where there is none, where it is of another version of the content, and where it
 * is something else than one range of bytes, as RFC 9110 allows.
 */
export function rangeOf(headers: Headers, size: number, etag: string): ByteRange | 'unsatisfiable' | undefined {
  const condition = headers.get('if-range')
  if (condition !== null && condition.trim() !== etag) return undefined
  const [, first, last] = /^bytes=(\d*)-(\d*)$/.exec(headers.get('range')?.trim() ?? '') ?? []
  if (first === undefined || last === undefined || (first === '' && last === '')) return undefined
  // Without a first byte it is so many from the end.
  const start = first === '' ? Math.max(0, size - Number(last)) : Number(first)
  const end = first === '' || last === '' ? size : Math.min(size, Number(last) + 1)
  if (first !== '' && last !== '' && Number(last) < start) return undefined
  return start < end ? { start, end } : 'unsatisfiable'
}
