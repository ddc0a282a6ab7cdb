import { fileOf, type FileDescription } from '../files.js'
import { readJson } from '../json.js'
import type { JobRow } from '../store.js'

/** The file that a succeeded job has to offer. A description that a hand has spoiled is none. */
export function fileOfJob(row: JobRow): FileDescription | null {
  const file: { [Key in keyof FileDescription]: unknown } | null =
    row.status === 'succeeded' ? fileOf(readJson(row.result)) : null
  const texts = [file?.name, file?.contentType, file?.sha256]
  return Number.isSafeInteger(file?.size) && texts.every((text) => typeof text === 'string') ? (file as FileDescription) : null
}
