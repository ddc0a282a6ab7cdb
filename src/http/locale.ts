/** Which language the one who asks wants to read. */
import { LOCALES, type Locale } from '../messages.js'

/** What `?locale=` says, else the best of `Accept-Language`, else the fallback. */
export function localeOf(request: Request, url: URL, fallback: Locale): Locale {
  const asked = url.searchParams.get('locale')
  return (asked === null ? undefined : known(asked)) ?? accepted(request.headers.get('accept-language')) ?? fallback
}

function accepted(header: string | null): Locale | undefined {
  let best: { locale: Locale; weight: number } | undefined
  for (const part of header?.split(',') ?? []) {
    const [language = '', ...parameters] = part.split(';')
    const locale = known(language)
    const weight = weightOf(parameters)
    if (locale && weight > (best?.weight ?? 0)) best = { locale, weight }
  }
  return best?.locale
}

function weightOf(parameters: readonly string[]): number {
  const weight = parameters.map((parameter) => /^\s*q=([\d.]+)\s*$/i.exec(parameter)?.[1]).find((found) => found !== undefined)
  return weight === undefined ? 1 : Number(weight)
}

/** `zh-CN`, `zh-Hant-TW` and `zh` are `zh`. */
function known(language: string): Locale | undefined {
  const primary = language.trim().toLowerCase().split(/[-_]/)[0]
  return LOCALES.find((locale) => locale === primary)
}
