import { expect, it } from 'vitest'
import { HeartMarks } from '../../src/worker/heart-marks.js'

it.each([0, 1_234.567, 86_400_000.001, Infinity])('a time of %d ms is read by another thread as it was written', (ms) => {
  const marks = new HeartMarks()
  marks.runsUntil = ms
  const elsewhere = new HeartMarks(marks.memory)
  expect(elsewhere).toMatchObject({ heldUntil: 0, seenAt: 0 })
  expect(elsewhere.runsUntil).toBeCloseTo(ms, 3)
})
