// Every call the pages make, in one place. A failure is always a `Problem`: what happened in a
// sentence, what to do next, and whether the login is over or the scheduler away.

let cluster = '';

// Which cluster is asked from now on; empty is the gateway's default.
export function choose(id) {
  cluster = id;
}

export class Problem extends Error {
  constructor({ status = 0, title = '', detail = '', next = '', code = '', faults = [] }) {
    super(detail || title || 'The gateway answered with something unexpected.');
    Object.assign(this, { status, title, next, code, faults });
  }

  get loggedOut() {
    return this.status === 401;
  }
  get forbidden() {
    return this.status === 403;
  }
  get missing() {
    return this.status === 404;
  }
  // Nobody answered: the gateway, or the scheduler behind it.
  get away() {
    return this.status === 0 || this.status >= 502;
  }
}

const AWAY = {
  title: 'The gateway does not answer',
  detail: 'This page cannot reach the gateway.',
  next: 'The page reconnects by itself.',
};
// A read that takes longer will not be answered; a change may take its time.
const READ_WITHIN_MS = 15000;

// A response that is fine, or a Problem. `within` is the time in milliseconds it may take, 0 any time.
export async function ask(path, { method = 'GET', body, signal, accept = 'application/json', within = method === 'GET' ? READ_WITHIN_MS : 0 } = {}) {
  const limit = within > 0 ? AbortSignal.timeout(within) : null;
  const either = AbortSignal.any([signal, limit].filter(Boolean));
  const headers = { Accept: accept };
  if (cluster) headers['X-Persys-Cluster-ID'] = cluster;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      signal: either,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: 'same-origin',
      cache: 'no-store',
    });
  } catch (error) {
    throw silence(error, within);
  }
  if (!response.ok) throw await problemOf(response);
  return response;
}

function silence(error, within) {
  if (error.name === 'AbortError') return error;
  if (error.name === 'TimeoutError') return new Problem({ ...AWAY, detail: `The gateway did not answer within ${within / 1000} seconds.` });
  return new Problem(AWAY);
}

async function problemOf(response) {
  const said = await response.json().catch(() => ({}));
  return new Problem({
    status: response.status,
    title: said.title ?? response.statusText,
    detail: said.detail,
    next: said.next_step,
    code: said.code,
    faults: said.faults,
  });
}

async function json(path, options) {
  const response = await ask(path, options);
  // The time limit holds for the body, too.
  return response.status === 204 ? {} : response.json().catch((error) => { throw silence(error, options?.within); });
}

const part = encodeURIComponent;
const post = (path, body) => json(path, { method: 'POST', body });
const drop = (path) => json(path, { method: 'DELETE' });

// Who is logged in: a name, and the roles the scheduler knows them in.
const person = ({ who, roles = [] }) => ({ user: who, roles: roles.map((held) => held.role) });

export const session = {
  get: () => json('/v1/session').then(person),
  open: (token) => json('/v1/session', { method: 'POST', body: { token } }).then(person),
  close: () => json('/v1/session', { method: 'DELETE' }),
};

export const read = {
  standing: (options) => json('/v1/standing', options),
  clusters: () => json('/clusters').then((answer) => (answer.clusters ?? []).map((one) => ({ ...one, by_default: one.id === answer.default_cluster_id }))),
  nodes: () => json('/nodes').then((answer) => answer.nodes ?? []),
  node: (id) => json(`/v1/nodes/${part(id)}`).then((answer) => answer.node),
  nodeWhy: (id) => json(`/v1/nodes/${part(id)}/why`),
  workloads: () => json('/workloads').then((answer) => answer.workloads ?? []),
  workload: (id) => json(`/v1/workloads/${part(id)}`).then((answer) => answer.workload),
  why: (id) => json(`/v1/workloads/${part(id)}/why`),
  history: (id) => json(`/v1/workloads/${part(id)}/history`).then((answer) => answer.revisions ?? []),
  diff: (id, from, to) => json(`/v1/workloads/${part(id)}/diff?from=${from}&to=${to}`).then((answer) => answer.differences ?? []),
  describe: (id) => json(`/v1/workloads/${part(id)}/describe`),
  drifts: () => json('/v1/drifts').then((answer) => answer.drifts ?? []),
  disks: () => json('/disks').then((answer) => answer.disks ?? []),
  events: (query) => json(`/v1/events?${new URLSearchParams(query)}`).then((answer) => answer.events ?? []),
};

export const act = {
  stop: (id) => post(`/v1/workloads/${part(id)}/stop`),
  start: (id) => post(`/v1/workloads/${part(id)}/start`),
  restart: (id) => post(`/v1/workloads/${part(id)}/restart`),
  pause: (id) => post(`/v1/workloads/${part(id)}/pause`),
  resume: (id) => post(`/v1/workloads/${part(id)}/resume`),
  retry: (id) => post(`/v1/workloads/${part(id)}/retry`),
  rollback: (id, number) => post(`/v1/workloads/${part(id)}/rollback`, { number }),
  remove: (id, volumes = false) => drop(`/v1/workloads/${part(id)}${volumes ? '?volumes=true' : ''}`),
  // The requests a file means; nothing is applied by this.
  readManifest: (written) => post('/v1/manifests', written).then((answer) => answer.workloads ?? []),
  apply: (request) => post('/v1/workloads', request),
  drain: (id, reason) => post(`/v1/nodes/${part(id)}/drain`, { reason }),
  undrain: (id) => post(`/v1/nodes/${part(id)}/undrain`, {}),
  removeDisk: (id) => drop(`/v1/disks/${part(id)}`),
  orphan: (drift, verdict) => post(`/v1/drifts/${part(drift.node_id)}/${part(drift.workload_id)}/${verdict}`),
  checkDrift: () => post('/v1/drifts/check'),
  releaseBrake: () => post('/v1/operate', { release_brake: true }),
};

// Streams are read as they come; see stream.js.
export const streams = {
  events: (after) => `/v1/events/stream${after ? `?after_id=${part(after)}` : ''}`,
  logs: (id, { tail, service }) =>
    `/v1/workloads/${part(id)}/logs?${new URLSearchParams({ follow: 'true', tail, ...(service && { service }) })}`,
};

export function socket(path, query) {
  const words = new URLSearchParams(query);
  if (cluster) words.append('cluster_id', cluster);
  return new WebSocket(`${location.protocol === 'https:' ? 'wss' : 'ws'}://${location.host}${path}?${words}`);
}

export const sockets = {
  exec: (id, query) => socket(`/v1/workloads/${part(id)}/exec`, query),
  console: (id, query) => socket(`/v1/workloads/${part(id)}/console`, query),
};
