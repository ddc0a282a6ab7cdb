/** What the doctor says of every database. */
import type { Finding } from '../store.js'

/** Of running jobs whose worker has no lease any more. */
export function claimsFinding(lost: number): Finding {
  if (lost === 0) return { level: 'ok', code: 'claims', message: 'every running job has a living worker' }
  return {
    level: 'warning',
    code: 'claims_without_worker',
    message: `${lost} running ${lost === 1 ? 'job has' : 'jobs have'} no living worker: a worker that knows their types takes them back`,
  }
}

export function mebibytes(bytes: number): string {
  return `${(bytes / 1024 / 1024).toFixed(1)} MiB`
}
