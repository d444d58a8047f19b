// The first page: what needs a look, how full the cluster is, what runs.

import { act } from '../api.js';
import { alarms, byStatus, placedOn } from '../counts.js';
import { h } from '../dom.js';
import { mayOperate, perform } from '../parts/actions.js';
import { nodeBadge } from '../parts/badge.js';
import { bar } from '../parts/bar.js';
import { empty, head, held, panel } from '../parts/frame.js';
import { shape } from '../parts/shape.js';
import { timeline } from '../parts/timeline.js';
import { link, linkWith } from '../router.js';
import { state } from '../state.js';
import { age, cores, count, gib, look, mib, nodeStatus } from '../words.js';
import { ATTENTION } from './workloads.js';

const MOST_ALARMS = 8;
const LATEST = 12;
const MOST_TILES = 24;

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
          panel(known(state.workloads, 'Workloads'), { key: 'workloads', aside: h('a', { href: link('workloads') }, 'All workloads') }, held(state.workloads, byState)),
          panel(known(state.nodes, 'Nodes'), { key: 'nodes', aside: h('a', { href: link('nodes') }, 'All nodes') }, held(state.nodes, tiles))),
        h('div', { key: 'right' },
          panel('Latest events', { aside: h('a', { href: link('events') }, 'All events') }, held(state.events, (events) => (events.length === 0 ? empty('No events yet') : timeline(events.slice(0, LATEST))))))),
    ];
  },
};

// A title with the number of what is below it, once that is known.
function known(part, title) {
  return part.at > 0 ? `${title} (${part.data.length})` : title;
}

function summary(standing) {
  const facts = [
    standing.cluster && ['Cluster', standing.cluster],
    standing.mode && ['Mode', standing.mode],
    ['Leader', standing.leader || (standing.role === 'leader' ? 'this scheduler' : '–')],
    standing.version && ['Version', standing.version],
  ].filter(Boolean);
  return h('dl', { class: 'facts' }, facts.map(([name, value]) => h('div', { key: name }, h('dt', null, name), h('dd', null, value))));
}

// What concerns the cluster as a whole.
function clusterAlarms() {
  const found = [];
  const standing = state.standing.data ?? {};
  if (standing.mode && standing.mode !== 'normal') {
    found.push({ tone: 'bad', title: `The cluster is in mode ${standing.mode}`, text: `${standing.reason ?? ''} Running workloads keep running; nothing is started, moved or stopped.`.trim() });
  }
  if (standing.brake) {
    found.push({ tone: 'bad', title: 'So many nodes are silent that nothing is moved', text: 'Work moves again when they are back, or when an operator releases the brake.', action: mayOperate() && h('button', { class: 'button', type: 'button', onclick: (event) => perform(act.releaseBrake, 'The brake is released', event.currentTarget) }, 'Release the brake') });
  }
  return found;
}

const PLACES = { nodes: 'node', workloads: 'workload', drift: 'difference' };

function attention() {
  if (state.nodes.at === 0 || state.workloads.at === 0) return null;
  const byPage = alarms();
  const found = [...clusterAlarms(), ...byPage.nodes, ...byPage.workloads, ...byPage.drift];
  const title = found.length === 0 ? 'Needs attention' : `Needs attention (${found.length})`;
  return panel(title, { key: 'attention', class: 'attention' }, found.length === 0 ? allWell() : [
    h('ul', { class: 'alarms', key: 'alarms' }, found.slice(0, MOST_ALARMS).map((alarm) => h('li', { key: alarm.title, class: alarm.tone },
      shape(alarm.tone === 'bad' ? 'cross' : 'clock'),
      h('div', null, alarm.to ? h('a', { class: 'name', href: alarm.to }, alarm.title) : h('span', { class: 'name' }, alarm.title), alarm.text && h('p', { class: 'muted' }, alarm.text)),
      alarm.action))),
    found.length > MOST_ALARMS && more(found, byPage),
  ]);
}

function allWell() {
  if (state.workloads.data.length > 0) return h('p', { class: 'all-well' }, shape('check'), 'Nothing needs attention.');
  return h('p', { class: 'all-well' }, shape('check'), 'Nothing needs attention, and no workload exists yet. Start one with ', h('code', null, 'persys run nginx --name web'));
}

// Where those are listed that have no room here.
function more(found, byPage) {
  const shown = new Set(found.slice(0, MOST_ALARMS));
  const left = Object.entries(PLACES).map(([page, noun]) => [page, noun, byPage[page].filter((alarm) => !shown.has(alarm)).length]).filter(([, , number]) => number > 0);
  const address = (page) => (page === 'workloads' ? linkWith(['workloads'], { state: ATTENTION }) : link(page));
  return h('p', { class: 'muted more', key: 'more' }, 'and ', left.map(([page, noun, number], at) => [at > 0 && ', ', h('a', { key: page, href: address(page) }, `${number} more ${noun}${number === 1 ? '' : 's'}`)]));
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
      bar({ label: 'Disk', total: sum('total_disk_gb'), reserved: reserved('total_disk_gb', 'available_disk_gb'), words: gib, verb: 'used or reserved' })),
    silent > 0 && h('p', { class: 'muted small', key: 'silent' }, `${count(silent, 'node')} that cannot be reached ${silent === 1 ? 'is' : 'are'} not counted.`),
  ];
}

function byState(workloads) {
  if (workloads.length === 0) return empty('No workloads yet', ['Start one with ', h('code', null, 'persys run nginx --name web'), ', or ', h('a', { href: link('apply') }, 'paste a file'), '.']);
  const groups = byStatus(workloads);
  return [
    h('div', { class: 'stack-bar', 'aria-hidden': 'true', key: 'bar' }, groups.map(([status, number]) => h('span', { key: status, class: look(status).tone, style: { 'flex-grow': number } }))),
    h('ul', { class: 'counts', key: 'counts' }, groups.map(([status, number]) => h('li', { key: status },
      h('a', { href: linkWith(['workloads'], { state: status }), class: look(status).tone }, shape(look(status).shape), h('span', { class: 'count-number' }, number), h('span', null, status))))),
  ];
}

function tiles(nodes) {
  if (nodes.length === 0) return empty('No nodes yet');
  const placed = (node) => (state.workloads.at > 0 ? `${count(placedOn(node.node_id).length, 'workload')}, ` : '');
  return [
    h('ul', { class: 'tiles', key: 'tiles' }, nodes.slice(0, MOST_TILES).map((node) => h('li', { key: node.node_id },
      h('a', { href: link('nodes', node.node_id), class: 'tile' },
        h('span', { class: 'name' }, node.node_id), nodeBadge(node),
        h('span', { class: 'muted small' }, `${placed(node)}heartbeat ${age(node.last_heartbeat)} ago`))))),
    nodes.length > MOST_TILES && h('p', { class: 'muted more', key: 'more' }, h('a', { href: link('nodes') }, `and ${nodes.length - MOST_TILES} more`)),
  ];
}
