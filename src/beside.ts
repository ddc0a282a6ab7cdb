/** Files of jobtable that a thread or process of their own starts from. */
import { existsSync } from 'node:fs'
import { extname } from 'node:path'
import { fileURLToPath } from 'node:url'

/**
 * The file of this name, without its extension, beside the module whose `import.meta.url` is given, as it was built; undefined where it
 * is not: inside a bundle, which as CommonJS has not even the URL.
 */
export function fileBeside(url: string | undefined, name: string): string | undefined {
  if (url === undefined) return undefined
  const file = fileURLToPath(new URL(name + extname(new URL(url).pathname), url))
  return existsSync(file) ? file : undefined
}
