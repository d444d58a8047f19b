// The first page: what needs a look, how full the cluster is, what runs.

import { h } from '../dom.js';
import { act } from '../api.js';
import { mayOperate, perform } from '../parts/actions.js';
import { nodeBadge } from '../parts/badge.js';
import { bar } from '../parts/bar.js';
import { empty, head, held, panel } from '../parts/frame.js';
import { shape } from '../parts/shape.js';
import { timeline } from '../parts/timeline.js';
import { link, linkWith } from '../router.js';
import { state } from '../state.js';
import { age, cores, count, gib, look, mib, nodeStatus, reason, STATES } from '../words.js';

const MOST_ALARMS = 8;
const LATEST = 12;

export const overview = {
  title: () => 'Overview',
  wants: () => ['nodes', 'workloads', 'drifts'],
  view: () => {
    const standing = state.standing.data ?? {};
    return [
      head('Overview', { under: summary(standing) }),
      attention(),
      panel('Capacity', { key: 'capacity', class: 'capacity' }, held(state.nodes, capacity)),
      h('div', { class: 'columns even', key: 'columns' },
        h('div', { key: 'left' },
          panel('Workloads', { aside: h('a', { href: link('workloads') }, 'All workloads') }, held(state.workloads, byState)),
          panel('Nodes', { aside: h('a', { href: link('nodes') }, 'All nodes') }, held(state.nodes, tiles))),
        h('div', { key: 'right' },
          panel('Latest events', { aside: h('a', { href: link('events') }, 'All events') }, held(state.events, (events) => (events.length === 0 ? empty('Nothing happened yet') : timeline(events.slice(0, LATEST))))))),
    ];
  },
};

function summary(standing) {
  const facts = [
    standing.cluster && ['Cluster', standing.cluster],
    standing.mode && ['Mode', standing.mode],
    ['Leader', standing.leader || (standing.role === 'leader' ? 'this scheduler' : '–')],
    standing.version && ['Version', standing.version],
  ].filter(Boolean);
  return h('dl', { class: 'facts' }, facts.map(([name, value]) => h('div', { key: name }, h('dt', null, name), h('dd', null, value))));
}

// What needs attention, worst first.
function alarms() {
  const found = [];
  const standing = state.standing.data ?? {};
  if (standing.mode && standing.mode !== 'normal') {
    found.push({ tone: 'bad', title: `The cluster is in mode ${standing.mode}`, text: `${standing.reason ?? ''} What runs goes on running; nothing is started, moved or stopped.`.trim() });
  }
  if (standing.brake) {
    found.push({ tone: 'bad', title: 'So many nodes are silent that nothing is moved', text: 'Work moves again when they are back, or when an operator says so.', action: mayOperate() && h('button', { class: 'button', type: 'button', onclick: (event) => perform(act.releaseBrake, 'the brake is released', event.currentTarget) }, 'Release the brake') });
  }
  for (const node of state.nodes.data.filter((one) => ['NotReady', 'Lost'].includes(nodeStatus(one)))) {
    found.push({ tone: 'bad', title: `Node ${node.node_id} is ${nodeStatus(node) === 'Lost' ? 'lost' : 'not ready'}`, text: `${node.status_reason ?? ''}; ${count(node.workloads ?? 0, 'workload')} placed there`, to: link('nodes', node.node_id) });
  }
  for (const status of ['Failed', 'NotResponding', 'RetryPending', 'Restarting', 'Pending']) {
    for (const one of state.workloads.data.filter((workload) => workload.status === status)) {
      found.push({ tone: look(status).tone === 'bad' ? 'bad' : 'warn', title: `${one.workload_id} ${SAID[status]}`, text: reason(one), to: link('workloads', one.workload_id) });
    }
  }
  for (const one of state.workloads.data.filter((workload) => workload.update_state === 'UpdateFailed' && workload.status !== 'Failed')) {
    found.push({ tone: 'warn', title: `${one.workload_id} was not updated`, text: reason(one), to: link('workloads', one.workload_id, 'history') });
  }
  for (const one of state.workloads.data.filter((workload) => workload.health === 'Unhealthy')) {
    found.push({ tone: 'bad', title: `${one.workload_id} is unhealthy`, text: reason(one), to: link('workloads', one.workload_id) });
  }
  const drifts = state.drifts.data.filter((drift) => !drift.ignored);
  if (drifts.length > 0) found.push({ tone: 'warn', title: `${count(drifts.length, 'difference')} between what is recorded and what nodes have`, text: '', to: link('drift') });
  return found;
}

const SAID = { Failed: 'failed', NotResponding: 'does not respond', RetryPending: 'failed and is tried again', Restarting: 'keeps restarting', Pending: 'waits for a node' };

function attention() {
  if (state.nodes.at === 0 && state.workloads.at === 0) return null;
  const found = alarms();
  const more = found.length - MOST_ALARMS;
  const title = found.length === 0 ? 'Needs attention' : `Needs attention (${found.length})`;
  return panel(title, { key: 'attention', class: 'attention' },
    found.length === 0
      ? h('p', { class: 'all-well' }, shape('check'), state.workloads.data.length === 0 ? 'Nothing. Nothing runs yet either: begin with ' : 'Nothing. All is as it should be.', state.workloads.data.length === 0 && h('code', null, 'persys run nginx --name web'))
      : h('ul', { class: 'alarms' }, found.slice(0, MOST_ALARMS).map((alarm) => h('li', { key: alarm.title, class: alarm.tone },
          shape(alarm.tone === 'bad' ? 'cross' : 'clock'),
          h('div', null, alarm.to ? h('a', { class: 'name', href: alarm.to }, alarm.title) : h('span', { class: 'name' }, alarm.title), alarm.text && h('p', { class: 'muted' }, alarm.text)),
          alarm.action))),
    more > 0 && h('p', { class: 'muted more' }, `and ${more} more under `, h('a', { href: link('workloads') }, 'workloads')));
}

function capacity(nodes) {
  if (nodes.length === 0) return empty('No nodes yet', ['Add one with ', h('code', null, 'persys agent'), '.']);
  const usable = nodes.filter((node) => ['Ready', 'Draining'].includes(nodeStatus(node)));
  const sum = (field) => usable.reduce((total, node) => total + (Number(node[field]) || 0), 0);
  const reserved = (total, free) => Math.max(0, sum(total) - sum(free));
  const silent = nodes.length - usable.length;
  return [
    h('div', { class: 'gauges', key: 'gauges' },
      bar({ label: 'CPU', total: sum('total_cpu_cores'), reserved: reserved('total_cpu_cores', 'available_cpu_cores'), used: sum('used_cpu_cores'), words: cores, unit: ' cores' }),
      bar({ label: 'Memory', total: sum('total_memory_mb'), reserved: reserved('total_memory_mb', 'available_memory_mb'), used: sum('used_memory_mb'), words: mib }),
      bar({ label: 'Disk', total: sum('total_disk_gb'), reserved: reserved('total_disk_gb', 'available_disk_gb'), words: gib })),
    silent > 0 && h('p', { class: 'muted small', key: 'silent' }, `${count(silent, 'node')} that cannot be reached ${silent === 1 ? 'is' : 'are'} not counted.`),
  ];
}

function byState(workloads) {
  if (workloads.length === 0) return empty('No workloads yet', ['Start one with ', h('code', null, 'persys run nginx --name web'), ', or ', h('a', { href: link('apply') }, 'paste a file'), '.']);
  const groups = STATES.map((status) => [status, workloads.filter((one) => one.status === status).length]).filter(([, number]) => number > 0);
  return [
    h('div', { class: 'stack-bar', 'aria-hidden': 'true', key: 'bar' }, groups.map(([status, number]) => h('span', { key: status, class: look(status).tone, style: { 'flex-grow': number } }))),
    h('ul', { class: 'counts', key: 'counts' }, groups.map(([status, number]) => h('li', { key: status },
      h('a', { href: linkWith(['workloads'], { state: status }), class: look(status).tone }, shape(look(status).shape), h('span', { class: 'count-number' }, number), h('span', null, status))))),
  ];
}

function tiles(nodes) {
  if (nodes.length === 0) return empty('No nodes yet');
  return h('ul', { class: 'tiles' }, nodes.slice(0, 24).map((node) => h('li', { key: node.node_id },
    h('a', { href: link('nodes', node.node_id), class: 'tile' },
      h('span', { class: 'name' }, node.node_id), nodeBadge(node),
      h('span', { class: 'muted small' }, `${count(node.workloads ?? 0, 'workload')}, heard ${age(node.last_heartbeat)} ago`)))));
}
