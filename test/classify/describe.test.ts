import { describe, expect, test } from 'vitest'
import { describeError, MAX_MESSAGE_BYTES, MAX_STACK_BYTES } from '../../src/classify/index.js'

const bytes = (text: string | undefined): number => Buffer.byteLength(text ?? '')
const isWellFormed = (text: string): boolean => !/\p{Surrogate}/u.test(text)

describe('describeError', () => {
  test('gives name, message and stack', () => {
    const { name, message, stack } = describeError(new RangeError('real'))
    expect({ name, message }).toEqual({ name: 'RangeError', message: 'real' })
    expect(stack).toMatch(/^RangeError: real\n {4}at .*describe\.test\.ts/)
  })

  test('never serialises the error: only name and message of a circular one are stored', () => {
    const error: Error & { self?: unknown } = Object.assign(new Error('real'), {
      amount: 10n,
      run() {},
      body: Buffer.alloc(5_000_000),
      toJSON() {
        throw new Error('toJSON was called')
      },
    })
    error.self = error
    error.cause = error
    const description = describeError(error)
    expect(description).toMatchObject({ name: 'Error', message: 'real' })
    expect(Object.keys(description)).toEqual(['name', 'message', 'stack'])
  })

  test('bounds a message of 20,000,000 characters with an emoji at the end, and its stack', () => {
    const error = new Error(`${'x'.repeat(20_000_000)}😀`)
    error.stack = `Error: ${error.message}\n${'    at f (file.js:1:1)\n'.repeat(50_000)}`
    const { message, stack } = describeError(error)
    expect(bytes(message)).toBeLessThanOrEqual(MAX_MESSAGE_BYTES)
    expect(bytes(stack)).toBeLessThanOrEqual(MAX_STACK_BYTES)
    expect(message).toMatch(/^x{8000,} … \[cut\]$/)
    expect(stack).toContain('\n    at f (file.js:1:1)\n')
  })

  test.each([0, 1, 2, 3, 4, 5, 6, 7])('cuts between code points, not within one (shifted by %i)', (shift) => {
    const { message } = describeError(new Error('x'.repeat(shift) + '😀'.repeat(10_000)))
    expect(bytes(message)).toBeLessThanOrEqual(MAX_MESSAGE_BYTES)
    expect(isWellFormed(message)).toBe(true)
    expect(message).toMatch(/^x*(?:😀)+ … \[cut\]$/u)
  })

  test('text is well-formed and has no U+0000', () => {
    const { message, stack } = describeError(
      Object.assign(new Error('a\0b\ud83dc\udc00'), { stack: 'Error: a\n    at \ud83d\0' }),
    )
    expect(message).toBe('ab\ufffdc\ufffd')
    expect(stack).toBe('Error: ab\ufffdc\ufffd\n    at \ufffd')
  })

  test('summarises the chain of causes in the message', () => {
    const error = new Error('export failed', { cause: new Error('upload failed', { cause: new Error('disk is full') }) })
    expect(describeError(error).message).toBe('export failed (caused by: upload failed; disk is full)')
  })

  test('does not repeat a cause that the message already quotes', () => {
    expect(describeError(new Error('failed: refused', { cause: new Error('refused') })).message).toBe('failed: refused')
  })

  test('keeps room for the causes of a long message', () => {
    const { message } = describeError(new Error('x'.repeat(1_000_000), { cause: new Error('the reason') }))
    expect(bytes(message)).toBeLessThanOrEqual(MAX_MESSAGE_BYTES)
    expect(message).toMatch(/\(caused by: the reason\)$/)
  })

  test('bounds many long causes', () => {
    const long = 'y'.repeat(100_000)
    const { message } = describeError(
      new AggregateError(
        [1, 2, 3, 4, 5, 6, 7].map((i) => new Error(`${i}${long}`)),
        long,
      ),
    )
    expect(bytes(message)).toBeLessThanOrEqual(MAX_MESSAGE_BYTES)
  })

  test('names the errors of an aggregate that has no message', () => {
    const error = Object.assign(
      new AggregateError([new Error('connect ECONNREFUSED ::1'), new Error('connect ECONNREFUSED 127.0.0.1')]),
      { code: 'ECONNREFUSED' },
    )
    expect(describeError(error)).toMatchObject({
      name: 'AggregateError',
      message: 'ECONNREFUSED (caused by: connect ECONNREFUSED ::1; connect ECONNREFUSED 127.0.0.1)',
    })
  })

  test.each([
    [undefined, 'undefined was thrown'],
    [null, 'null was thrown'],
    ['bad luck', 'bad luck'],
    ['', 'an empty text was thrown'],
    [42, '42 was thrown'],
    [10n, '10 was thrown'],
    [Symbol('s'), 'Symbol(s) was thrown'],
    [{ a: 1, b: 2 }, 'an object was thrown with the fields a, b'],
    [{ message: 'm' }, 'm'],
    [{ code: 'E1' }, 'E1'],
    [new Error(''), 'no message'],
  ])('puts a thrown %o into words', (thrown, message) => {
    expect(describeError(thrown).message).toBe(message)
  })

  test('never throws', () => {
    const trap = (): never => {
      throw new Error('trap')
    }
    const everyTrap = Object.fromEntries(Object.getOwnPropertyNames(Reflect).map((name) => [name, trap]))
    const getters = Object.defineProperties(
      {},
      { message: { get: trap }, name: { get: trap }, stack: { get: trap }, cause: { get: trap } },
    )
    for (const thrown of [new Proxy({}, everyTrap), getters, Object.create(null), Object.freeze(new Error('m'))]) {
      const { name, message } = describeError(thrown)
      expect([typeof name, typeof message]).toEqual(['string', 'string'])
    }
  })

  test('masks secrets in message, causes and stack', () => {
    const secret = 'Bearer abc123 sk_live_x1 postgres://u:pw42@h/db password=hunter2'
    const description = describeError(new Error(secret, { cause: new Error(`again: ${secret}`) }))
    expect(JSON.stringify(description)).not.toMatch(/abc123|sk_live_x1|pw42|hunter2/)
    expect(description.message).toContain('postgres://u:[masked]@h/db')
  })

  test('a cut hides no half of a secret', () => {
    const { message } = describeError(new Error(`${'x '.repeat(4_085)}postgres://user:${'pw42'.repeat(50)}@host`))
    expect(message).not.toContain('pw42')
  })
})
