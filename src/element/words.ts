/** What the element itself says. Stages and reasons come from the server, in the same language. */

export type Language = 'en' | 'zh'

export interface Words {
  progress: string
  loading: string
  pending: string
  running: string
  retrying: string
  succeeded: string
  failed: string
  canceled: string
  canceling: string
  forbidden: string
  gone: string
  offline: string
  cancel: string
  notCanceled: string
  notDownloaded: string
  step(number: number, count: number): string
  /** `seconds` is 0 once it is due. */
  next(seconds: number): string
  attempt(number: number, most: number | null): string
  download(name: string): string
}

const EN: Words = {
  progress: 'Progress',
  loading: 'Loading…',
  pending: 'Waiting to start',
  running: 'In progress',
  retrying: 'Interrupted',
  succeeded: 'Done',
  failed: 'Failed',
  canceled: 'Canceled',
  canceling: 'Canceling…',
  forbidden: 'You have no access to this, or not any more. Please reload the page.',
  gone: 'This is not kept any more.',
  offline: 'Connection lost, trying again.',
  cancel: 'Cancel',
  notCanceled: 'This could not be canceled.',
  notDownloaded: 'The download failed.',
  step: (number, count) => `Step ${number} of ${count}`,
  next: (seconds) => (seconds > 0 ? `Trying again in ${duration(seconds, 'h', 'min', 's')}` : 'Trying again now'),
  attempt: (number, most) => (most === null ? `attempt ${number}` : `attempt ${number} of ${most}`),
  download: (name) => `Download ${name}`,
}

const ZH: Words = {
  progress: '进度',
  loading: '正在加载…',
  pending: '等待开始',
  running: '正在处理',
  retrying: '已中断',
  succeeded: '已完成',
  failed: '失败',
  canceled: '已取消',
  canceling: '正在取消…',
  forbidden: '您没有或不再有访问权限，请刷新页面。',
  gone: '该任务已不再保留。',
  offline: '连接已断开，正在重试。',
  cancel: '取消',
  notCanceled: '无法取消。',
  notDownloaded: '下载失败。',
  step: (number, count) => `第 ${number} 步，共 ${count} 步`,
  next: (seconds) => (seconds > 0 ? `${duration(seconds, '小时', '分', '秒')}后重试` : '正在重试'),
  attempt: (number, most) => (most === null ? `第 ${number} 次尝试` : `第 ${number} 次尝试，共 ${most} 次`),
  download: (name) => `下载 ${name}`,
}

export function wordsOf(language: Language): Words {
  return language === 'zh' ? ZH : EN
}

/** Of the first of these that says one: English unless it is Chinese. */
export function languageOf(...tags: (string | null | undefined)[]): Language {
  return /^zh\b/i.test(tags.find((tag) => tag) ?? '') ? 'zh' : 'en'
}

function duration(seconds: number, hours: string, minutes: string, short: string): string {
  const parts = [
    [Math.floor(seconds / 3_600), hours],
    [Math.floor(seconds / 60) % 60, minutes],
    [seconds % 60, short],
  ] as const
  const first = parts.findIndex(([value]) => value > 0)
  return parts
    .slice(first, first + 2)
    .flatMap(([value, unit]) => (value > 0 ? `${value} ${unit}` : []))
    .join(' ')
}
