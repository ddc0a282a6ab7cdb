import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalJson, encodeJson, MAX_DEPTH, type JsonValue } from '../../src/json.js'

const encode = (value: unknown) => encodeJson(value, 'the payload of x', 'payload_invalid')
const nested = (depth: number) => {
  let value: unknown = 1
  for (let i = 0; i < depth; i++) value = [value]
  return value
}

describe('what JSON can carry', () => {
  it('is stored as JSON.stringify would, for every JSON value', () => {
    fc.assert(
      fc.property(fc.jsonValue(), (value) => {
        const text = JSON.stringify(value)
        if (text.includes('\\u0000') || !text.isWellFormed() || /\\ud[89ab]/.test(text)) return
        expect(encode(value)).toBe(text)
      }),
    )
  })
  it('keeps text code point by code point', () => {
    const text = '\u{1F468}\u200D\u{1F469}\u200D\u{1F467} \u{1F600} \u2028 \uFEFF e\u0301 \t \u0001'
    expect(JSON.parse(encode({ text }))).toEqual({ text })
  })
  it('turns a Date into its ISO text and leaves out undefined members', () => {
    expect(encode({ at: new Date(0), gone: undefined })).toBe('{"at":"1970-01-01T00:00:00.000Z"}')
  })
  it('keeps an own member named __proto__', () => {
    expect(encode(JSON.parse('{"__proto__":{"a":1}}'))).toBe('{"__proto__":{"a":1}}')
  })
  it('takes the same object twice, if it is no circle', () => {
    const shared = { a: 1 }
    expect(encode([shared, shared])).toBe('[{"a":1},{"a":1}]')
  })
  it(`takes nesting up to ${MAX_DEPTH} levels`, () => {
    expect(JSON.parse(encode(nested(MAX_DEPTH)))).toEqual(nested(MAX_DEPTH))
  })
})

describe('what JSON cannot carry is refused with its path', () => {
  const circle: Record<string, unknown> = {}
  circle['self'] = { back: circle }
  it.each<[string, unknown, string]>([
    ['a function', { a: [1, () => 2] }, '$.a[1] is a function'],
    ['undefined in an array', { a: [undefined] }, '$.a[0] is undefined'],
    ['undefined itself', undefined, '$ is undefined'],
    ['a hole', [, 1], '$[0] is undefined'], // eslint-disable-line no-sparse-arrays
    ['NaN', { n: Number.NaN }, '$.n is NaN'],
    ['Infinity', { n: -Infinity }, '$.n is -Infinity'],
    ['a bigint', { 'odd key': 10n }, '$["odd key"] is a bigint'],
    ['a symbol', Symbol('x'), '$ is a symbol'],
    ['a Map', { m: new Map() }, '$.m is a Map'],
    ['a Buffer', { b: Buffer.from('x') }, '$.b is a Buffer'],
    ['an object with toJSON', { u: new URL('http://x') }, '$.u is a URL'],
    ['an invalid Date', { d: new Date('x') }, '$.d is an invalid Date'],
    ['a circle', circle, '$.self.back refers back'],
    ['half of an emoji', { t: 'x\ud83d' }, '$.t holds half of a surrogate pair'],
    ['half of an emoji in a key', { 'x\ud83d': 1 }, 'holds half of a surrogate pair'],
    ['U+0000', { t: 'a\0b' }, '$.t holds the character U+0000'],
    ['nesting of 5,000 levels', nested(5_000), 'is nested more than'],
    ['nesting of 20,000 levels', nested(20_000), 'is nested more than'],
  ])('%s', (_, value, message) => {
    expect(() => encode(value)).toThrow(
      expect.objectContaining({ code: 'payload_invalid', message: expect.stringContaining(message) }),
    )
  })
  it('a getter that throws', () => {
    const value = {
      get a() {
        throw new Error('no')
      },
    }
    expect(() => encode(value)).toThrow(expect.objectContaining({ code: 'payload_invalid' }))
  })
  it('too much, with the limit and the size', () => {
    expect(() => encode('x'.repeat(1_048_575))).toThrow(
      expect.objectContaining({ code: 'payload_too_large', data: { bytes: 1_048_577, limit: 1_048_576 } }),
    )
    expect(() => encode('\u4e2d'.repeat(400_000))).toThrow(expect.objectContaining({ code: 'payload_too_large' }))
    expect(encode('x'.repeat(1_048_574))).toHaveLength(1_048_576)
  })
})

it('canonical JSON does not depend on the order of members', () => {
  expect(canonicalJson({ b: [1, { d: 1, c: 2 }], a: null })).toBe(canonicalJson({ a: null, b: [1, { c: 2, d: 1 }] }))
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const stored = JSON.parse(JSON.stringify(value)) as JsonValue
      expect(JSON.parse(canonicalJson(stored))).toEqual(stored)
    }),
  )
})
