/**
 * A job's file, as a download. It is never shown in the product's own origin: it comes as an attachment, of the type that it says and no
 * other, and in a sandbox should a browser open it all the same.
 */
import type { Readable } from 'node:stream'
import { JobFile, type FileStore } from '../files.js'
import type { JobRow } from '../store.js'
import { fileOfJob } from './job-file.js'
import { rangeOf, type ByteRange } from './range.js'
import { COMMON_HEADERS, empty, hasTag, refusals } from './respond.js'

export async function download(request: Request, row: JobRow, files: FileStore): Promise<Response> {
  const about = fileOfJob(row)
  if (!about) throw refusals.noFile()
  const file = new JobFile(about, files)
  const etag = `"${file.sha256}"`
  if (hasTag(request.headers.get('if-none-match'), etag)) return empty(304, { etag })

  const asked = rangeOf(request.headers, file.size, etag)
  const headers = { ...headersOf(file), etag }
  if (asked === 'unsatisfiable') {
    return new Response(null, { status: 416, headers: { ...COMMON_HEADERS, 'content-range': `bytes */${file.size}` } })
  }
  const range = asked ?? { start: 0, end: file.size }
  const response = {
    status: asked ? 206 : 200,
    headers: {
      ...headers,
      'content-length': String(range.end - range.start),
      ...(asked && { 'content-range': `bytes ${range.start}-${range.end - 1}/${file.size}` }),
    },
  }
  if (!(await file.exists())) throw refusals.fileGone()
  if (request.method === 'HEAD') return new Response(null, response)
  return new Response(await read(files, file.key, range), response)
}

function headersOf(file: JobFile): Record<string, string> {
  return {
    ...COMMON_HEADERS,
    'accept-ranges': 'bytes',
    'content-disposition': disposition(file.name),
    'content-type': /^[\w.+-]+\/[\w.+-]+(?:; ?[\w.+-]+=[\w.+-]+)*$/.test(file.contentType)
      ? file.contentType
      : 'application/octet-stream',
    'content-security-policy': "default-src 'none'; sandbox",
  }
}

/** RFC 6266: the name in UTF-8, and one in ASCII for what is older than that. */
export function disposition(name: string): string {
  const ascii = name
    .normalize('NFKD')
    .replaceAll(/\p{M}/gu, '')
    .replaceAll(/[^ !#$&+\-.\w^`|~]/g, '_')
  const encoded = encodeURIComponent(name.toWellFormed()).replaceAll(
    /['()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  )
  return `attachment; filename="${ascii}"; filename*=UTF-8''${encoded}`
}

/** An empty file has no range that could be asked for. */
async function read(files: FileStore, key: string, { start, end }: ByteRange): Promise<ReadableStream<Uint8Array>> {
  if (files.readRange && start < end) return part(await files.readRange(key, start, end), { start: 0, end: end - start })
  return part(await files.read(key), { start, end })
}

/** Reads as its reader does, no further than the range, and frees the source when the reader leaves. */
function part(source: Readable, { start, end }: ByteRange): ReadableStream<Uint8Array> {
  const chunks = source[Symbol.asyncIterator]() as AsyncIterator<Uint8Array>
  let at = 0
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        while (at < end) {
          const next = await chunks.next()
          if (next.done) throw new Error(`the file ended after ${at} bytes, of ${end} that were promised`)
          const chunk = next.value.subarray(Math.max(0, start - at), end - at)
          at += next.value.length
          if (chunk.length > 0) {
            controller.enqueue(chunk)
            break
          }
        }
        if (at < end) return
        source.destroy()
        controller.close()
      },
      cancel: () => void source.destroy(),
    },
    { highWaterMark: 0 },
  )
}
