/** A document for React, beside Node's own fetch. It must be there before react-dom is loaded. */
import { Window } from 'happy-dom'

export const window = new Window({ url: 'http://product.example/' })

Object.assign(globalThis, {
  window,
  document: window.document,
  ...(!('navigator' in globalThis) && { navigator: { userAgent: '' } }),
})
