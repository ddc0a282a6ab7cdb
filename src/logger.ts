import { maskSecrets } from './mask.js'

/** What jobtable logs to. pino fits as it is, and so does anything with these four methods. */
export interface Logger {
  debug(facts: object, message: string): void
  info(facts: object, message: string): void
  warn(facts: object, message: string): void
  error(facts: object, message: string): void
}

/** Warnings and errors to stderr, the rest nowhere. */
export const consoleLogger: Logger = {
  debug() {},
  info() {},
  warn: (facts, message) => console.warn(line(facts, message)),
  error: (facts, message) => console.error(line(facts, message)),
}

function line(facts: object, message: string): string {
  const text = Object.entries(facts).map(([key, value]) => `${key}=${value instanceof Error ? value.message : String(value)}`)
  return maskSecrets(`jobtable: ${message}${text.length > 0 ? ` (${text.join(', ')})` : ''}`)
}

/** A logger that cannot hurt: what goes wrong with logging must not go wrong with jobs. */
export function guarded(logger: Logger): Logger {
  const guard =
    (level: keyof Logger) =>
    (facts: object, message: string): void => {
      try {
        logger[level](facts, message)
      } catch {
        // There is nowhere left to say it.
      }
    }
  return { debug: guard('debug'), info: guard('info'), warn: guard('warn'), error: guard('error') }
}
