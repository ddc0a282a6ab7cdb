/** What the runs have met, and how often. What was never met was never tried. */

const MUST_BE_MET: readonly string[] = [
  ...['refused', 'unsent', 'unanswered', 'late', 'slow', 'dead_before', 'dead_after'].map((fate) => `call: ${fate}`),
  'call: refused by the database',
  'call: settlements beside a claim',
  'notification: lost',
  ...[
    'crash',
    'freeze',
    'suspension',
    'outage',
    'lock',
    'clock leap',
    'database clock forward',
    'database clock back',
    'stop',
    'abandoning stop',
  ].map((fault) => `fault: ${fault}`),
  'transition: none > pending (insert)',
  'transition: pending > running (claim)',
  'transition: retrying > running (claim)',
  ...['succeeded', 'retrying', 'failed', 'canceled'].map((status) => `transition: running > ${status} (holder)`),
  ...['retrying', 'failed', 'canceled'].map((status) => `transition: running > ${status} (recovery)`),
  'transition: pending > canceled (cancel)',
  'transition: retrying > canceled (cancel)',
  'transition: failed > pending (repair)',
  'transition: canceled > pending (repair)',
  'transition: succeeded > none (prune)',
  ...['returned', 'refused', 'transient', 'unknown', 'permanent', 'snoozed', 'rate_limited', 'aborted'].map(
    (end) => `handler: ${end}`,
  ),
  ...['canceled', 'timeout', 'lease_lost', 'shutdown'].map((cause) => `abort: ${cause}`),
  ...['lost', 'cancel_requested', 'locked'].map((outcome) => `answer: settlement ${outcome}`),
  'answer: heartbeat refused',
  'answer: claim refused',
  'answer: report lost',
  'answer: report locked',
  'claim: handed back unstarted',
  'claim: two handlers at once, one of them stale',
  'enqueue: duplicate',
  'enqueue: took a key over',
  'enqueue: no answer',
  'effect: committed',
  ...[
    'served',
    'unsent',
    'unanswered',
    'late',
    'slow',
    'limited',
    'declined',
    'unheard',
    'unreachable',
    'dead_before',
    'dead_after',
  ].map((fate) => `provider: ${fate}`),
  'provider: knew the key',
  'provider: declined as before',
  ...['done', 'not_done', 'unknown'].map((answer) => `reconcile: ${answer}`),
  ...['recorded', 'lost', 'taken'].map((outcome) => `record: ${outcome}`),
  ...['done', 'refused', 'too late'].map((word) => `resolve: ${word}`),
  ...['same_key', 'reconcile', 'hold'].map((onUnknown) => `effect: its job succeeded, ${onUnknown}`),
  ...['same_key', 'reconcile'].map((onUnknown) => `effect: begun again, ${onUnknown}`),
  'effect: given from the record',
  'effect: inherited',
  ...['same', 'another'].map((key) => `effect: called after a refusal with the ${key} key`),
  'step: given from the record',
  'handler: held',
  'stream: a piece was sent again',
  'stream: written by a job that succeeded',
  ...['succeeded', 'failed', 'canceled', 'deleted'].map((what) => `result: ${what}`),
]

export class Coverage {
  readonly counts = new Map<string, number>()

  count(what: string, by = 1): void {
    this.counts.set(what, (this.counts.get(what) ?? 0) + by)
  }

  get missing(): string[] {
    return MUST_BE_MET.filter((what) => !this.counts.has(what))
  }
}
