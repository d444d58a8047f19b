// What the pages show: one copy of the cluster, and how fresh each part of it is.
//
// A part that cannot be read again keeps what it had, and says since when that is old. A page is
// therefore never blank because something is away.

import { choose, read } from './api.js';

const EVENTS = 500;
// Samples of usage that are kept for the graphs, per workload.
const SAMPLES = 180;

export const state = {
  session: null,
  loggedOut: false,
  cluster: '',
  // connecting, live, behind, away: see live.js
  link: 'connecting',
  linkSince: Date.now(),
  linkProblem: null,
  // The last moment at which the cluster answered.
  freshAt: 0,
  standing: part(),
  nodes: part([]),
  workloads: part([]),
  drifts: part([]),
  disks: part([]),
  clusters: part([]),
  events: part([]),
  usage: new Map(),
};

// `data` as it was last read, when that was, and what stood in the way since.
function part(data = null) {
  return { data, at: 0, problem: null, loading: false };
}

const watchers = new Set();
let scheduled = false;

export function watch(watcher) {
  watchers.add(watcher);
}

// Has the page drawn again, once for any number of changes.
export function changed() {
  if (scheduled) return;
  scheduled = true;
  const draw = () => {
    scheduled = false;
    for (const watcher of watchers) watcher();
  };
  // A hidden page gets no frames, and must still be right when it is looked at.
  if (document.hidden) setTimeout(draw, 200);
  else requestAnimationFrame(draw);
}

// Reads one part again.
export async function refresh(name) {
  await fill(state[name], READERS[name]);
}

const READERS = {
  standing: read.standing,
  nodes: async () => (await read.nodes()).sort(by('node_id')),
  workloads: async () => {
    const workloads = (await read.workloads()).sort(by('workload_id'));
    workloads.forEach(sample);
    return workloads;
  },
  drifts: read.drifts,
  disks: read.disks,
  clusters: read.clusters,
  events: async () => newestFirst([...(await read.events({ limit: 200 })), ...state.events.data]),
};

export async function fill(held, reader) {
  const asked = state.cluster;
  held.loading = true;
  try {
    const data = await reader();
    if (asked !== state.cluster) return;
    Object.assign(held, { data, at: Date.now(), problem: null });
  } catch (problem) {
    if (problem.name === 'AbortError') return;
    if (problem.loggedOut) state.loggedOut = true;
    held.problem = problem;
  } finally {
    held.loading = false;
    changed();
  }
}

export const heldPart = part;

// Reads one workload or node again, after an event about it.
export async function refreshOne(list, key, id, reader) {
  try {
    put(list, key, await reader(id));
  } catch (problem) {
    if (problem.missing) forget(list, key, id);
    if (problem.loggedOut) state.loggedOut = true;
  }
  changed();
}

export function forget(list, key, id) {
  state[list].data = state[list].data.filter((item) => item[key] !== id);
}

function put(list, key, item) {
  if (list === 'workloads') sample(item);
  const others = state[list].data.filter((other) => other[key] !== item[key]);
  state[list].data = [...others, item].sort(by(key));
}

export function addEvent(event) {
  state.events.data = newestFirst([event, ...state.events.data]);
  state.events.at = Date.now();
  changed();
}

// Another cluster: nothing of the old one may be taken for the new one.
export function switchTo(id) {
  state.cluster = id;
  choose(id);
  for (const name of ['standing', 'nodes', 'workloads', 'drifts', 'disks', 'events']) {
    Object.assign(state[name], part(name === 'standing' ? null : []));
  }
  state.usage.clear();
  changed();
}

// Ids of events are numbers, longer ones later.
export function laterFirst(a, b) {
  return b.id.length - a.id.length || (a.id < b.id ? 1 : -1);
}

function newestFirst(events) {
  const once = new Map(events.map((event) => [event.id, event]));
  return [...once.values()].sort(laterFirst).slice(0, EVENTS);
}

function sample(workload) {
  const usage = workload.usage;
  if (!usage?.collected_at) return;
  const samples = state.usage.get(workload.workload_id) ?? [];
  if (samples.at(-1)?.collected_at === usage.collected_at) return;
  state.usage.set(workload.workload_id, [...samples, usage].slice(-SAMPLES));
}

function by(key) {
  return (a, b) => a[key].localeCompare(b[key], 'en', { numeric: true });
}
