import type { Handler } from 'jobtable'
import { shout } from './shout.js'

const upper: Handler<{ text: string }, string> = async ({ payload, stage }) => {
  await stage('shouting')
  return shout(payload.text)
}
export default upper
