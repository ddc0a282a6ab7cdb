/** Why a job cannot be followed: who reads it may not, or it is not there. Outages are none: they are waited out. */
export class JobsError extends Error {
  override readonly name = 'JobsError'
  /** The HTTP status: 401, 403, 404, ... */
  declare readonly status: number
  /** As the server names it: `unauthorized`, `token_expired`, `forbidden`, `job_not_found`, ...; `http_error` where something else answers. */
  declare readonly code: string
  /** The ids that are meant, where not all are. */
  declare readonly jobs: readonly string[] | undefined

  constructor(status: number, code: string, message = code, jobs?: readonly string[]) {
    super(message)
    this.status = status
    this.code = code
    this.jobs = jobs
  }
}

export async function errorOf(response: Response): Promise<JobsError> {
  // Something in between may have answered, in whatever form.
  const body = (await response.json().catch(() => ({}))) as { error?: string; message?: string; jobs?: string[] }
  const { error = 'http_error', message, jobs } = body
  return new JobsError(response.status, error, message, jobs)
}
