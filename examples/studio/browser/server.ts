/** What the page asks the server for, beside the jobs that `jobtable/client` follows. */
import type { Answer } from '../web/actions.js'
import type { State } from '../web/state.js'

export type { Answer, State }

/** Of an answer that is none of success. 0 where there was no answer. */
export class Refused extends Error {
  override readonly name = 'Refused'
  readonly status: number

  constructor(status: number) {
    super(`the server answered with ${status}`)
    this.status = status
  }
}

export const state = (): Promise<State> => ask('/state') as Promise<State>

export const act = (action: string, body: object): Promise<Answer> => ask(`/actions/${action}`, body) as Promise<Answer>

/** Asked for whenever the page connects, so that it knows the newest jobs. */
export async function getToken(): Promise<string | null> {
  return ((await ask('/token')) as { token: string | null }).token
}

async function ask(path: string, body?: object): Promise<unknown> {
  const init = body && { method: 'POST', headers: { 'content-type': 'application/json' }, body: JSON.stringify(body) }
  const response = await fetch(path, init).catch(() => undefined)
  if (!response?.ok) throw new Refused(response?.status ?? 0)
  return response.json()
}
