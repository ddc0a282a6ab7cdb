import { describeCompiler } from './compiled.js'
import { tool } from './consumer.js'

describeCompiler('7', tool('typescript/bin/tsc'))
