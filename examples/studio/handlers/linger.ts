import { setTimeout as pause } from 'node:timers/promises'
import { settings } from '../settings.js'

/** Lets a stage last until it was seen; see `settings.lingerMs`. */
export async function linger(signal: AbortSignal, share = 1): Promise<void> {
  await pause(settings.lingerMs * share, undefined, { signal })
}
