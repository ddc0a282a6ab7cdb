import { JobtableError } from '../errors.js'

/** For a connection that commits each statement by itself, and was taken for a transaction. */
export function notOpen(what: string): JobtableError {
  return new JobtableError(
    'config_invalid',
    `${what}: no transaction is open on it, so that each statement would be committed by itself; nothing is recorded. Begin one before, write in it, and end it only then`,
  )
}
