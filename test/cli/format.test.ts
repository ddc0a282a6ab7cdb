import stringWidth from 'string-width'
import { describe, expect, test } from 'vitest'
import { clean, cut, iso, moment, relative, span, table } from '../../src/cli/format.js'

const plain = { color: false }

describe('a table', () => {
  test('lines its columns up by what a terminal shows, Chinese text and emoji included', () => {
    const text = table(
      [{ title: 'TYPE' }, { title: 'N', align: 'right' }],
      [
        ['导出报告', '1'],
        ['mail', '20'],
        ['👩‍👩‍👧', '3'],
      ],
      plain,
    )
    const lines = text.trimEnd().split('\n')
    expect(lines).toEqual(['TYPE       N', '导出报告   1', 'mail      20', '👩‍👩‍👧         3'])
    expect(new Set(lines.map((line) => stringWidth(line)))).toEqual(new Set([12]))
  })

  test('is cut to the width of the terminal in its flexible columns only', () => {
    const row = ['01890a5d-ac96-774b-bcce-b302099a8057', '很长的错误信息'.repeat(20)]
    const text = table([{ title: 'ID' }, { title: 'NOTE', flexible: true }], [row], { width: 60, color: false })
    for (const line of text.trimEnd().split('\n')) expect(stringWidth(line)).toBeLessThanOrEqual(60)
    expect(text).toContain(row[0])
    expect(text).toContain('…')
  })

  test('is not cut where there is no terminal', () => {
    const note = 'x'.repeat(5_000)
    expect(table([{ title: 'NOTE', flexible: true }], [[note]], plain)).toContain(note)
  })

  test('colours a cell without moving the columns after it', () => {
    const text = table([{ title: 'S' }, { title: 'N' }], [[{ text: 'failed', format: 'red' }, '1']], { color: true })
    expect(text).toContain('\u001b[31mfailed\u001b[39m  1')
  })
})

test('text from the database cannot steer the terminal', () => {
  expect(clean('a\u001b[2Jb\r\n\tc\u202ed\0')).toBe('a\uFFFD[2Jb c\uFFFDd\uFFFD')
  expect(table([{ title: 'T' }], [['\u001b]0;x\u0007']], plain)).not.toContain('\u001b')
})

test('a text is cut between characters as people see them', () => {
  expect(cut('中文字', 5)).toBe('中文…')
  expect(cut('👩‍👩‍👧👩‍👩‍👧', 3)).toBe('👩‍👩‍👧…')
  expect(cut('fits', 4)).toBe('fits')
})

test('times are told in their biggest unit, on both sides of now and in the year 9999', () => {
  const now = Date.parse('2026-01-01T00:00:00Z')
  expect(relative(now - 185_000, now)).toBe('3m ago')
  expect(relative(now + 7_200_000, now)).toBe('in 2h')
  expect(relative(now + 10, now)).toBe('now')
  expect(relative(Date.parse('9999-12-31T23:59:59Z'), now)).toBe('in 7973y')
  expect(span(86_400_000 * 3)).toBe('3d')
  expect(moment(now)).toBe('2026-01-01 00:00:00.000Z')
})

test('a number that is no time is told as none', () => {
  expect(iso(8.64e15 + 1)).toBeNull()
  expect(iso(Number.NaN)).toBeNull()
  expect(moment(null)).toBe('(no time)')
})
