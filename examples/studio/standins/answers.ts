/** What the model that stands in has to say about a document: sentences of the document itself. */

const FILLERS = /\b(?:very|really|just|quite|actually|simply|basically|of course,?) |(?:非常|其实|真的|十分)/g

export function answerTo(messages: readonly { role: string; content: string }[]): string {
  const task = messages[0]!.content
  const document = messages.at(-1)!.content
  if (/改写|Rewrite/.test(task)) return rewritten(document)
  return summary(document, /[\u4e00-\u9fff]/.test(task))
}

function summary(document: string, chinese: boolean): string {
  const firsts = paragraphs(document).map((paragraph) => sentences(paragraph)[0]!)
  if (firsts.length === 0) return chinese ? '这篇文档还没有内容。' : 'The document has no text yet.'
  return (chinese ? '概括地说：' : 'In short: ') + firsts.join(chinese ? '' : ' ')
}

function rewritten(document: string): string {
  return paragraphs(document)
    .map((paragraph) => sentences(paragraph).slice(0, 2).join(' ').replaceAll(FILLERS, ''))
    .join('\n\n')
}

/** Without headings, lists, quotes, code and tables. */
function paragraphs(document: string): string[] {
  return document
    .replaceAll(/^```[\s\S]*?^```$/gm, '')
    .split(/\n\s*\n/)
    .map((block) => block.replaceAll(/\s+/g, ' ').trim())
    .filter((block) => block !== '' && !/^[#|>*-]/.test(block))
}

function sentences(paragraph: string): string[] {
  const found = [...new Intl.Segmenter('zh', { granularity: 'sentence' }).segment(paragraph)].map(({ segment }) => segment.trim())
  return found.filter(Boolean)
}
