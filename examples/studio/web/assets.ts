/** The script of the page, bundled when the process starts, and what lies beside it. */
import { readFile } from 'node:fs/promises'
import { fileURLToPath } from 'node:url'
import { build } from 'esbuild'
import { Hono } from 'hono'

const folder = fileURLToPath(new URL('../browser/', import.meta.url))

export async function assets(): Promise<Hono> {
  const [script, style, icon] = await Promise.all([bundle(), readFile(`${folder}studio.css`), readFile(`${folder}icon.svg`)])
  const app = new Hono()
  const serve = (name: string, type: string, content: Uint8Array<ArrayBuffer>): void => {
    app.get(`/${name}`, (context) => context.body(content, 200, { 'content-type': type, 'cache-control': 'no-cache' }))
  }
  serve('studio.js', 'text/javascript; charset=utf-8', script)
  serve('studio.css', 'text/css; charset=utf-8', new Uint8Array(style))
  serve('icon.svg', 'image/svg+xml', new Uint8Array(icon))
  return app
}

async function bundle(): Promise<Uint8Array<ArrayBuffer>> {
  const { outputFiles } = await build({
    entryPoints: [`${folder}studio.ts`],
    bundle: true,
    format: 'esm',
    target: 'es2022',
    minify: true,
    write: false,
  })
  return new Uint8Array(outputFiles[0]!.contents)
}
