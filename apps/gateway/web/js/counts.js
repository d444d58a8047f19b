// Every number the pages show, from one copy of the cluster: a list, the menu and the overview cannot
// disagree about how many there are or how many need attention.

import { link } from './router.js';
import { state } from './state.js';
import { look, nodeStatus, reason, STATES } from './words.js';

// Workloads by status, in the order in which they deserve a look. Together they are all workloads.
export function byStatus(workloads) {
  const groups = new Map(STATES.map((status) => [status, 0]));
  for (const one of workloads) {
    const status = one.status || 'Unknown';
    groups.set(status, (groups.get(status) ?? 0) + 1);
  }
  return [...groups].filter(([, number]) => number > 0);
}

// Workloads that have their place on a node.
export function placedOn(id) {
  return state.workloads.data.filter((one) => one.assigned_node_id === id);
}

const TROUBLE = {
  Failed: 'failed',
  NotResponding: 'does not respond',
  Unknown: 'is in an unknown state',
  RetryPending: 'failed and will be retried',
  Restarting: 'keeps restarting',
  Pending: 'waits for a node',
};

// The alarm of a workload, or null: `title` and `text` for people, `rank` puts the worst first.
export function workloadAlarm(one) {
  const to = link('workloads', one.workload_id);
  const rank = Object.keys(TROUBLE).indexOf(one.status);
  if (rank >= 0) {
    const tone = look(one.status).tone === 'bad' ? 'bad' : 'warn';
    return { rank, tone, title: `${one.workload_id} ${TROUBLE[one.status]}`, text: reason(one), to };
  }
  if (one.health === 'Unhealthy') {
    return { rank: 0, tone: 'bad', title: `${one.workload_id} is unhealthy`, text: reason(one), to };
  }
  if (one.update_state !== 'UpdateFailed') return null;
  return { rank: Object.keys(TROUBLE).length, tone: 'warn', title: `The update of ${one.workload_id} failed`, text: reason(one), to: link('workloads', one.workload_id, 'history') };
}

function nodeAlarm(node) {
  const status = nodeStatus(node);
  if (!['NotReady', 'Lost'].includes(status)) return null;
  const placed = placedOn(node.node_id).length;
  const text = [node.status_reason, `${placed} ${placed === 1 ? 'workload is' : 'workloads are'} placed there`].filter(Boolean).join('; ');
  return { tone: 'bad', title: `Node ${node.node_id} is ${status === 'Lost' ? 'lost' : 'not ready'}`, text, to: link('nodes', node.node_id) };
}

function driftAlarm(one) {
  if (one.ignored) return null;
  const found = [one.recorded && `recorded: ${one.recorded}`, one.found && `found: ${one.found}`].filter(Boolean).join(', ');
  return { tone: 'warn', title: `${one.workload_id} on ${one.node_id} differs from the record`, text: found, to: link('drift') };
}

// Alarms by the page that lists them, the worst first.
export function alarms() {
  return {
    nodes: state.nodes.data.map(nodeAlarm).filter(Boolean),
    workloads: state.workloads.data.map(workloadAlarm).filter(Boolean).sort((a, b) => a.rank - b.rank),
    drift: state.drifts.data.map(driftAlarm).filter(Boolean),
  };
}
