/** What needs no quotes in an array; the word null would be no text. */
const BARE = /^(?!null$)[\w-]+$/i

/** An array in PostgreSQL's own notation, of texts or numbers. */
export function array(values: readonly (string | number)[]): string {
  return `{${values.map((value) => (typeof value === 'number' || BARE.test(value) ? value : quotedItem(value))).join(',')}}`
}

function quotedItem(value: string): string {
  return `"${value.replaceAll(/["\\]/g, '\\$&')}"`
}
