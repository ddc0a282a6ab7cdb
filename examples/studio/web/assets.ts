/** The script of the page, bundled when the process starts, and what lies beside it. */
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { Hono } from 'hono'

const folder = fileURLToPath(new URL('../browser/', import.meta.url))

const FILES = { 'studio.css': 'text/css; charset=utf-8', 'icon.svg': 'image/svg+xml', 'icons.svg': 'image/svg+xml' }

export async function assets(): Promise<Hono> {
  const app = new Hono()
  const serve = (name: string, type: string, content: Uint8Array): void => {
    const body = new Uint8Array(content)
    app.get(`/${name}`, (context) => context.body(body, 200, { 'content-type': type, 'cache-control': 'no-cache' }))
  }
  serve('studio.js', 'text/javascript; charset=utf-8', await bundle())
  for (const [name, type] of Object.entries(FILES)) serve(name, type, await readFile(folder + name))
  return app
}

async function bundle(): Promise<Uint8Array> {
  const { outputFiles } = await build({
    entryPoints: [`${folder}studio.ts`],
    bundle: true,
    format: 'esm',
    target: 'es2022',
    minify: true,
    write: false,
  })
  return outputFiles[0]!.contents
}
