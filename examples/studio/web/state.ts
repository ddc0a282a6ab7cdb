/** What the page shows beside the jobs themselves, which it follows live. */
import { activityOf, creditsOf, type Activity } from '../activity.js'
import { currentDocument, type Document } from '../documents.js'
import type { Language } from '../words.js'
import { standIns, type TroublesNow } from './stand-ins.js'

export interface State {
  document: Document
  activity: Activity[]
  credits: number
  troubles: TroublesNow
}

export async function stateOf(visitor: string, language: Language): Promise<State> {
  const [document, activity, credits, troubles] = await Promise.all([
    currentDocument(visitor, language),
    activityOf(visitor),
    creditsOf(visitor),
    standIns.troubles(visitor),
  ])
  return { document, activity, credits, troubles }
}
