import { spawnSync } from 'node:child_process'
import { appendFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { temporaryFolder } from '../stores/sqlite/support.js'
import { Deck, Dice } from './dice.js'
import { LedgerReader, LedgerWriter } from './ledger.js'

it('a line of the ledger that a kill has cut off spoils no other, and is counted', () => {
  const { folder, remove } = temporaryFolder()
  onTestFinished(remove)
  const path = join(folder, 'ledger.jsonl')
  const [writer, reader] = [new LedgerWriter(path), new LedgerReader(path)]
  writer.write({ what: 'lease_lost', id: 'a', lease: 'short' })
  appendFileSync(path, '\n{"what":"started","id":"cut off')
  expect(reader.read().map(({ what }) => what)).toEqual(['lease_lost'])
  writer.write({ what: 'settled', id: 'b', status: 'succeeded' }, 7)
  expect(reader.read()).toMatchObject([
    { id: 'a', pid: process.pid },
    { id: 'b', pid: 7 },
  ])
  expect(reader.torn).toBe(1)
})

it('a seed brings the same deck back, with each card as often as it has it', () => {
  const cards = ['a', 'a', 'b', 'c', 'd', 'e', 'f', 'g']
  const dealt = (seed: number): string[] => {
    const deck = new Deck(new Dice(seed), cards)
    return [...cards, ...cards].map(() => deck.deal())
  }
  expect(dealt(1)).toEqual(dealt(1))
  expect(dealt(1)).not.toEqual(dealt(2))
  expect(dealt(1).slice(cards.length).sort()).toEqual(cards)
})

it.each([
  ['no store', ['--kills', '1'], '--store must be sqlite or postgres'],
  ['no end', ['--store', 'sqlite'], 'with kills or minutes or both'],
  ['kills that are no number', ['--store', 'sqlite', '--kills', 'many'], '--kills must be a number above 0, not many'],
])('the command refuses %s, and says what is wrong', (_, args, message) => {
  const { status, stderr } = spawnSync(process.execPath, ['--import', 'tsx', 'test/soak/main.ts', ...args], { encoding: 'utf8' })
  expect(stderr).toContain(message)
  expect(status).toBe(2)
})
