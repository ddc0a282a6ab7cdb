import { describe, expect, it } from 'vitest'
import { encodeKey, fingerprint, judge, prepareRule, type OnDuplicate, type Rule } from '../../src/idempotency.js'
import type { JsonValue } from '../../src/json.js'
import type { JobRow } from '../../src/store.js'
import type { Status } from '../../src/transition.js'

interface Payload {
  id: string
  body?: JsonValue
}

const rule = (options: object = {}): Rule =>
  prepareRule('send', { key: ['id'], onDuplicate: 'return_previous_result', ...options } as never) as Rule
const key = (...parts: unknown[]) =>
  encodeKey(
    'send',
    parts.map((part, i) => [`part ${i + 1}`, part] as const),
  )

const holder = (status: Status, payload: Payload, by: Rule): JobRow =>
  ({
    id: 'held',
    type: 'send',
    status,
    payload: JSON.stringify(payload),
    fingerprint: fingerprint(by, payload as never),
    finishedAt: ['succeeded', 'failed', 'canceled'].includes(status) ? 1_000 : null,
  }) as JobRow

const verdict = (status: Status, by: Rule, old: Payload = { id: 'a' }, next: Payload = { id: 'a' }, now = 2_000) =>
  judge(by, holder(status, old, by), { fingerprint: fingerprint(by, next as never), payload: next as never }, now)

describe('a key', () => {
  it('cannot collide with another, whatever its parts contain', () => {
    const keys = [
      key('a:b', 'c'),
      key('a', 'b:c'),
      key('a|b', 'c'),
      key('a', 'b|c'),
      key('K'),
      key('k'),
      key('M'),
      key('M '),
      key(1),
      key('1'),
      key(true),
    ]
    expect(new Set(keys).size).toBe(keys.length)
  })
  it('is stored as its SHA-256 when it is long', () => {
    expect(key('x'.repeat(600))).toMatch(/^sha256:[0-9a-f]{64}$/)
    expect(key('x'.repeat(600))).not.toBe(key('x'.repeat(601)))
  })
  it.each([undefined, null, '', Number.NaN, {}, []])('with the part %j is refused', (part) => {
    expect(() => key('a', part)).toThrow(expect.objectContaining({ code: 'key_missing', data: { part: 'part 2' } }))
  })
  it('names the payload field that is missing', () => {
    expect(() => rule().keyOf({ body: 1 })).toThrow(/id of the idempotency key is missing/)
  })
  it('may be made by a function', () => {
    const made = rule({ key: (payload: Payload) => [payload.id, 7] })
    expect(made.keyOf({ id: 'a' })).toBe('["a",7]')
    expect(() => rule({ key: () => 'a' }).keyOf({})).toThrow(expect.objectContaining({ code: 'key_missing' }))
    expect(() => rule({ key: () => [] }).keyOf({})).toThrow(expect.objectContaining({ code: 'key_missing' }))
  })
})

describe('a rule', () => {
  it('needs a reason where there is none', () => {
    expect(prepareRule('send', { none: 'every click is meant' })).toBeNull()
    expect(() => prepareRule('send', { none: ' ' })).toThrow(/needs a reason/)
  })
  it('is refused when it is unknown or has no key', () => {
    expect(() => rule({ onDuplicate: 'replace' })).toThrow(/return_existing_file, return_previous_result or ignore_duplicate/)
    expect(() => rule({ key: [] })).toThrow(/list of payload fields/)
  })
})

describe('what a second enqueue gets', () => {
  const table: Record<OnDuplicate, Record<Status, string>> = {
    return_existing_file: {
      pending: 'duplicate',
      running: 'duplicate',
      retrying: 'duplicate',
      succeeded: 'check_file',
      failed: 'replace',
      canceled: 'replace',
    },
    return_previous_result: {
      pending: 'duplicate',
      running: 'duplicate',
      retrying: 'duplicate',
      succeeded: 'duplicate',
      failed: 'replace',
      canceled: 'replace',
    },
    ignore_duplicate: {
      pending: 'duplicate',
      running: 'duplicate',
      retrying: 'duplicate',
      succeeded: 'duplicate',
      failed: 'duplicate',
      canceled: 'replace',
    },
  }
  for (const [onDuplicate, row] of Object.entries(table)) {
    for (const [status, expected] of Object.entries(row)) {
      it(`${onDuplicate}: a ${status} holder means ${expected}`, () => {
        expect(verdict(status as Status, rule({ onDuplicate })).type).toBe(expected)
      })
    }
  }
  it('is a new job once a finished holder is past keepFor, and not before', () => {
    const kept = rule({ keepFor: '1s', onDuplicate: 'ignore_duplicate' })
    expect(verdict('succeeded', kept, undefined, undefined, 1_999).type).toBe('duplicate')
    expect(verdict('succeeded', kept, undefined, undefined, 2_000)).toEqual({ type: 'replace', status: 'succeeded' })
    expect(verdict('running', kept, undefined, undefined, 99_999).type).toBe('duplicate')
  })
})

describe('the same key with another payload', () => {
  const old = { id: 'a', body: { text: 'x', tags: [1] } }
  it('is refused, and the fields that differ are named', () => {
    expect(verdict('running', rule(), old, { id: 'a', body: { text: 'y', tags: [1] } })).toEqual({
      type: 'conflict',
      fields: ['body.text'],
    })
    expect(verdict('succeeded', rule(), old, { id: 'a' })).toEqual({ type: 'conflict', fields: ['body'] })
  })
  it('is the same payload when only the order of members differs', () => {
    expect(verdict('running', rule(), old, { body: { tags: [1], text: 'x' }, id: 'a' }).type).toBe('duplicate')
  })
  it('is a duplicate when only the key, or the fields that matter, are compared', () => {
    expect(verdict('running', rule({ compare: 'key' }), old, { id: 'a', body: 1 }).type).toBe('duplicate')
    expect(verdict('running', rule({ compare: ['id'] }), old, { id: 'a', body: 1 }).type).toBe('duplicate')
    expect(verdict('running', rule({ compare: ['body'] }), old, { id: 'a', body: 1 })).toEqual({
      type: 'conflict',
      fields: ['body'],
    })
  })
  it('starts a new job where the holder has failed, for then nothing was made that could differ', () => {
    expect(verdict('failed', rule(), old, { id: 'a', body: 1 }).type).toBe('replace')
  })
  it('is judged by the payload where the row has no fingerprint or one of another rule', () => {
    const by = rule()
    const row = { ...holder('running', old, by), fingerprint: null }
    expect(judge(by, row, { fingerprint: fingerprint(by, old), payload: old }, 0).type).toBe('duplicate')
  })
})
