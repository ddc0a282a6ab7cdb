import { describe, it } from 'vitest'
import { describeStore } from '../../../src/testing/index.js'
import { onSharedServer } from './support.js'

describeStore('PostgreSQL', { runner: { describe, it }, open: onSharedServer })
