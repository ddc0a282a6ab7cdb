/** Defines `<job-progress>` where it is imported. */
import { defineJobProgress } from './define.js'

defineJobProgress()

export { defineJobProgress, type JobProgressElement } from './define.js'
