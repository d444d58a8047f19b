// The explanation of a workload's state: the answer first, then its evidence and suggestions.

import { h } from '../../dom.js';
import { held, panel } from '../../parts/frame.js';
import { shape } from '../../parts/shape.js';
import { link } from '../../router.js';
import { clock, count, look, settled } from '../../words.js';

const MOST_VERDICTS = 10;

export function why(view, part) {
  const { tone } = look(view.status);
  return panel(settled(view) ? 'Status' : 'Why', { class: `why-panel ${tone}`, key: 'why' }, held(part, (said) => [
    h('p', { class: 'why-summary', key: 'summary' }, said.summary),
    list('facts', '', said.facts),
    view.retry_next_at && ['RetryPending'].includes(view.status) && h('p', { key: 'retry' }, `Attempt ${view.retry_attempts ?? 0} of ${view.retry_max_attempts ?? 0}; the next one is at ${clock(view.retry_next_at)}.`),
    evidence(said.evidence),
    // Where every node is listed with its reasons, a summary of them says nothing more.
    !((said.verdicts ?? []).length <= MOST_VERDICTS && said.verdicts?.length > 0) && list('refusals', 'Refused by', (said.refusals ?? []).map((refusal) => `${count(refusal.nodes ?? 0, 'node')}: ${refusal.reason}`)),
    verdicts(said.verdicts),
    list('help', 'What would help', said.suggestions, 'help'),
    commands(said.next),
  ]));
}

function list(key, title, texts = [], name = '') {
  if (texts.length === 0) return null;
  return h('div', { key, class: name }, title && h('h3', null, title), h('ul', { class: 'plain' }, texts.map((text, at) => h('li', { key: at }, text))));
}

function evidence(lines = []) {
  if (lines.length === 0) return null;
  return h('div', { key: 'evidence' }, h('h3', null, 'Last failure'), h('pre', { class: 'evidence', tabindex: 0, 'aria-label': 'Last failure' }, lines.join('\n')));
}

function verdicts(all = []) {
  if (all.length === 0) return null;
  return h('div', { key: 'verdicts' }, h('h3', null, 'Nodes'), h('ul', { class: 'verdicts' }, all.slice(0, MOST_VERDICTS).map((verdict) => h('li', { key: verdict.node_id, class: verdict.fits ? 'good' : 'bad' },
    shape(verdict.fits ? 'check' : 'cross'), h('a', { href: link('nodes', verdict.node_id) }, verdict.node_id), h('span', null, verdict.fits ? 'fits' : (verdict.faults ?? []).join('; '))))),
  all.length > MOST_VERDICTS && h('p', { class: 'muted' }, `and ${all.length - MOST_VERDICTS} more`));
}

function commands(lines = []) {
  if (lines.length === 0) return null;
  return h('div', { key: 'next' }, h('h3', null, 'Next, on the command line'), h('ul', { class: 'commands' }, lines.map((line) => h('li', { key: line }, h('code', null, line)))));
}
