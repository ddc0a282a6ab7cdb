/** How a process of the product ends. */

/** Ends the process gracefully on Ctrl-C, on SIGTERM, and when whoever has started it is gone. */
export function untilStopped(close: () => Promise<void>): void {
  let stopping: Promise<void> | undefined
  const stop = (): void => {
    stopping ??= close().then(() => process.exit())
  }
  for (const event of ['SIGINT', 'SIGTERM', 'disconnect'] as const) process.on(event, stop)
}
