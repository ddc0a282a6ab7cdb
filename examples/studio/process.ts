/** How a process of the product ends, or does not even begin. */

/**
 * Ends the process gracefully on Ctrl-C, on SIGTERM, and when whoever has started it is gone, which may have been before. Call it as soon as
 * there is something to close.
 */
export function untilStopped(close: () => Promise<void>): void {
  let stopping: Promise<void> | undefined
  const stop = (): void => {
    stopping ??= close().then(() => process.exit())
  }
  for (const event of ['SIGINT', 'SIGTERM', 'disconnect'] as const) process.on(event, stop)
  // Started from a shell there is no such member.
  if ('connected' in process && !process.connected) stop()
}

/** Ends the process with the reason in one line, for whoever can do something about it: a stack would only hide it. */
export function refuse(doing: string, error: unknown): never {
  console.error(`The studio cannot ${doing}: ${reasonOf(error)}`)
  process.exit(1)
}

function reasonOf(error: unknown): string {
  // Of a host with several addresses: one error for each, and no message for all of them.
  if (error instanceof AggregateError && error.message === '') return [...new Set(error.errors.map(reasonOf))].join(', ')
  return error instanceof Error ? error.message : String(error)
}
