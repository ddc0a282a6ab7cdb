/** A document for elements, beside Node's own fetch. */
import { Window } from 'happy-dom'

export const window = new Window({ url: 'http://product.example/' })

const NAMES = [
  'document',
  'customElements',
  'HTMLElement',
  'CSSStyleSheet',
  'CustomEvent',
  'MutationObserver',
  'navigator',
] as const

for (const name of NAMES) {
  Object.defineProperty(globalThis, name, { value: window[name], configurable: true, writable: true })
}
