export { jobsClient, type JobsClient, type JobsClientOptions, type WatchOptions } from './client.js'
export { JobsError } from './errors.js'
export type { StreamedText } from './known.js'
export type { PublicFile, PublicJob, PublicStage } from '../http/public.js'
