import { emptyDatabase } from '../support/postgres/database.js'
import { describeStudio } from './studio-suite.js'

describeStudio(emptyDatabase)
