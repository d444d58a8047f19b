// All workloads: searched, filtered by state and kind. What is chosen is in the address.

import { byStatus, workloadAlarm } from '../counts.js';
import { h } from '../dom.js';
import { mayChange } from '../parts/actions.js';
import { workloadBadge } from '../parts/badge.js';
import { empty, head, held, panel, table } from '../parts/frame.js';
import { shape } from '../parts/shape.js';
import { link, linkWith, replace } from '../router.js';
import { state } from '../state.js';
import { age, bytes, count, look, percent, reason } from '../words.js';

// The filter for those that need attention, among the states.
export const ATTENTION = 'attention';
// More rows than anybody reads; a search narrows them.
const MOST_ROWS = 200;

export const workloads = {
  title: () => 'Workloads',
  wants: () => ['workloads'],
  view: (_, query) => [
    head('Workloads', {
      under: state.workloads.at > 0 && count(state.workloads.data.length, 'workload'),
      actions: mayChange() && h('a', { class: 'button primary', href: link('apply') }, 'Apply a file'),
    }),
    panel('', { key: 'list' }, held(state.workloads, (all) => (all.length === 0
      ? empty('There are no workloads', ['Start one with ', h('code', null, 'persys run nginx --name web'), ', or ', h('a', { href: link('apply') }, 'paste a manifest or a Compose file'), '.'])
      : [filters(all, query), list(all.filter(matches(query)), query, all.length)]))),
  ],
};

function matches({ q = '', state: status = '', kind = '' }) {
  const words = q.toLowerCase().split(/\s+/).filter(Boolean);
  return (one) => {
    const text = `${one.workload_id} ${one.assigned_node_id ?? ''} ${one.type} ${one.status}`.toLowerCase();
    const fits = status === ATTENTION ? workloadAlarm(one) !== null : !status || (one.status || 'Unknown') === status;
    return fits && (!kind || one.type === kind) && words.every((word) => text.includes(word));
  };
}

function filters(all, query) {
  const change = (part) => linkWith(['workloads'], { ...query, ...part });
  const troubled = all.filter(workloadAlarm).length;
  const chip = (status, text, number, tone, drawn) => h('a', { key: status || 'all', class: `chip ${tone}`, href: change({ state: query.state === status ? '' : status }), 'aria-current': (query.state ?? '') === status ? 'true' : undefined },
    drawn && shape(drawn), text, h('span', { class: 'chip-count' }, number));
  return h('div', { class: 'filters', key: 'filters', role: 'search' },
    h('input', { id: 'search', type: 'search', placeholder: 'Search name, node, kind', 'aria-label': 'Search workloads', value: query.q ?? '', autocomplete: 'off', spellcheck: 'false', oninput: (event) => replace(change({ q: event.target.value })) }),
    h('select', { 'aria-label': 'Kind', value: query.kind ?? '', onchange: (event) => replace(change({ kind: event.target.value })) },
      [['', 'All kinds'], ['container', 'Containers'], ['compose', 'Stacks'], ['vm', 'Machines']].map(([value, text]) => h('option', { key: value, value }, text))),
    h('div', { class: 'chips', role: 'group', 'aria-label': 'State' },
      chip('', 'All', all.length, ''),
      (troubled > 0 || query.state === ATTENTION) && chip(ATTENTION, 'Needs attention', troubled, 'bad', 'cross'),
      byStatus(all).map(([status, number]) => chip(status, status, number, look(status).tone, look(status).shape))));
}

function list(found, query, total) {
  if (found.length === 0) {
    return h('div', { key: 'none' }, empty('Nothing matches', h('a', { href: link('workloads') }, query.state || query.q || query.kind ? 'Show all workloads' : 'Reload')));
  }
  const columns = [{ name: 'Workload' }, { name: 'Status' }, { name: 'Kind' }, { name: 'Node' }, { name: 'CPU', class: 'right extra' }, { name: 'Memory', class: 'right extra' }, { name: 'Age', class: 'right' }, { name: 'Why', class: 'why' }];
  return h('div', { key: 'rows' },
    table('Workloads', columns, found.slice(0, MOST_ROWS).map((one) => ({
      key: one.workload_id,
      cells: [
        h('a', { class: 'name', href: link('workloads', one.workload_id) }, one.workload_id),
        workloadBadge(one),
        one.type,
        one.assigned_node_id ? h('a', { href: link('nodes', one.assigned_node_id) }, one.assigned_node_id) : '–',
        one.usage ? percent(one.usage.cpu_percent) : '–',
        one.usage ? bytes(one.usage.memory_bytes) : '–',
        age(one.created_at),
        h('span', { class: 'clamp', title: reason(one) }, reason(one)),
      ],
    }))),
    found.length < total && h('p', { class: 'muted more', key: 'of' }, `${found.length} of ${total} match.`),
    found.length > MOST_ROWS && h('p', { class: 'muted more', key: 'more' }, `${found.length - MOST_ROWS} more are not shown; search to narrow them down.`));
}
