// Keeps the state fresh: follows the events of the cluster and reads again what they are about.
// What no event tells, such as usage and heartbeats, is read every few seconds while somebody looks.
//
// Whether the pages are fresh is judged twice, because either can fail alone: by a small question that
// is asked about every second and must be answered in time, and by the stream of events.
//
//   beat answered, stream open      live
//   beat answered, stream down      behind: lists are still read, every few seconds
//   beat unanswered or refused      away: what is shown is old, and says since when

import { Problem, read, streams } from './api.js';
import { addEvent, changed, forget, refresh, refreshOne, state } from './state.js';
import { follow } from './stream.js';

const LOOK_AGAIN_MS = 5000;
// Lists the page itself does not show are read for the menu once in so many looks.
const MENU_TURNS = 6;
const MENU = ['workloads', 'nodes', 'drifts'];
// Together they bound the time until a failure is seen to less than three seconds.
const BEAT_MS = 1000;
const BEAT_WITHIN_MS = 1500;
// The server writes at least this often into a quiet stream, and a bit of patience.
const STREAM_QUIET_MS = 20000;
const GATHER_MS = 120;
// With more changes than this at once, the whole list costs less than one call each.
const MOST_SINGLE = 8;
const WAITS_MS = [500, 1000, 2000, 5000];

const touched = { workloads: new Set(), nodes: new Set() };
const beat = { problem: null, known: false };
const stream = { open: false, failed: false, problem: null, restart: new AbortController(), wake: () => {} };
let gathering = null;
let stop = null;
let wants = () => [];

// Starts over: after a login, and when another cluster is chosen. `wanted` names the parts the page shows.
export function start(wanted) {
  wants = wanted;
  stop?.abort();
  stop = new AbortController();
  Object.assign(beat, { problem: null, known: false });
  Object.assign(stream, { open: false, failed: false, problem: null });
  judge();
  keepBeat(stop.signal);
  lookAgain(stop.signal);
  followEvents(stop.signal);
}

export function end() {
  stop?.abort();
}

// Sets what the indicator says.
function judge() {
  const link = beat.problem ? 'away' : beat.known && stream.open ? 'live' : stream.failed ? 'behind' : 'connecting';
  if (link !== state.link) state.linkSince = Date.now();
  state.link = link;
  state.linkProblem = beat.problem ?? (link === 'behind' ? stream.problem : null);
  changed();
}

async function keepBeat(signal) {
  while (!signal.aborted) {
    if (!document.hidden) await beatOnce(signal);
    await pause(BEAT_MS, signal);
  }
}

async function beatOnce(signal) {
  try {
    const standing = await read.standing({ within: BEAT_WITHIN_MS, signal });
    if (!signal.aborted) answered(standing);
  } catch (problem) {
    if (signal.aborted || problem.name === 'AbortError') return;
    if (problem.loggedOut) state.loggedOut = true;
    // A refusal is an answer, too.
    if (problem.away) unanswered(problem);
    else answered(null);
  }
}

function answered(standing) {
  const was = beat.problem;
  Object.assign(beat, { problem: null, known: true });
  state.freshAt = Date.now();
  if (standing) Object.assign(state.standing, { data: standing, at: Date.now(), problem: null });
  judge();
  if (!was) return;
  // The stream may have died unnoticed meanwhile, and a list may be old.
  stream.restart.abort();
  stream.wake();
  lookNow();
}

function unanswered(problem) {
  Object.assign(beat, { problem, known: true });
  judge();
}

async function lookAgain(signal) {
  for (let turn = 0; !signal.aborted; turn += 1) {
    const menu = turn % MENU_TURNS === 0 ? MENU : [];
    if (!document.hidden && !beat.problem) await Promise.all([...new Set([...wants(), ...menu])].map(refresh));
    await pause(LOOK_AGAIN_MS, signal);
  }
}

// At once, for a page that has just been opened.
export function lookNow() {
  return Promise.all(wants().map(refresh));
}

// At once, when the page is looked at again.
export function beatNow() {
  if (stop && !stop.signal.aborted) beatOnce(stop.signal);
}

async function followEvents(signal) {
  let failures = 0;
  await refresh('events');
  while (!signal.aborted) {
    stream.restart = new AbortController();
    try {
      await follow(streams.events(state.events.data[0]?.id), {
        signal: AbortSignal.any([signal, stream.restart.signal]),
        quiet: STREAM_QUIET_MS,
        open: () => {
          // What happened while the line was down may be more than the stream repeats.
          if (failures > 0) lookNow();
          failures = 0;
          setStream(true);
        },
        on: hear,
      });
      setStream(false);
    } catch (problem) {
      if (signal.aborted) return;
      if (stream.restart.signal.aborted) {
        stream.open = false;
        continue;
      }
      if (problem.loggedOut) {
        state.loggedOut = true;
        changed();
        return;
      }
      setStream(false, problem instanceof Problem ? problem : null);
    }
    failures += 1;
    await Promise.race([pause(WAITS_MS[Math.min(failures, WAITS_MS.length) - 1], signal), new Promise((resolve) => (stream.wake = resolve))]);
  }
}

function setStream(open, problem = null) {
  Object.assign(stream, { open, failed: !open, problem });
  judge();
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
  if (/Drift|Orphan/.test(event.type)) refresh('drifts');
  gathering ??= setTimeout(readTouched, GATHER_MS);
}

// The gateway is there, and tells whether its scheduler is.
function hearState(data) {
  const { connected, why } = JSON.parse(data);
  if (connected && !stream.open) lookNow();
  setStream(connected, connected ? null : new Problem({ status: 503, detail: why }));
}

function readTouched() {
  gathering = null;
  readEach('workloads', 'workload_id', read.workload);
  readEach('nodes', 'node_id', read.node);
}

function readEach(list, key, reader) {
  const ids = [...touched[list]];
  touched[list].clear();
  // A list that was never read whole stays so: part of it would be taken for all.
  if (state[list].at === 0) return;
  if (ids.length > MOST_SINGLE) refresh(list);
  else for (const id of ids) refreshOne(list, key, id, reader);
}

function pause(ms, signal) {
  return new Promise((resolve) => {
    const done = () => {
      clearTimeout(timer);
      signal.removeEventListener('abort', done);
      resolve();
    };
    const timer = setTimeout(done, ms);
    signal.addEventListener('abort', done);
  });
}
