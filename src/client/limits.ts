/** How long a connection waits for what, and how much it is asked for. In a file that imports nothing, bundlers put them where they are used. */

/** The server sends its first bytes at once, and then some every 15 s. Milliseconds. */
export const FIRST_BYTE_MS = 5_000
export const SILENCE_MS = 35_000
/** So long a poll waits for news. Seconds. */
export const POLL_S = '20'
export const POLLING_MS = 300_000
/** Before the next of connections that end, as they do: at most so long, at random, so that not all come back together. Milliseconds. */
export const SOON_MS = 500
/** After a failure; doubled with each that follows, up to the longest. */
export const FIRST_WAIT_MS = 1_000
export const LONGEST_WAIT_MS = 30_000
/** A connection that has lasted so long was none of the failures. */
export const GOOD_MS = 2_000
/** A connection that was silent for so long when its page wakes may be dead. */
export const STALE_MS = 20_000

/** So many jobs and texts are read over one connection, for an address can only be so long, and the server takes 100 texts. */
export const MOST = 50
