// One workload: its state and the reason, its output, a terminal.

import { read } from '../../api.js';
import { h } from '../../dom.js';
import { mayChange, workloadActions } from '../../parts/actions.js';
import { workloadBadge } from '../../parts/badge.js';
import { empty, head, held, notice, panel, problemNotice } from '../../parts/frame.js';
import { timeline } from '../../parts/timeline.js';
import { go, link } from '../../router.js';
import { fill, heldPart, laterFirst, state } from '../../state.js';
import { age } from '../../words.js';
import { details } from './details.js';
import { history } from './history.js';
import { logs } from './logs.js';
import { consoleTab, terminal } from './terminal.js';
import { usage } from './usage.js';
import { why } from './why.js';

const ASK_AGAIN_MS = 15000;

const own = { id: '', seen: '', why: heldPart(), described: heldPart(), events: heldPart([]), history: heldPart([]), diff: null };

const TABS = [
  ['', 'Overview', () => true, summary],
  ['timeline', 'Timeline', () => true, events],
  ['history', 'History', () => true, history],
  ['logs', 'Logs', () => true, logs],
  ['terminal', 'Terminal', (view) => view.type !== 'vm' && mayChange(), terminal],
  ['console', 'Console', (view) => view.type === 'vm' && mayChange(), consoleTab],
  ['usage', 'Usage', () => true, usage],
];

export const workload = {
  title: ([, id]) => id,
  wants: () => ['workloads', 'nodes'],
  enter: ([, id]) => {
    if (own.id === id) return;
    Object.assign(own, { id, seen: '', why: heldPart(), described: heldPart(), events: heldPart([]), history: heldPart([]), diff: null });
  },
  view: ([, id, tab = ''], query) => {
    const view = state.workloads.data.find((one) => one.workload_id === id);
    const above = [h('a', { href: link('workloads') }, 'Workloads'), ' / '];
    if (!view) {
      return [head(id, { above }), held(state.workloads, () => notice('warn', `There is no workload ${id}`, 'It was deleted, or never existed.', h('a', { href: link('workloads') }, 'All workloads')))];
    }
    follow(view);
    const tabs = TABS.filter(([, , applies]) => applies(view));
    const [name, , , body] = tabs.find(([name]) => name === tab) ?? tabs[0];
    return [
      head(id, {
        above,
        under: [workloadBadge(view), h('span', { class: 'muted' }, sentence(view))],
        actions: workloadActions(view, { gone: () => go('#/workloads') }),
      }),
      state.workloads.problem && h('div', { key: 'problem' }, problemNotice(state.workloads.problem, state.workloads.at)),
      h('nav', { class: 'tabs', key: 'tabs', 'aria-label': `Parts of ${id}` }, tabs.map(([path, text]) => h('a', { key: path, href: path ? link('workloads', id, path) : link('workloads', id), 'aria-current': path === name ? 'page' : undefined }, text))),
      h('div', { key: `${id}/${name}`, class: 'tab-body' }, body(view, own, query)),
    ];
  },
};

// Reads the rest of it again whenever the workload itself changed.
function follow(view) {
  // Answers tell how long something lasts, so they are asked for again now and then.
  const turn = Math.floor(Date.now() / ASK_AGAIN_MS);
  const now = [view.status, view.last_updated, view.epoch, view.restarts, view.why, view.revision_number, turn].join(' ');
  if (own.seen === now) return;
  own.seen = now;
  const id = view.workload_id;
  fill(own.why, () => read.why(id));
  fill(own.described, () => read.describe(id));
  fill(own.history, () => read.history(id));
  fill(own.events, () => read.events({ workload_id: id, limit: 100 }));
}

function sentence(view) {
  const where = view.assigned_node_id ? [' on ', h('a', { href: link('nodes', view.assigned_node_id) }, view.assigned_node_id)] : '';
  const kind = { container: 'Container', compose: 'Stack', vm: 'Machine' }[view.type] ?? view.type;
  return [kind, where, `, ${age(view.created_at)} old`];
}

function summary(view) {
  return h('div', { class: 'columns' },
    h('div', { key: 'left' }, why(view, own.why), panel('Latest events', { aside: h('a', { href: link('workloads', view.workload_id, 'timeline') }, 'Timeline') }, recent(view, 6))),
    h('div', { key: 'right' }, panel('Details', {}, details(view, own.described))));
}

function events(view) {
  return panel('Timeline', {}, recent(view, 100));
}

// What was read for this workload, and what came by the stream since.
function recent(view, most) {
  return held(own.events, (read) => {
    const heard = state.events.data.filter((event) => event.workload_id === view.workload_id);
    const once = new Map([...read, ...heard].map((event) => [event.id, event]));
    const all = [...once.values()].sort(laterFirst).slice(0, most);
    return all.length === 0 ? empty('No events are recorded') : timeline(all, { subject: false });
  });
}
