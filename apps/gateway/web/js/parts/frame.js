// The pieces every page is made of: its head, panels, tables, and what is said when there is nothing or
// something is wrong.

import { h } from '../dom.js';
import { state } from '../state.js';
import { clock } from '../words.js';

export function head(title, { above, under, actions } = {}) {
  return h('header', { class: 'head', key: 'head' },
    h('div', null,
      above && h('p', { class: 'above' }, above),
      h('h1', { id: 'title', tabindex: -1 }, title),
      under && h('div', { class: 'under' }, under)),
    actions && h('div', { class: 'actions' }, actions));
}

export function panel(title, { aside, class: extra = '', key } = {}, ...kids) {
  return h('section', { class: `panel ${extra}`, key, 'aria-label': title },
    title && h('div', { class: 'panel-head' }, h('h2', null, title), aside), kids);
}

// `columns` are { name, class } and rows { key, cells, tone }. Headers are real ones, for those who hear
// the page; on a narrow screen each cell is shown with its header.
export function table(caption, columns, rows) {
  return h('div', { class: 'table-wrap' }, h('table', null,
    h('caption', { class: 'unseen' }, caption),
    h('thead', null, h('tr', null, columns.map((column) => h('th', { scope: 'col', class: column.class ?? '' }, column.name)))),
    h('tbody', null, rows.map((row) => h('tr', { key: row.key, class: row.tone ?? '' },
      row.cells.map((cell, at) => h('td', { class: columns[at].class ?? '', 'data-name': columns[at].name }, cell)))))));
}

export function pairs(rows) {
  return h('dl', { class: 'pairs' }, rows
    .filter(([, value]) => value !== undefined && value !== null && value !== '' && value.length !== 0)
    .map(([name, value]) => h('div', { key: name }, h('dt', null, name), h('dd', null, value))));
}

export function empty(title, ...words) {
  return h('div', { class: 'empty' }, h('p', { class: 'empty-title' }, title), words.map((word) => h('p', null, word)));
}

export function notice(tone, title, ...words) {
  return h('div', { class: `notice ${tone}`, role: tone === 'bad' ? 'alert' : 'status' },
    h('p', { class: 'notice-title' }, title), words.filter(Boolean).map((word) => (word.tag === 'ul' ? word : h('p', null, word))));
}

export function problemNotice(problem, at) {
  // Where every fault is named, the sentence that strings them together says nothing more.
  const faults = problem.faults ?? [];
  const said = faults.length === 0 ? problem.message : h('ul', { class: 'plain' }, faults.map((fault) => h('li', { key: fault.path + fault.problem }, fault.path && h('code', null, fault.path), ` ${fault.problem}`)));
  return notice('bad', problemTitle(problem), said, problem.next, at ? `The data shown is from ${clock(at)}.` : '');
}

export function problemTitle(problem) {
  if (problem.status === 0) return 'The gateway does not answer';
  if (problem.away) return 'The scheduler does not answer';
  if (problem.loggedOut) return 'Access denied';
  return problem.forbidden ? 'Your role does not allow this' : problem.title || 'The request failed';
}

// A part of the state: what is wrong with it, a placeholder while it is first read, or what `view` makes
// of it.
export function held(part, view) {
  const known = part.at > 0;
  // That nobody answers is said once, above every page.
  const said = part.problem?.away && state.link === 'away';
  return [
    part.problem && !said && h('div', { key: 'problem' }, problemNotice(part.problem, part.at)),
    known ? view(part.data) : !part.problem && h('div', { class: 'placeholder', key: 'placeholder', 'aria-busy': 'true' }, h('span', { class: 'unseen' }, 'Loading'), [0, 1, 2].map((row) => h('div', { class: 'placeholder-row', key: row }))),
  ];
}
