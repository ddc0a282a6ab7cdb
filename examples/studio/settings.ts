/**
 * What the processes of the product agree on, from the environment. `main.ts` sets it for both of the others; each line can also be
 * set by whoever runs one of them alone.
 */
import { createHmac } from 'node:crypto'
import { resolve } from 'node:path'

const folder = resolve(process.env['STUDIO_FOLDER'] ?? '.studio')

export const settings = {
  /** Everything that the product keeps: the SQLite database, files, the visitors' folders. */
  folder,
  /** The database of the jobs and of the product's own tables. */
  database: process.env['JOBTABLE_URL'] ?? `sqlite:${folder}/studio.db`,
  /** Where the secrets come from: see `secretFor`. */
  secret: process.env['STUDIO_SECRET'] ?? '',
  port: Number(process.env['PORT'] ?? 0),
  /** Of the language model; `OPENAI_BASE_URL` and `OPENAI_API_KEY` are the SDK's own. */
  model: process.env['OPENAI_MODEL'] ?? 'gpt-4o-mini',
  smtp: process.env['SMTP_URL'] ?? '',
  /** The stand-ins of this example, where it runs on them. */
  standIns: process.env['STUDIO_STAND_INS'] ?? '',
  standInsKey: process.env['STUDIO_STAND_INS_KEY'] ?? '',
  /** For which systems there is a stand-in in place of a real one. */
  standsIn: { model: process.env['STUDIO_REAL_MODEL'] !== '1', mail: process.env['STUDIO_REAL_MAIL'] !== '1' },
  /** Milliseconds for which a stage stays at least, so that eyes can follow; a product of your own has no such thing. */
  lingerMs: Number(process.env['STUDIO_LINGER_MS'] ?? 450),
} as const

/** A secret for each purpose, so that what is signed for one is never good for another. */
export function secretFor(purpose: 'sessions' | 'tokens' | 'webhooks', secret = settings.secret): string {
  if (secret.length < 32)
    throw new Error('STUDIO_SECRET must have at least 32 characters, such as the output of: openssl rand -base64 32')
  return createHmac('sha256', secret).update(purpose).digest('base64url')
}
