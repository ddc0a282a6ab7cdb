import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it, onTestFinished } from 'vitest'
import { emptyDatabase } from '../support/postgres/database.js'
import { Studio } from '../support/studio.js'
import { describeStudio } from './studio-suite.js'

describeStudio(emptyDatabase)

it('a studio whose database does not exist says so in one line, and ends with 1', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'jobtable-studio-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const JOBTABLE_URL = Object.assign(new URL(await emptyDatabase()), { pathname: '/nowhere' }).href
  await expect(Studio.start({ JOBTABLE_URL }, folder)).rejects.toThrow(
    /^the studio ended with 1:\nThe studio cannot use its database: database "nowhere" does not exist\n$/,
  )
})
