import { describeStudio } from './studio-suite.js'

describeStudio(async () => undefined)
