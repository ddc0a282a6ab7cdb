import { describeSoak } from './suite.js'

describeSoak('postgres', ['restarted', 'crashed', 'stalled', 'cut', 'stranded'])
