/** Every colour and measure can be set from outside, by a custom property or by `::part`. Without `light-dark()` it is light. */
export const STYLES = `
:host {
  display: block;
  --_color: var(--job-progress-color, #2f6feb);
  --_text: var(--job-progress-text, #1f2328);
  --_muted: var(--job-progress-muted, #59636e);
  --_track: var(--job-progress-track, #d8dee4);
  --_success: var(--job-progress-success, #1a7f37);
  --_error: var(--job-progress-error, #c4222f);
  font: var(--job-progress-font, 0.9375rem/1.4 system-ui, sans-serif);
  color: var(--_text);
}
@supports (color: light-dark(#000, #fff)) {
  :host {
    --_color: var(--job-progress-color, light-dark(#2f6feb, #6ea8fe));
    --_text: var(--job-progress-text, light-dark(#1f2328, #e6edf3));
    --_muted: var(--job-progress-muted, light-dark(#59636e, #9198a1));
    --_track: var(--job-progress-track, light-dark(#d8dee4, #3d444d));
    --_success: var(--job-progress-success, light-dark(#1a7f37, #3fb950));
    --_error: var(--job-progress-error, light-dark(#c4222f, #ff7b72));
  }
}
:host([hidden]) { display: none; }
[part=head] { display: flex; gap: 1em; justify-content: space-between; overflow-wrap: anywhere; }
[part=value] { color: var(--_muted); font-variant-numeric: tabular-nums; }
[part=track] {
  height: var(--job-progress-height, 0.5rem);
  margin-block: 0.375em;
  border-radius: var(--job-progress-radius, 1rem);
  background: var(--_track);
  overflow: hidden;
}
[part=bar] { height: 100%; border-radius: inherit; background: var(--_color); transition: inline-size 0.3s ease-out; }
[part=box][data-state=succeeded] [part=bar] { background: var(--_success); }
:is([data-state=failed], [data-state=error]) :is([part=label], [part=detail]) { color: var(--_error); }
[data-state=failed] [part=bar] { background: var(--_error); inline-size: 100% !important; }
[data-moves] [part=bar] { inline-size: 40%; animation: moves 1.6s ease-in-out infinite alternate; }
@keyframes moves { from { margin-inline-start: 0; } to { margin-inline-start: 60%; } }
:is([part=detail], [part=offline]) { margin: 0; color: var(--_muted); overflow-wrap: anywhere; }
[part=actions] { display: flex; flex-wrap: wrap; gap: 0.5em; margin-block-start: 0.5em; }
[hidden] { display: none !important; }
button {
  font: inherit;
  color: inherit;
  padding: 0.25em 0.75em;
  border: 1px solid var(--_muted);
  border-radius: var(--job-progress-button-radius, 0.375rem);
  background: transparent;
  cursor: pointer;
}
button:hover { border-color: var(--_color); }
button:focus-visible { outline: 2px solid var(--_color); outline-offset: 2px; }
button:disabled { opacity: 0.6; cursor: default; }
[part=spoken] {
  position: absolute;
  width: 1px;
  height: 1px;
  margin: -1px;
  overflow: hidden;
  clip-path: inset(50%);
  white-space: nowrap;
}
@media (prefers-reduced-motion: reduce) {
  [part=bar] { transition: none; }
  [data-moves] [part=bar] { inline-size: 100%; animation: none; opacity: 0.5; }
}
@media (forced-colors: active) {
  [part=track] { border: 1px solid CanvasText; }
  [part=bar] { background: Highlight !important; forced-color-adjust: none; }
}
`
