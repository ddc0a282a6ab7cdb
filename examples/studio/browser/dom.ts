/** The little that the page needs to make elements. Text only ever comes in as text. */

export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  className = '',
  ...children: (Node | string)[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag)
  if (className) element.className = className
  element.append(...children)
  return element
}

/** The element of the page with this id, which the server has put there. */
export function byId<Kind extends HTMLElement>(id: string, kind: new () => Kind): Kind {
  const element = document.getElementById(id)
  if (element instanceof kind) return element
  throw new Error(`the page has no ${kind.name} with the id ${id}`)
}

const SVG = 'http://www.w3.org/2000/svg'

export function icon(name: string): SVGSVGElement {
  const svg = document.createElementNS(SVG, 'svg')
  const use = document.createElementNS(SVG, 'use')
  use.setAttribute('href', `/assets/icons.svg#${name}`)
  svg.setAttribute('class', 'icon')
  svg.setAttribute('aria-hidden', 'true')
  svg.append(use)
  return svg
}
