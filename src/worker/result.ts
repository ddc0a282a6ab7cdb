/** What a handler returned, as it is stored. */
import { JobtableError } from '../errors.js'
import { fileOf, JobFile } from '../files.js'
import { encodeJson } from '../json.js'

/** `folder`: where the files of this attempt are. */
export function encodeResult(result: unknown, type: string, folder: string): string | null {
  if (result === undefined) return null
  const plain = result instanceof JobFile ? result.toJSON() : result
  const file = fileOf(plain)
  if (file !== null && !file.key.startsWith(`${folder}/`)) {
    throw new JobtableError(
      'result_invalid',
      `the result of ${type} is the file ${file.key}, which this attempt did not store, and which would go when the job that it belongs to is deleted: store a copy with job.file(name, await file.stream()), or return that job's id`,
      { data: { key: file.key } },
    )
  }
  return encodeJson(plain, `the result of ${type}`, 'result_invalid')
}
