/** Every word of the page, in both languages; the web process and the browser share it. */
export const LANGUAGES = ['en', 'zh'] as const
export type Language = (typeof LANGUAGES)[number]

const en = {
  product: 'Studio',
  tagline: 'Write it. The rest happens in the background.',
  otherLanguage: '中文',
  inbox: 'Inbox',
  back: 'Back to the document',
  credits: 'Credits',
  buyCredits: 'Buy 100',
  document: 'Document',
  title: 'Title',
  text: 'Text, in Markdown',
  save: 'Save',
  saved: 'Saved as version {version}',
  unsaved: 'Not saved yet',
  changedElsewhere: 'This was changed in another tab. Copy what you need, then reload the page.',
  refused: 'This did not work. Please check what you entered.',
  offline: 'The product does not answer at the moment.',
  summarise: 'Summarise',
  rewrite: 'Rewrite',
  exportPdf: 'Export PDF',
  syncFolder: 'Sync folder',
  recipient: 'Send it to',
  send: 'Send',
  activity: 'Activity',
  nothing: 'Nothing yet. Export the document, or let a model summarise it.',
  assist_summarise: 'Summary',
  assist_rewrite: 'Rewrite',
  export_pdf: 'PDF export',
  send_mail: 'E-mail',
  sync_folder: 'Folder sync',
  add_credits: 'Payment',
  version: 'version {about}',
  paid: '{about} credits',
  duplicate: 'Asked for before: here it is, and nothing was done twice.',
  asked: 'asked for {asked} times, done once',
  delivered: 'reported {asked} times, booked once',
  synced: '{copied} copied, {unchanged} unchanged',
  troubles: 'Troubles',
  troublesHint: 'What can go wrong, goes wrong here on demand. Choose one, then ask the model for something.',
  none: 'None',
  rate_limit: 'Rate limit',
  quota: 'Quota used up',
  overloaded: 'Overloaded',
  cut: 'Answer breaks off',
  once: 'The next request to the model meets it.',
  killWorker: 'Kill the worker',
  workerPid: 'Worker: process {worker}',
  workerAway: 'The worker is being started again',
  noMails: 'No mail yet.',
  to: 'To {to}',
  realMail: 'Mails went to the real mail server.',
}

export type Word = keyof typeof en

const zh: Record<Word, string> = {
  product: '文稿坊',
  tagline: '专心写作，其余的事在后台完成。',
  otherLanguage: 'English',
  inbox: '收件箱',
  back: '返回文档',
  credits: '点数',
  buyCredits: '购买 100 点',
  document: '文档',
  title: '标题',
  text: '正文（Markdown）',
  save: '保存',
  saved: '已保存为第 {version} 版',
  unsaved: '尚未保存',
  changedElsewhere: '文档已在另一个标签页中修改。请先复制需要的内容，再刷新页面。',
  refused: '操作没有成功，请检查输入的内容。',
  offline: '服务暂时没有响应。',
  summarise: '生成摘要',
  rewrite: '改写',
  exportPdf: '导出 PDF',
  syncFolder: '同步文件夹',
  recipient: '发送给',
  send: '发送',
  activity: '动态',
  nothing: '还没有任务。可以导出文档，或让模型生成摘要。',
  assist_summarise: '摘要',
  assist_rewrite: '改写',
  export_pdf: '导出 PDF',
  send_mail: '邮件',
  sync_folder: '文件夹同步',
  add_credits: '付款',
  version: '第 {about} 版',
  paid: '{about} 点',
  duplicate: '之前已经做过：直接给出结果，没有重复执行。',
  asked: '请求了 {asked} 次，只执行一次',
  delivered: '通知了 {asked} 次，只入账一次',
  synced: '复制 {copied} 个，未变 {unchanged} 个',
  troubles: '故障演练',
  troublesHint: '可能出的问题，在这里都能随时发生。先选一种，再让模型做点什么。',
  none: '无',
  rate_limit: '请求过多',
  quota: '额度用尽',
  overloaded: '服务过载',
  cut: '回答中断',
  once: '下一次模型请求会遇到它。',
  killWorker: '终止工作进程',
  workerPid: '工作进程：{worker}',
  workerAway: '工作进程正在重新启动',
  noMails: '还没有邮件。',
  to: '收件人 {to}',
  realMail: '邮件已发往真实的邮件服务器。',
}

const WORDS: Readonly<Record<Language, Readonly<Record<Word, string>>>> = { en, zh }

export type Say = (word: Word, values?: Readonly<Record<string, string | number>>) => string

/** What says the words of a language, with `{name}` replaced by the value of this name. */
export function wordsOf(language: Language): Say {
  return (word, values = {}) => WORDS[language][word].replaceAll(/\{(\w+)\}/g, (_, name: string) => String(values[name] ?? ''))
}

export function isLanguage(text: unknown): text is Language {
  return LANGUAGES.includes(text as Language)
}
