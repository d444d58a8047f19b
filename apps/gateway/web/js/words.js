// The words for what is shown: the same that the command line uses, so that what somebody reads here can
// be looked for there.

export function age(timestamp, now = Date.now()) {
  if (!timestamp) return '–';
  const begun = typeof timestamp === 'number' ? timestamp : Date.parse(timestamp);
  const seconds = Math.max(0, Math.floor((now - begun) / 1000));
  if (seconds < 120) return `${seconds}s`;
  if (seconds < 7200) return `${Math.floor(seconds / 60)}m`;
  if (seconds < 172800) return `${Math.floor(seconds / 3600)}h`;
  return `${Math.floor(seconds / 86400)}d`;
}

export function ago(timestamp, now) {
  return timestamp ? `${age(timestamp, now)} ago` : 'never';
}

export function clock(timestamp) {
  if (!timestamp) return '–';
  const time = new Date(timestamp);
  const today = time.toDateString() === new Date().toDateString();
  const words = { hour: '2-digit', minute: '2-digit', second: '2-digit', hour12: false };
  return time.toLocaleString('en-GB', today ? words : { day: 'numeric', month: 'short', ...words });
}

export function cores(number) {
  const value = Number(number) || 0;
  const fine = value < 10 ? 100 : 10;
  return String(Math.round(value * fine) / fine);
}

export function mib(number) {
  return bytes((Number(number) || 0) * 1024 * 1024);
}

export function gib(number) {
  return bytes((Number(number) || 0) * 1024 ** 3);
}

export function bytes(number) {
  let value = Number(number) || 0;
  for (const unit of ['B', 'KiB', 'MiB', 'GiB', 'TiB']) {
    if (Math.abs(value) < 1024 || unit === 'TiB') {
      return `${value < 10 && unit !== 'B' ? Math.round(value * 10) / 10 : Math.round(value)} ${unit}`;
    }
    value /= 1024;
  }
  return '';
}

export function percent(number) {
  const value = Number(number) || 0;
  return `${value < 10 ? Math.round(value * 10) / 10 : Math.round(value)} %`;
}

export function count(number, noun) {
  return `${number} ${noun}${number === 1 ? '' : 's'}`;
}

// How a status looks: its tone and its shape. Nothing is told by colour alone.
const LOOKS = {
  Running: ['good', 'disc'],
  Ready: ['good', 'disc'],
  Completed: ['good', 'check'],
  Available: ['good', 'disc'],
  Attached: ['good', 'disc'],
  Bound: ['good', 'disc'],
  Pending: ['wait', 'clock'],
  Scheduled: ['busy', 'half'],
  Paused: ['idle', 'half'],
  NotResponding: ['bad', 'cross'],
  Restarting: ['warn', 'turn'],
  RetryPending: ['warn', 'turn'],
  Draining: ['warn', 'half'],
  Stopping: ['busy', 'half'],
  Deleting: ['busy', 'half'],
  Stopped: ['idle', 'square'],
  Failed: ['bad', 'cross'],
  NotReady: ['bad', 'cross'],
  Lost: ['bad', 'cross'],
  Provisioning: ['busy', 'half'],
  Released: ['idle', 'ring'],
  Error: ['bad', 'cross'],
  Retained: ['idle', 'square'],
  Unknown: ['idle', 'ring'],
};

export function look(status) {
  const [tone, shape] = LOOKS[status] ?? ['idle', 'ring'];
  return { tone, shape };
}

// In the order in which they deserve a look.
export const STATES = [
  'Failed', 'NotResponding', 'Unknown', 'RetryPending', 'Restarting', 'Paused', 'Pending', 'Scheduled', 'Stopping', 'Deleting', 'Running', 'Completed', 'Stopped',
];

// States of an update, as they stand beside the status; the same words as in the command line. A note is a
// word, or a word and its tone.
export const UPDATES = { Updating: ['updating', 'busy'], UpdateFailed: ['update failed', 'warn'], RolledBack: ['rolled back'] };

// Verdicts of health checks, as they stand beside the status; the same words as in the command line.
export const HEALTH = { Starting: ['starting', 'busy'], Healthy: ['healthy'], Unhealthy: ['unhealthy', 'bad'] };

export function workloadStatus(view) {
  const restarts = view.restarts > 0 && ['Running', 'Restarting'].includes(view.status);
  const notes = [view.uncertain && ['node silent'], HEALTH[view.health], UPDATES[view.update_state], view.shadow && ['shadow'], restarts && [count(view.restarts, 'restart')]];
  return { word: view.status || 'Unknown', notes: notes.filter(Boolean) };
}

const SETTLED = ['Running', 'Stopped', 'Completed'];

export function settled(view) {
  return SETTLED.includes(view.status);
}

export function reason(view) {
  // Only the first line: what was left of a failure is shown where there is room for it.
  const failed = view.update_state === 'UpdateFailed' && view.status === 'Running';
  const unhealthy = view.health === 'Unhealthy' && view.status === 'Running';
  const told = unhealthy ? view.health_message : view.reason?.message;
  const message = failed ? view.update_message : (told ?? '').split('\n')[0];
  const text = view.why || message;
  const failure = view.failure_reason ?? '';
  if (!failure && !text) return settled(view) ? '' : (view.reason?.code ?? '');
  if (!failure || text.includes(failure)) return text;
  return text ? `${failure}: ${text}` : failure;
}

export function nodeStatus(node) {
  if (!node.condition || node.condition === node.status || node.status === 'Draining') return node.status || 'Unknown';
  return node.condition;
}

export function taint(one) {
  return `${one.key}${one.value ? `=${one.value}` : ''}:${one.effect || 'NoSchedule'}`;
}

const PROGRESS = {
  WorkloadSubmitted: 'accepted',
  WorkloadScheduled: 'placed; fetching and starting it',
  WorkloadRunning: 'started',
  WorkloadPending: 'no node takes it yet',
  Rescheduled: 'leaves its node',
  WorkloadRestarting: 'ended and is started again',
  RetryScheduled: 'an attempt failed',
  RetryTriggered: 'is tried again',
  WorkloadFailed: 'failed',
  WorkloadStopping: 'stopping',
  WorkloadStopped: 'stopped',
  WorkloadCompleted: 'ran to its end',
  WorkloadDeleting: 'being removed from its node',
  WorkloadDeleted: 'gone',
};

// An event in words: what happened, and why and by whom where that adds something.
export function eventText(event) {
  const what = PROGRESS[event.type] ?? apart(event.type);
  const plain = !event.reason || event.reason === event.details?.code || event.reason === `on ${event.node_id}`;
  const by = event.details?.by;
  const because = event.details?.because;
  return {
    what,
    why: plain ? '' : event.reason.split('\n')[0],
    by: by && !(event.reason ?? '').includes(by) ? `by ${by}${because ? `: ${because}` : ''}` : '',
  };
}

// NodeRegistered is "node registered".
export function apart(name) {
  return (name ?? '').replace(/([a-z])([A-Z])/g, '$1 $2').toLowerCase();
}

export function eventTone(event) {
  if (/Failed|Lost|NotReady|Refused|Degraded/.test(event.type)) return 'bad';
  if (/Pending|Restarting|Retry|Rescheduled|Drain|Drift|Brake|Taint/.test(event.type)) return 'warn';
  if (/Running|Completed|Ready|Registered|Recovered/.test(event.type)) return 'good';
  return 'idle';
}
