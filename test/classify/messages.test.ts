import { describe, expect, test } from 'vitest'
import { CODES } from '../../src/classify/index.js'
import { userMessage } from '../../src/messages.js'

const general = { en: userMessage('no_such_code', 'en'), zh: userMessage('no_such_code', 'zh') }
const codes = [...Object.keys(CODES), 'worker_lost']

describe('userMessage', () => {
  test.each(codes)('has a text for %s in English and Chinese, free of technical words', (code) => {
    const en = userMessage(code, 'en')
    const zh = userMessage(code, 'zh')
    expect(en).toMatch(/^[A-Z].*\.$/)
    expect(zh).toMatch(/[\u4e00-\u9fff].*。$/)
    expect(`${en} ${zh}`).not.toMatch(
      /HTTP|API|SQL|server|database|token|exception|\b[45]\d\d\b|error|code|数据库|服务器|错误码|异常/i,
    )
    if (code !== 'unknown') expect([en, zh]).not.toContain(general.en)
  })

  test.each(['constructor', '__proto__', 'toString', ''])('gives the general message for the unknown code "%s"', (code) => {
    expect(userMessage(code, 'en')).toBe(general.en)
    expect(userMessage(code, 'zh', {})).toBe(general.zh)
  })

  test("a type's own message goes first", () => {
    expect(userMessage('too_old', 'zh', { too_old: 'too old' })).toBe('too old')
    expect(userMessage('timeout', 'en', { timeout: { en: 'slow' } })).toBe('slow')
  })

  test('a language that the type leaves out has the built-in message', () => {
    expect(userMessage('timeout', 'zh', { timeout: { en: 'slow' } })).toBe(userMessage('timeout', 'zh'))
  })
})
