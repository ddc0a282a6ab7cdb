import { describeSoak } from './suite.js'

describeSoak('sqlite', ['locked', 'writer killed'])
