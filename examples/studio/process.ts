/** How a process of the product ends. */

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
