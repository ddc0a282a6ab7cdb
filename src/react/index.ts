'use client'
export {
  JobsProvider,
  useJob,
  useJobStream,
  type HookOptions,
  type UsedJob,
  type UsedJobStream,
  type UseJobOptions,
} from './hooks.js'
export { JobsError, type PublicFile, type PublicJob, type PublicStage } from '../client/index.js'
