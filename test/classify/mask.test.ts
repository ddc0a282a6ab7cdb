import { describe, expect, test } from 'vitest'
import { maskPayload, maskSecrets } from '../../src/mask.js'

describe('maskSecrets', () => {
  test.each([
    ['Authorization: Bearer abc123', 'Authorization: [masked] [masked]'],
    ['sent Bearer abc123.def-456, refused', 'sent Bearer [masked], refused'],
    ['Basic dXNlcjpwYXNzd29yZA==', 'Basic [masked]'],
    ['key sk_live_x1 is wrong', 'key [masked] is wrong'],
    ['Incorrect API key provided: sk-proj-abc***wxyz.', 'Incorrect API key provided: [masked].'],
    ['sk-ant-api03-AAAA_bbbb-cc', '[masked]'],
    ['rk_test_1 and whsec_abc', '[masked] and [masked]'],
    ['AKIAIOSFODNN7EXAMPLE', '[masked]'],
    ['ghp_0123456789abcdefghij', '[masked]'],
    ['xoxb-1234567890-abcdef', '[masked]'],
    ['AIzaSyA0123456789abcdefghijk', '[masked]'],
    ['eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxIn0.c2lnbmF0dXJl', '[masked]'],
    ['postgres://u:pw42@h:5432/db', 'postgres://u:[masked]@h:5432/db'],
    ['redis://:pw42@h', 'redis://:[masked]@h'],
    ['https://u:p@ss@host/a', 'https://u:[masked]@host/a'],
    ['password=hunter2&user=u', 'password=[masked]&user=u'],
    ['{"apiKey":"abc","id":1}', '{"apiKey":[masked],"id":1}'],
    ["{ client_secret: 'a b', id: 1 }", '{ client_secret: [masked], id: 1 }'],
    ['DB_PASSWORD: hunter2', 'DB_PASSWORD: [masked]'],
    ['/callback?access_token=abc&state=1', '/callback?access_token=[masked]&state=1'],
    ['Cookie: a=1; b=2\nhost: h', 'Cookie: [masked]\nhost: h'],
    ['set-cookie: sid=1; HttpOnly', 'set-cookie: [masked]'],
    ['-----BEGIN PRIVATE KEY-----\nabc\n-----END PRIVATE KEY-----', '[masked]'],
  ])('%s', (text, masked) => {
    expect(maskSecrets(text)).toBe(masked)
  })

  test.each([
    'connect ECONNREFUSED 127.0.0.1:5432',
    'Unexpected token \'<\', "<html>" is not valid JSON',
    'password authentication failed for user "u"',
    'http://localhost:3000/a/b?c=d',
    'user@example.test: mailbox full',
    'max_tokens: 4096 is too large',
    'a risk-averse task',
  ])('leaves alone: %s', (text) => {
    expect(maskSecrets(text)).toBe(text)
  })

  test.each([
    ['one long word', 'a'.repeat(2_000_000)],
    ['dots', 'a.'.repeat(1_000_000)],
    ['colons', 'a:'.repeat(1_000_000)],
    ['the beginning of many addresses', 'http://a:'.repeat(200_000)],
    ['the beginning of many keys', '-----BEGIN PRIVATE KEY-----'.repeat(50_000)],
    ['many names of secrets', 'password'.repeat(100_000)],
    ['the beginning of many tokens', 'eyJaaaaaa.'.repeat(100_000)],
  ])(
    'takes a time that grows with the text: %s',
    (_, text) => {
      expect(maskSecrets(text).length).toBeGreaterThan(0)
    },
    10_000,
  )
})

describe('maskPayload', () => {
  test('masks by the name of the key, at any depth and in any case of letters', () => {
    const payload = {
      user: 'u',
      Password: 'a',
      API_KEY: 'b',
      nested: [
        { clientSecret: { a: 1 }, 'x-api-key': 'c', Authorization: 'd', Cookie: 'e', accessToken: 'f', refresh_token: 'g' },
      ],
      cvc: 123,
    }
    expect(maskPayload(payload)).toEqual({
      user: 'u',
      Password: '[masked]',
      API_KEY: '[masked]',
      nested: [
        {
          clientSecret: '[masked]',
          'x-api-key': '[masked]',
          Authorization: '[masked]',
          Cookie: '[masked]',
          accessToken: '[masked]',
          refresh_token: '[masked]',
        },
      ],
      cvc: '[masked]',
    })
  })

  test('shows what only looks like a secret', () => {
    const payload = {
      maxTokens: 4_096,
      tokens: 12,
      tokenCount: 3,
      author: 'a',
      keyboard: 'k',
      password: null,
      secret: '',
      pinned: true,
    }
    expect(maskPayload(payload)).toEqual(payload)
  })

  test('masks secrets within texts', () => {
    expect(maskPayload({ url: 'postgres://u:pw42@h' })).toEqual({ url: 'postgres://u:[masked]@h' })
  })

  test('leaves the payload itself alone', () => {
    const payload = { password: 'a' }
    maskPayload(payload)
    expect(payload).toEqual({ password: 'a' })
  })

  test('keeps a key named __proto__ as a key', () => {
    const masked = maskPayload(JSON.parse('{"__proto__":{"password":"a"}}')) as object
    expect(JSON.stringify(masked)).toBe('{"__proto__":{"password":"[masked]"}}')
  })

  test('survives whatever is in it', () => {
    const circular: Record<string, unknown> = { date: new Date(0), big: 10n }
    circular['self'] = circular
    expect(maskPayload(circular)).toEqual({ date: new Date(0), big: 10n, self: '[circular]' })
    const getter = Object.defineProperty({}, 'a', {
      enumerable: true,
      get: () => {
        throw new Error('trap')
      },
    })
    expect(maskPayload({ getter })).toEqual({ getter: '[unreadable]' })
    const deep: unknown = JSON.parse(`${'['.repeat(5_000)}${']'.repeat(5_000)}`)
    expect(JSON.stringify(maskPayload(deep))).toContain('[too deep]')
  })

  test.each([undefined, null, 1, true, 'text'])('shows %s as it is', (value) => {
    expect(maskPayload(value)).toBe(value)
  })
})
