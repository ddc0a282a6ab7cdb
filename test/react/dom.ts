/** A document for React, beside Node's own fetch. It must be there before react-dom is loaded. */
import { Window } from 'happy-dom'

export const window = new Window({ url: 'http://product.example/' })

Object.assign(globalThis, {
  window,
  document: window.document,
  IS_REACT_ACT_ENVIRONMENT: true,
  ...(!('navigator' in globalThis) && { navigator: { userAgent: '' } }),
})
