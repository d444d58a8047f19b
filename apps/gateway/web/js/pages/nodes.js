// All nodes, and one of them.

import { read } from '../api.js';
import { placedOn } from '../counts.js';
import { h } from '../dom.js';
import { mayOperate, nodeActions } from '../parts/actions.js';
import { nodeBadge, workloadBadge } from '../parts/badge.js';
import { bar, smallBar } from '../parts/bar.js';
import { empty, head, held, notice, pairs, panel, problemNotice, table } from '../parts/frame.js';
import { timeline } from '../parts/timeline.js';
import { link } from '../router.js';
import { fill, heldPart, state } from '../state.js';
import { age, ago, clock, cores, count, gib, mib, nodeStatus, taint } from '../words.js';

const reserved = (node, total, free) => Math.max(0, (Number(node[total]) || 0) - (Number(node[free]) || 0));

export const nodes = {
  title: () => 'Nodes',
  wants: () => ['nodes', 'workloads'],
  view: () => [
    head('Nodes', { under: state.nodes.at > 0 && count(state.nodes.data.length, 'node') }),
    panel('', { key: 'list' }, held(state.nodes, (all) => (all.length === 0
      ? empty('There are no nodes', ['A machine joins with ', h('code', null, 'persys join'), ' or ', h('code', null, 'persys agent'), '.'])
      : list(all)))),
  ],
};

function list(all) {
  const columns = [{ name: 'Node' }, { name: 'Status' }, { name: 'Workloads', class: 'right' }, { name: 'CPU reserved' }, { name: 'Memory reserved' }, { name: 'Runs', class: 'extra' }, { name: 'Heartbeat', class: 'right' }, ...(mayOperate() ? [{ name: 'Actions', class: 'right' }] : [])];
  return table('Nodes', columns, all.map((node) => ({
    key: node.node_id,
    tone: nodeStatus(node) === 'Ready' ? '' : 'dimmed',
    cells: [
      [h('a', { class: 'name', href: link('nodes', node.node_id) }, node.node_id), tags(node)],
      [nodeBadge(node), nodeStatus(node) !== 'Ready' && node.status_reason && h('p', { class: 'muted small' }, node.status_reason)],
      state.workloads.at > 0 ? String(placedOn(node.node_id).length) : '–',
      smallBar({ label: 'CPU', total: Number(node.total_cpu_cores) || 0, reserved: reserved(node, 'total_cpu_cores', 'available_cpu_cores'), words: cores }),
      smallBar({ label: 'Memory', total: Number(node.total_memory_mb) || 0, reserved: reserved(node, 'total_memory_mb', 'available_memory_mb'), words: mib }),
      (node.supported_workload_types ?? []).join(', ') || '–',
      ago(node.last_heartbeat),
      ...(mayOperate() ? [h('div', { class: 'row-actions' }, nodeActions(node))] : []),
    ],
  })));
}

function tags(node) {
  const labels = Object.entries(node.labels ?? {}).map(([key, value]) => `${key}=${value}`);
  const taints = (node.taints ?? []).map(taint);
  if (labels.length + taints.length === 0) return null;
  return h('div', { class: 'tags' },
    labels.slice(0, 4).map((text) => h('span', { class: 'tag', key: text }, text)),
    taints.map((text) => h('span', { class: 'tag taint', key: text, title: 'taint' }, text)));
}

const why = { id: '', part: heldPart() };

export const node = {
  title: ([, id]) => id,
  wants: () => ['nodes', 'workloads'],
  enter: ([, id]) => {
    why.id = id;
    why.part = heldPart();
    fill(why.part, () => read.nodeWhy(id));
  },
  view: ([, id]) => {
    const found = state.nodes.data.find((one) => one.node_id === id);
    const above = [h('a', { href: link('nodes') }, 'Nodes'), ' / '];
    if (!found) {
      return [head(id, { above }), held(state.nodes, () => notice('warn', `There is no node ${id}`, 'It was removed, or never existed.'))];
    }
    return [
      head(id, { above, under: [nodeBadge(found), h('span', { class: 'muted' }, `last heartbeat ${ago(found.last_heartbeat)}`)], actions: nodeActions(found) }),
      state.nodes.problem && problemNotice(state.nodes.problem, state.nodes.at),
      nodeStatus(found) !== 'Ready' && explanation(found),
      h('div', { class: 'columns', key: 'columns' },
        h('div', { key: 'left' },
          panel('Capacity', { class: 'capacity' }, gauges(found)),
          panel('Workloads here', {}, here(id))),
        h('div', { key: 'right' },
          panel('Details', {}, details(found)),
          panel('Timeline', {}, events(id)))),
    ];
  },
};

function explanation(found) {
  const said = why.part.data;
  const tone = ['Lost', 'NotReady'].includes(nodeStatus(found)) ? 'bad' : 'warn';
  return h('div', { key: 'why' }, notice(tone, said?.summary || found.status_reason || nodeStatus(found), ...(said?.facts ?? []), ...(said?.suggestions ?? [])));
}

function gauges(found) {
  const disk = Number(found.total_disk_gb) || 0;
  return h('div', { class: 'gauges' },
    bar({ label: 'CPU', total: Number(found.total_cpu_cores) || 0, reserved: reserved(found, 'total_cpu_cores', 'available_cpu_cores'), used: Number(found.used_cpu_cores) || 0, words: cores, unit: ' cores' }),
    bar({ label: 'Memory', total: Number(found.total_memory_mb) || 0, reserved: reserved(found, 'total_memory_mb', 'available_memory_mb'), used: Number(found.used_memory_mb) || 0, words: mib }),
    disk > 0 && bar({ label: 'Disk', total: disk, reserved: reserved(found, 'total_disk_gb', 'available_disk_gb'), words: gib, verb: 'used or reserved' }));
}

function here(id) {
  return held(state.workloads, () => {
    const placed = placedOn(id);
    if (placed.length === 0) return empty('No workload is placed on this node');
    return table('Workloads on this node', [{ name: 'Workload' }, { name: 'Status' }, { name: 'Kind' }, { name: 'Age', class: 'right' }], placed.map((one) => ({
      key: one.workload_id,
      cells: [h('a', { class: 'name', href: link('workloads', one.workload_id) }, one.workload_id), workloadBadge(one), one.type, age(one.created_at)],
    })));
  });
}

function details(found) {
  const lines = (texts) => texts.map((text) => h('div', { key: text }, text));
  return pairs([
    ['Status since', clock(found.status_updated_at)],
    ['Reason', found.status_reason],
    ['Endpoint', found.grpc_endpoint],
    ['Runs', (found.supported_workload_types ?? []).join(', ')],
    ['Cannot run', lines(Object.entries(found.missing_runtimes ?? {}).map(([kind, text]) => `${kind}: ${text}`))],
    ['Labels', lines(Object.entries(found.labels ?? {}).map(([key, value]) => `${key}=${value}`))],
    ['Taints', lines((found.taints ?? []).map(taint))],
    ['Fence', found.fence_available ? 'watchdog' : 'none: exclusive workloads are not placed here'],
  ]);
}

function events(id) {
  return held(state.events, (all) => {
    const own = all.filter((event) => event.node_id === id && !event.workload_id).slice(0, 30);
    return own.length === 0 ? empty('No recent events of this node') : timeline(own);
  });
}
