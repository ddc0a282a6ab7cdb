import { join } from 'node:path'
import { describeCompiler } from './compiled.js'

describeCompiler('5.9', join(import.meta.dirname, 'node_modules/typescript/bin/tsc'))
