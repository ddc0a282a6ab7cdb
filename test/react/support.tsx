import type { HTMLElement } from 'happy-dom'
import type { ReactNode } from 'react'
import { onTestFinished } from 'vitest'
import { window } from './dom.js'

const { flushSync } = await import('react-dom')
const { createRoot } = await import('react-dom/client')

/** A page that shows this, until the test is over. */
export function page(content: ReactNode) {
  const element = window.document.createElement('main')
  const root = createRoot(element)
  const show = (next: ReactNode) => flushSync(() => root.render(next))
  onTestFinished(() => flushSync(() => root.unmount()))
  show(content)
  return {
    show,
    text: () => element.textContent,
    html: () => element.innerHTML,
    element,
    /** Resolves once the page shows this. */
    async shows(text: string): Promise<void> {
      while (!element.textContent.includes(text)) await changed(element)
    },
  }
}

function changed(element: HTMLElement): Promise<void> {
  return new Promise((resolve) => {
    const observer = new window.MutationObserver(() => {
      observer.disconnect()
      resolve()
    })
    observer.observe(element, { childList: true, characterData: true, subtree: true })
  })
}
