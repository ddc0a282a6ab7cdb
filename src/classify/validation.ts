import type { Facts } from './facts.js'
import { read, readList, readString } from './read.js'
import { permanent, type Verdict } from './verdict.js'

/** zod, valibot and every other Standard Schema library: an error with `issues`, each of which has a message. */
export function validation(facts: Facts): Verdict | undefined {
  const issues = readList(read(facts.error, 'issues'), 1)
  const isSchemaError =
    /^(?:\$?ZodError|ValiError|SchemaError)$/.test(facts.name) || readString(issues[0], 'message') !== undefined
  return isSchemaError ? permanent('validation_failed', 'developer') : undefined
}
