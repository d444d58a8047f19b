// Keeps the state fresh: follows the events of the cluster and reads again what they are about.
// What no event tells, such as usage and heartbeats, is read every few seconds while somebody looks.

import { Problem, read, streams } from './api.js';
import { addEvent, changed, forget, refresh, refreshOne, state } from './state.js';
import { follow } from './stream.js';

const LOOK_AGAIN_MS = 5000;
const GATHER_MS = 120;
// With more changes than this at once, the whole list costs less than one call each.
const MOST_SINGLE = 8;
const WAITS_MS = [500, 1000, 2000, 5000, 10000];

const touched = { workloads: new Set(), nodes: new Set() };
let gathering = null;
let stop = null;
let wants = () => [];

// Starts over: after a login, and when another cluster is chosen. `wanted` names the parts the page shows.
export function start(wanted) {
  wants = wanted;
  stop?.abort();
  stop = new AbortController();
  lookAgain(stop.signal);
  followEvents(stop.signal);
}

export function end() {
  stop?.abort();
}

async function lookAgain(signal) {
  while (!signal.aborted) {
    if (!document.hidden) await Promise.all(['standing', ...new Set(wants())].map(refresh));
    await pause(LOOK_AGAIN_MS, signal);
  }
}

// At once, for a page that has just been opened.
export function lookNow() {
  return Promise.all(wants().map(refresh));
}

async function followEvents(signal) {
  let failures = 0;
  await refresh('events');
  while (!signal.aborted) {
    try {
      await follow(streams.events(state.events.data[0]?.id), {
        signal,
        open: () => {
          // What happened while the line was down may be more than the stream repeats.
          if (failures > 0) lookNow();
          failures = 0;
          setLink('live');
        },
        on: hear,
      });
      setLink('connecting');
    } catch (problem) {
      if (signal.aborted) return;
      if (problem.loggedOut) {
        state.loggedOut = true;
        changed();
        return;
      }
      setLink('away', problem);
    }
    failures += 1;
    await pause(WAITS_MS[Math.min(failures, WAITS_MS.length) - 1], signal);
  }
}

function setLink(link, problem = null) {
  state.link = link;
  state.linkProblem = problem;
  changed();
}

function hear(message) {
  if (message.event === 'state') {
    hearState(message.data);
    return;
  }
  let event;
  try {
    event = JSON.parse(message.data);
  } catch {
    return;
  }
  if (!event.type) return;
  addEvent(event);
  if (event.type === 'WorkloadDeleted') forget('workloads', 'workload_id', event.workload_id);
  else if (event.workload_id) touched.workloads.add(event.workload_id);
  if (event.node_id) touched.nodes.add(event.node_id);
  if (!event.workload_id && !event.node_id) refresh('standing');
  gathering ??= setTimeout(readTouched, GATHER_MS);
}

// The gateway is there, and tells whether its scheduler is.
function hearState(data) {
  const { connected, why } = JSON.parse(data);
  if (connected && state.link === 'away') lookNow();
  if (connected) setLink('live');
  else setLink('away', new Problem({ status: 503, detail: why }));
}

function readTouched() {
  gathering = null;
  readEach('workloads', 'workload_id', read.workload);
  readEach('nodes', 'node_id', read.node);
}

function readEach(list, key, reader) {
  const ids = [...touched[list]];
  touched[list].clear();
  if (ids.length > MOST_SINGLE) refresh(list);
  else for (const id of ids) refreshOne(list, key, id, reader);
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const timer = setTimeout(resolve, ms);
    signal.addEventListener('abort', () => (clearTimeout(timer), resolve()), { once: true });
  });
}
