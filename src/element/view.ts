/** The element's document. Whatever comes from outside is set as text. */
import type { Face } from './face.js'
import { STYLES } from './styles.js'
import type { Words } from './words.js'

export interface View {
  show(
    face: Face,
    words: Words,
    options: { language: string; name: string | null; buttons: ReadonlySet<string>; isOffline: boolean },
  ): void
}

/** `act` is called when a button is pressed. */
export function createView(root: ShadowRoot, act: (button: 'cancel' | 'download') => void): View {
  const label = part('span', 'label')
  const value = part('span', 'value')
  const bar = part('div', 'bar')
  const track = part('div', 'track', bar)
  const detail = part('p', 'detail')
  const offline = part('p', 'offline')
  const [cancel, download] = [button('cancel', act), button('download', act)]
  const actions = part('div', 'actions', cancel, download)
  const spoken = part('div', 'spoken')
  const box = part('div', 'box', part('div', 'head', label, value), track, detail, offline, actions, spoken)
  put(offline, { role: 'status' })
  put(track, { role: 'progressbar', 'aria-valuemin': '0', 'aria-valuemax': '100' })
  put(spoken, { role: 'status', 'aria-live': 'polite' })
  style(root)
  root.append(box)

  return {
    show(face, words, { language, name, buttons, isOffline }) {
      const percent = face.progress === null ? null : Math.floor(face.progress * 100)
      const isMoving = percent === null && face.state === 'running'
      box.lang = language
      box.dataset['state'] = face.state
      box.toggleAttribute('data-moves', isMoving)
      set(label, face.label)
      set(value, percent === null ? '' : `${percent}%`)
      bar.style.inlineSize = isMoving ? '' : `${percent ?? 0}%`
      set(detail, face.detail)
      put(track, {
        'aria-label': name ?? words.progress,
        // Without a number it is a progress of which nobody knows how far it has come.
        'aria-valuenow': percent === null ? null : String(percent),
        'aria-valuetext': percent === null ? face.label : `${face.label}, ${percent}%`,
      })
      set(cancel, words.cancel)
      set(download, face.file === null ? '' : words.download(face.file))
      cancel.hidden = !face.cancelable || !buttons.has('cancel')
      download.hidden = face.file === null || !buttons.has('download')
      detail.hidden = face.detail === ''
      actions.hidden = cancel.hidden && download.hidden
      box.toggleAttribute('data-offline', isOffline)
      offline.hidden = !isOffline
      set(offline, isOffline ? words.offline : '')
      set(spoken, face.spoken)
    },
  }
}

/** What has not changed is left alone, so that it is not read out again. */
function set(element: HTMLElement, text: string): void {
  if (element.textContent !== text) element.textContent = text
}

function put(element: HTMLElement, attributes: Record<string, string | null>): void {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null) element.removeAttribute(name)
    else if (element.getAttribute(name) !== value) element.setAttribute(name, value)
  }
}

function part<Name extends keyof HTMLElementTagNameMap>(tag: Name, name: string, ...inside: Node[]): HTMLElementTagNameMap[Name] {
  const element = document.createElement(tag)
  element.setAttribute('part', name)
  element.append(...inside)
  return element
}

function button(name: 'cancel' | 'download', act: (button: 'cancel' | 'download') => void): HTMLButtonElement {
  const element = part('button', name)
  element.type = 'button'
  element.addEventListener('click', () => act(name))
  return element
}

/** A sheet needs no permission of the page's Content-Security-Policy, as an element would. */
function style(root: ShadowRoot): void {
  const sheet = new CSSStyleSheet()
  sheet.replaceSync(STYLES)
  root.adoptedStyleSheets = [sheet]
}
