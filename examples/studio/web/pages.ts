/** The pages as the browser gets them first. `html` escapes every value. */
import { html } from 'hono/html'
import { settings } from '../settings.js'
import type { Mail } from '../standins/mailbox.js'
import { wordsOf, type Language } from '../words.js'

type Html = ReturnType<typeof html>

export function studioPage(language: Language): Html {
  const say = wordsOf(language)
  const credits = html`<span class="credits"
      >${say('credits')} <output id="credits">–</output>
      <button type="button" data-action="credits" class="small">${say('buyCredits')}</button></span
    >
    <a href="/inbox">${say('inbox')}</a>`
  return page(
    language,
    credits,
    html`<main class="columns">
        <section id="paper" class="card" aria-labelledby="document-heading">
          <h2 id="document-heading">${say('document')}</h2>
          <form id="document">
            <label for="title">${say('title')}</label>
            <input id="title" name="title" maxlength="120" required autocomplete="off" />
            <label for="text">${say('text')}</label>
            <textarea id="text" name="text" rows="16" maxlength="200000" spellcheck="false"></textarea>
            <div class="row">
              <button type="submit" id="save">${say('save')}</button>
              <p id="saved" class="hint" role="status"></p>
            </div>
          </form>
          <div class="actions">
            <button type="button" class="primary" data-action="export">${say('exportPdf')}</button>
            <button type="button" data-action="summarise">${say('summarise')}</button>
            <button type="button" data-action="rewrite">${say('rewrite')}</button>
            <button type="button" data-action="sync">${say('syncFolder')}</button>
          </div>
          <form id="mail" class="row">
            <label for="to" class="inline">${say('recipient')}</label>
            <input id="to" name="to" type="email" required autocomplete="email" placeholder="ada@example.com" />
            <button type="submit">${say('send')}</button>
          </form>
        </section>
        <section id="jobs" aria-labelledby="activity-heading">
          <h2 id="activity-heading">${say('activity')}</h2>
          <p id="nothing" class="card hint" hidden>${say('nothing')}</p>
          <ol id="activity"></ol>
          <button type="button" id="older" hidden>${say('older')}</button>
        </section>
        <section id="panel" class="card" aria-labelledby="troubles-heading">
          <h2 id="troubles-heading">${say('troubles')}</h2>
          <p class="hint">${say(settings.standsIn.model ? 'troublesHint' : 'realModel')}</p>
          <div
            id="troubles"
            class="choices"
            role="group"
            aria-labelledby="troubles-heading"
            ${settings.standsIn.model ? '' : 'hidden'}
          ></div>
          <div class="row">
            <button type="button" id="kill">${say('killWorker')}</button>
            <p id="worker" class="hint" role="status"></p>
          </div>
        </section>
        <div id="problem" class="problem" role="alert" hidden>
          <p id="problem-text"></p>
          <button type="button" id="problem-close" class="small" aria-label="${say('close')}">✕</button>
        </div>
      </main>
      <script type="module" src="/assets/studio.js"></script>`,
  )
}

export function inboxPage(language: Language, mails: readonly Mail[]): Html {
  const say = wordsOf(language)
  return page(
    language,
    html`<a href="/">${say('back')}</a>`,
    html`<main class="narrow">
      <h2>${say('inbox')}</h2>
      ${mails.length === 0 ? html`<p class="card hint">${say(settings.standsIn.mail ? 'noMails' : 'realMail')}</p>` : mails.map((mail) => mailCard(language, mail))}
    </main>`,
  )
}

function mailCard(language: Language, { subject, to, text, id, deliveries }: Mail): Html {
  return html`<article class="card mail">
    <h3>${subject}</h3>
    <p class="hint">${wordsOf(language)('to', { to })}</p>
    <pre tabindex="0">${text}</pre>
    <p class="hint"><code>${id}</code> · ${deliveries}×</p>
  </article>`
}

function page(language: Language, extra: Html, content: Html): Html {
  const say = wordsOf(language)
  const other: Language = language === 'en' ? 'zh' : 'en'
  return html`<!doctype html>
    <html lang="${language}">
      <head>
        <meta charset="utf-8" />
        <meta name="viewport" content="width=device-width, initial-scale=1" />
        <meta name="color-scheme" content="light dark" />
        <title>${say('product')}</title>
        <link rel="icon" href="/assets/icon.svg" />
        <link rel="stylesheet" href="/assets/studio.css" />
      </head>
      <body>
        <header>
          <h1>
            <a class="brand" href="/"><img src="/assets/icon.svg" alt="" width="28" height="28" />${say('product')}</a>
          </h1>
          <p class="tagline">${say('tagline')}</p>
          <nav>
            ${extra}
            <a href="?lang=${other}" lang="${other}" hreflang="${other}">${say('otherLanguage')}</a>
          </nav>
        </header>
        ${content}
      </body>
    </html>`
}
