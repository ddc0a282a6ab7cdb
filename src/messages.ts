import type { FailureCode } from './classify/codes.js'

/*
 * What the end user of a product reads when a job has failed: what they can do, or that they need do nothing. No technical
 * word, no name of a provider; those are in `last_error`, for developers.
 */

export const LOCALES = ['en', 'zh'] as const
export type Locale = (typeof LOCALES)[number]

/** A word or sentence for end users: one text for all languages, or one for each. */
export type LocalText = string | Partial<Record<Locale, string>>

/** The text in this language, or undefined where there is none. */
export function textIn(text: LocalText | undefined, locale: Locale): string | undefined {
  return typeof text === 'string' ? text : text?.[locale]
}

/** Messages of a job type, by code: one text for both languages, or a text for each. They go before the built-in ones. */
export type Messages = Readonly<Record<string, LocalText>>

/** The code that a job has by itself, beside those of `classify`. */
type JobCode = 'worker_lost'

type Text = Readonly<Record<Locale, string>>

const text = (en: string, zh: string): Text => ({ en, zh })

const GENERAL = text(
  'Something went wrong. Please try again; if it happens again, please contact support.',
  '出了点问题，请重试；如果仍然失败，请联系客服。',
)
const LATER = text('The service is busy right now. Please try again in a few minutes.', '服务暂时繁忙，请过几分钟再试。')
const NETWORK = text(
  'We could not reach a service we need. Please try again in a few minutes.',
  '暂时无法连接所需的服务，请过几分钟再试。',
)
const OUR_SIDE = text(
  'There is a problem on our side, and you need not change anything. Please contact support.',
  '问题出在我们这边，您无需做任何修改。请联系客服。',
)
const OUR_SIDE_LATER = text('There is a problem on our side. Please try again later.', '我们这边出现了问题，请稍后再试。')
const NOT_ACCEPTED = text(
  'This could not be processed as it is. Please check what you entered and try again.',
  '提交的内容无法处理，请检查后重试。',
)
const STOPPED = text('This was stopped before it finished. You can start it again.', '任务未完成就已停止，您可以重新发起。')

const MESSAGES: Readonly<Record<FailureCode | JobCode, Text>> = {
  aborted: STOPPED,
  account_disconnected: text(
    'Access to your account has ended. Please connect the account again.',
    '您的账号授权已失效，请重新连接账号。',
  ),
  canceled: text('This was canceled. You can start it again at any time.', '任务已取消，您可以随时重新开始。'),
  card_declined: text(
    'The payment was declined. Please use another card or contact your bank.',
    '付款被拒绝，请更换银行卡或联系您的发卡银行。',
  ),
  conflict: text(
    'This was changed or in use elsewhere at the same time. Please look at the latest version and try again.',
    '内容已在别处被修改或正被占用，请查看最新内容后重试。',
  ),
  connection_lost: text(
    'The connection broke before we had an answer. Please check whether it is done before you try again.',
    '连接在收到结果前中断。重试之前，请先确认操作是否已经完成。',
  ),
  connection_refused: NETWORK,
  content_refused: text(
    'This content is not accepted by the service. Please change it and try again.',
    '该内容不符合服务方的要求，请修改后重试。',
  ),
  credentials_expired: OUR_SIDE_LATER,
  database_conflict: LATER,
  database_rejected: OUR_SIDE,
  database_unavailable: OUR_SIDE_LATER,
  disk_full: OUR_SIDE_LATER,
  dns_failed: NETWORK,
  effect_unknown: text(
    'We are checking whether this was done. You need do nothing; please do not start it again.',
    '我们正在核实操作是否已经完成，您无需任何操作，请不要重新发起。',
  ),
  file_missing: text(
    'A file that is needed no longer exists. Please create or upload it again.',
    '所需的文件已不存在，请重新生成或上传。',
  ),
  forbidden: text(
    'This is not permitted. Please ask for access or contact support.',
    '您没有执行此操作的权限，请申请权限或联系客服。',
  ),
  idempotency_conflict: OUR_SIDE,
  invalid_request: NOT_ACCEPTED,
  lease_lost: text('This is being continued automatically. You need do nothing.', '任务正在自动继续，您无需任何操作。'),
  local_resources: LATER,
  misconfigured: OUR_SIDE,
  not_found: text(
    'What this needs was not found. It may have been moved or deleted; please check and try again.',
    '没有找到所需的内容，可能已被移动或删除，请检查后重试。',
  ),
  payload_invalid: NOT_ACCEPTED,
  permanent: text(
    'This could not be completed. Please contact support if you need help.',
    '任务无法完成。如需帮助，请联系客服。',
  ),
  provider_error: text('A service we need has a problem. Please try again later.', '相关服务出现问题，请稍后再试。'),
  provider_unavailable: LATER,
  quota_exhausted: text(
    'The usage limit has been reached. Please contact support to go on.',
    '额度已用完，如需继续使用，请联系客服。',
  ),
  rate_limited: text('There are many requests right now. Please try again in a few minutes.', '当前请求较多，请过几分钟再试。'),
  recipient_refused: text(
    'The message could not be delivered to this address. Please check the e-mail address.',
    '邮件无法送达该地址，请检查邮箱地址是否正确。',
  ),
  response_invalid: text('We received an answer we could not use. Please try again.', '收到的结果无法使用，请重试。'),
  result_invalid: OUR_SIDE,
  retry_after: text('This will go on by itself in a while. You need do nothing.', '任务稍后会自动继续，您无需任何操作。'),
  shutdown: text(
    'This was interrupted and goes on by itself. You need do nothing.',
    '任务被短暂中断，将自动继续，您无需任何操作。',
  ),
  step_repeated: OUR_SIDE,
  steps_changed: OUR_SIDE,
  superseded: text(
    'A newer request has taken the place of this one. You need do nothing.',
    '已被较新的请求取代，您无需任何操作。',
  ),
  timeout: text(
    'This took too long. Please check whether it is done before you try again.',
    '处理时间过长。重试之前，请先确认操作是否已经完成。',
  ),
  tls_invalid: OUR_SIDE,
  too_large: text('This is too large. Please make it smaller or split it and try again.', '内容过大，请缩小或拆分后重试。'),
  transaction_over: OUR_SIDE,
  transaction_uncommitted: OUR_SIDE,
  transient: text('There was a problem that should pass. Please try again later.', '遇到临时问题，请稍后再试。'),
  unauthorized: OUR_SIDE,
  unknown: GENERAL,
  validation_failed: NOT_ACCEPTED,
  worker_lost: text(
    'This was interrupted and has been stopped. Please check whether it is done before you try again.',
    '任务被中断，现已停止。重试之前，请先确认操作是否已经完成。',
  ),
}

/**
 * The message for the end user. `own` are the messages of the job's type; a code that neither knows gives the general
 * message. What an error carries itself (`PermanentError`'s `userMessage`) goes before all this and is not looked up here.
 */
export function userMessage(code: string, locale: Locale, own?: Messages): string {
  const chosen = textIn(own && Object.hasOwn(own, code) ? own[code] : undefined, locale)
  if (chosen !== undefined) return chosen
  return (Object.hasOwn(MESSAGES, code) ? MESSAGES[code as FailureCode | JobCode] : GENERAL)[locale]
}
