import { describe, expect, test } from 'vitest'
import { createConsumer, hasNodeSqlite } from './consumer.js'

describe.each(['module', 'commonjs'] as const)('in a package of type %s', (type) => {
  test('an ES module imports the package and runs a job', () => {
    const consumer = createConsumer({ type, files: { 'hello.mjs': 'hello.mjs' } })
    expect(consumer.node('hello.mjs')).toBe('hi Ada\n')
  })

  test('a CommonJS module requires the package and runs a job', () => {
    const consumer = createConsumer({ type, files: { 'hello.cjs': 'hello.cjs' } })
    expect(consumer.node('hello.cjs')).toBe('hi Ada\n')
  })
})

test('a .js file is read as its package says and runs a job', () => {
  const module = createConsumer({ type: 'module', files: { 'hello.mjs': 'hello.js' } })
  expect(module.node('hello.js')).toBe('hi Ada\n')
  const commonjs = createConsumer({ type: 'commonjs', files: { 'hello.cjs': 'hello.js' } })
  expect(commonjs.node('hello.js')).toBe('hi Ada\n')
})

test('require and import give one and the same class in one process', () => {
  const consumer = createConsumer({ type: 'commonjs', files: {} })
  consumer.write(
    'identity.js',
    `const required = require('jobtable')
     import('jobtable').then((imported) => console.log(required.JobtableError === imported.JobtableError))`,
  )
  expect(consumer.node('identity.js')).toBe('true\n')
})

test('the entry point for end users can be imported and required', () => {
  const consumer = createConsumer({ type: 'commonjs', files: {} })
  consumer.write(
    'http.js',
    `const { signToken } = require('jobtable/http')
     import('jobtable/http').then((imported) => console.log(signToken === imported.signToken))`,
  )
  expect(consumer.node('http.js')).toBe('true\n')
})

test('with the SQLite of Node, no other driver is needed', ({ skip }) => {
  skip(!hasNodeSqlite, 'this Node has no node:sqlite')
  const consumer = createConsumer({ type: 'module', files: { 'hello.mjs': 'hello.mjs' }, driver: false })
  expect(consumer.node('hello.mjs')).toBe('hi Ada\n')
})

test('without any SQLite driver, the error says what to install', ({ skip }) => {
  skip(hasNodeSqlite, 'this Node has node:sqlite')
  const consumer = createConsumer({ type: 'module', files: { 'hello.mjs': 'hello.mjs' }, driver: false })
  const output = consumer.nodeFails('hello.mjs')
  expect(output).toContain('driver_missing')
  expect(output).toContain('better-sqlite3')
})
