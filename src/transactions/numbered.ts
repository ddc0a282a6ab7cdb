import type { QueryParameter } from './transaction.js'

/**
 * Libraries that take `?1` for a name, or know only `?`: every use of a numbered parameter becomes a `?` of its own. `arrange` gives
 * the parameters in their order, in one array that the next call fills anew.
 */
export function numbered(sql: string): { text: string; arrange: (params: readonly QueryParameter[]) => QueryParameter[] } {
  const order = Array.from(sql.matchAll(/\?(\d+)/g), ([, number]) => Number(number) - 1)
  if (order.length === 0) return { text: sql, arrange: (params) => params as QueryParameter[] }
  const arranged: QueryParameter[] = order.map(() => null)
  const arrange = (params: readonly QueryParameter[]): QueryParameter[] => {
    for (let i = 0; i < order.length; i++) arranged[i] = params[order[i]!]!
    return arranged
  }
  return { text: sql.replaceAll(/\?\d+/g, '?'), arrange }
}
