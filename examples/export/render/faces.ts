/**
 * Which font draws which characters. No font has every glyph, so text is cut into runs and each run goes to the first font in its
 * chain that can draw it. Font files are read once for the life of the process and only when a document needs them: a document
 * without Chinese never opens the 10 MB Chinese font.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import * as fontkit from 'fontkit'
import type { Style } from './model.js'

const require = createRequire(import.meta.url)

/** A script these fonts lack is drawn as U+FFFD; its font is one more line here and one more name in `chain`. */
const FILES = {
  sans: () => require.resolve('@expo-google-fonts/noto-sans/400Regular/NotoSans_400Regular.ttf'),
  sansBold: () => require.resolve('@expo-google-fonts/noto-sans/700Bold/NotoSans_700Bold.ttf'),
  sansItalic: () => require.resolve('@expo-google-fonts/noto-sans/400Regular_Italic/NotoSans_400Regular_Italic.ttf'),
  sansBoldItalic: () => require.resolve('@expo-google-fonts/noto-sans/700Bold_Italic/NotoSans_700Bold_Italic.ttf'),
  mono: () => require.resolve('@expo-google-fonts/noto-sans-mono/400Regular/NotoSansMono_400Regular.ttf'),
  monoBold: () => require.resolve('@expo-google-fonts/noto-sans-mono/700Bold/NotoSansMono_700Bold.ttf'),
  chinese: () => require.resolve('@expo-google-fonts/noto-sans-sc/400Regular/NotoSansSC_400Regular.ttf'),
  chineseBold: () => require.resolve('@expo-google-fonts/noto-sans-sc/700Bold/NotoSansSC_700Bold.ttf'),
  hebrew: () => require.resolve('@expo-google-fonts/noto-sans-hebrew/400Regular/NotoSansHebrew_400Regular.ttf'),
  hebrewBold: () => require.resolve('@expo-google-fonts/noto-sans-hebrew/700Bold/NotoSansHebrew_700Bold.ttf'),
  arabic: () => require.resolve('@expo-google-fonts/noto-sans-arabic/400Regular/NotoSansArabic_400Regular.ttf'),
  arabicBold: () => require.resolve('@expo-google-fonts/noto-sans-arabic/700Bold/NotoSansArabic_700Bold.ttf'),
  symbols: () => require.resolve('@expo-google-fonts/noto-sans-symbols-2/400Regular/NotoSansSymbols2_400Regular.ttf'),
  math: () => require.resolve('@expo-google-fonts/noto-sans-math/400Regular/NotoSansMath_400Regular.ttf'),
  emoji: () => require.resolve('@expo-google-fonts/noto-emoji/400Regular/NotoEmoji_400Regular.ttf'),
} as const

export type FaceName = keyof typeof FILES

interface Face {
  readonly font: fontkit.Font
  has(codePoint: number): boolean
}

const loaded = new Map<FaceName, Face>()

export function face(name: FaceName): Face {
  let found = loaded.get(name)
  if (!found) {
    const file = FILES[name]()
    const font = fontkit.create(readFileSync(file))
    if (!('hasGlyphForCodePoint' in font)) throw new Error(`${file} is a font collection, expected one font`)
    found = { font, has: (codePoint) => font.hasGlyphForCodePoint(codePoint) }
    loaded.set(name, found)
  }
  return found
}

/** A stretch of text one font can draw, as it is to be drawn. */
export interface FaceRun {
  readonly start: number
  readonly end: number
  readonly face: FaceName
  /** Set when what is drawn differs from the source text. */
  readonly shown?: string
}

const SIMPLE = /^[\n\x20-\x7e\u00a1-\u00ac\u00ae-\u017f]*$/
/** Shared by Latin and Chinese typography; drawn full width beside ideographs. */
const SHARED_PUNCTUATION = /^[\u2014\u2018\u2019\u201c\u201d\u2026\u00b7]$/
const IDEOGRAPHIC = /^[\u2e80-\u30ff\u3400-\u9fff\uf900-\ufaff\uff00-\uff60\u{20000}-\u{323af}]/u
const EMOJI = /\p{Emoji_Presentation}|\ufe0f/u
/** Characters that steer layout and have nothing to show. */
const INVISIBLE = /\p{Default_Ignorable_Code_Point}/gu
const REPLACEMENT = '\uFFFD'
const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' })

export function faceRuns(text: string, style: Style): FaceRun[] {
  const base = baseFace(style)
  if (SIMPLE.test(text)) return text ? [{ start: 0, end: text.length, face: base }] : []
  const runs: FaceRun[] = []
  let wide = false
  let end = 0
  for (const segment of clusters(text)) {
    const index = end
    end += segment.length
    let run = chooseFace(segment, style)
    if (SHARED_PUNCTUATION.test(segment)) {
      wide = wide || IDEOGRAPHIC.test(text.slice(end, end + 2))
      if (wide) run = { face: style.bold ? 'chineseBold' : 'chinese' }
    } else if (segment !== ' ') {
      wide = IDEOGRAPHIC.test(segment)
    }
    const last = runs.at(-1)
    if (last && last.face === run.face && last.shown === undefined && run.shown === undefined) {
      runs[runs.length - 1] = { start: last.start, end, face: last.face }
    } else {
      runs.push({ start: index, end, ...run })
    }
  }
  return runs
}

/** Stretches in which every character stands alone, and the others, where the segmenter has to tell. */
const ALONE =
  '[\\n\\x20-\\x7e\\u00a1-\\u00ac\\u00ae-\\u02ff\\u2010-\\u2026\\u3001-\\u3029\\u3041-\\u3096\\u30a1-\\u30ff\\u3400-\\u9fff\\uff01-\\uff9d]'
const STRETCH = new RegExp(`(?:${ALONE}(?![\\p{M}\\u200d\\uff9e\\uff9f]))+|[^]{1,256}?(?=${ALONE}|$)|[^]{1,256}`, 'gu')
const ALL_ALONE = new RegExp(`^${ALONE}*$`)

/** What a reader takes for one character. The segmenter slows down on long strings, so it only sees short ones. */
export function* clusters(text: string): Generator<string> {
  for (const [stretch] of text.matchAll(STRETCH)) {
    if (ALL_ALONE.test(stretch)) yield* stretch
    else for (const { segment } of graphemes.segment(stretch)) yield segment
  }
}

interface Choice {
  face: FaceName
  shown?: string
}

const choices = new Map<string, Choice>()

function chooseFace(cluster: string, style: Style): Choice {
  const base = baseFace(style)
  const key = base + cluster
  let choice = choices.get(key)
  if (!choice) {
    if (choices.size > 50_000) choices.clear()
    choice = findFace(cluster, chain(base, style.bold))
    choices.set(key, choice)
  }
  return choice
}

function findFace(cluster: string, faces: readonly FaceName[]): Choice {
  const first = cluster.codePointAt(0) ?? 0
  if (EMOJI.test(cluster) && face('emoji').has(first)) return { face: 'emoji', shown: cluster.replace(/[\ufe0e\ufe0f]/g, '') }
  const visible = cluster.replace(INVISIBLE, '')
  const changed = visible !== cluster
  if (visible === '' || /^\s$/.test(cluster)) return { face: faces[0] ?? 'sans', ...(changed && { shown: visible }) }
  const points = Array.from(visible, (character) => character.codePointAt(0) ?? 0)
  const whole = faces.find((name) => points.every((point) => face(name).has(point)))
  if (whole) return { face: whole, ...(changed && { shown: visible }) }
  // A letter with a mark its font lacks is still worth showing without the mark.
  const partly = faces.find((name) => face(name).has(first))
  if (partly) return { face: partly, shown: String.fromCodePoint(...points.filter((point) => face(partly).has(point))) }
  return { face: 'sans', shown: REPLACEMENT }
}

function baseFace(style: Style): FaceName {
  if (style.code) return style.bold ? 'monoBold' : 'mono'
  if (style.bold) return style.italic ? 'sansBoldItalic' : 'sansBold'
  return style.italic ? 'sansItalic' : 'sans'
}

function chain(base: FaceName, bold: boolean): FaceName[] {
  const scripts: FaceName[] = bold ? ['hebrewBold', 'arabicBold', 'chineseBold'] : ['hebrew', 'arabic', 'chinese']
  return [base, 'sans', ...scripts, 'symbols', 'math', 'emoji']
}

/** Fonts without an italic of their own are slanted when the style asks for it. */
export function isSlanted(name: FaceName, style: Style): boolean {
  return style.italic && !name.startsWith('sans') && name !== 'emoji' && name !== 'symbols'
}
