/** The visitors' documents, and the folder that each visitor has. */
import { cp, mkdir, readFile, writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { z } from 'zod'
import { database } from './database.js'
import { settings } from './settings.js'
import type { Language } from './words.js'

export interface Document {
  version: number
  title: string
  text: string
}

export const draft = z.object({ title: z.string().trim().min(1).max(120), text: z.string().max(200_000) })
export type Draft = z.output<typeof draft>

/** There is no such version of this visitor's document. */
export class UnknownVersion extends Error {
  override readonly name = 'UnknownVersion'
}

const seeds = fileURLToPath(new URL('./seed', import.meta.url))

/** The newest version; a visitor who comes for the first time gets a document and a folder to begin with. */
export async function currentDocument(visitor: string, language: Language): Promise<Document> {
  const known = await newest(visitor)
  if (known) return known
  await cp(join(seeds, 'folder'), folderOf(visitor), { recursive: true })
  await saveDocument(visitor, 0, await seed(language))
  return (await newest(visitor))!
}

/** The first line names it. */
async function seed(language: Language): Promise<Draft> {
  const text = await readFile(join(seeds, `document.${language}.md`), 'utf8')
  return { title: /^# (.+)$/m.exec(text)![1]!, text }
}

/** Stores the version after `base`, and answers whether it did: not where another tab has saved one since. The visitor's folder has it as a file. */
export async function saveDocument(visitor: string, base: number, { title, text }: Draft): Promise<boolean> {
  const { numInsertedOrUpdatedRows } = await database
    .insertInto('documents')
    .values({ visitor, version: base + 1, title, text })
    .onConflict((conflict) => conflict.doNothing())
    .executeTakeFirst()
  if (numInsertedOrUpdatedRows !== 1n) return false
  await mkdir(folderOf(visitor), { recursive: true })
  await writeFile(join(folderOf(visitor), fileName(title, 'md')), text)
  return true
}

function newest(visitor: string): Promise<Document | undefined> {
  return database
    .selectFrom('documents')
    .select(['version', 'title', 'text'])
    .where('visitor', '=', visitor)
    .orderBy('version', 'desc')
    .limit(1)
    .executeTakeFirst()
}

/** Rejects with `UnknownVersion`. */
export function documentAt(visitor: string, version: number): Promise<Document> {
  return database
    .selectFrom('documents')
    .select(['version', 'title', 'text'])
    .where('visitor', '=', visitor)
    .where('version', '=', version)
    .executeTakeFirstOrThrow(() => new UnknownVersion(`the document has no version ${version}`))
}

export function folderOf(visitor: string): string {
  return join(settings.folder, 'folders', visitor)
}

/** A title as the name of a file, on any system. */
export function fileName(title: string, extension: string): string {
  const plain = title
    .replaceAll(/[/\\:\0-\x1f]/g, ' ')
    .trim()
    .slice(0, 80)
    .replace(/^\.+/, '')
  return `${plain.toWellFormed() || 'document'}.${extension}`
}
