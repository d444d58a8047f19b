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
  detail: 'This page cannot reach the gateway. What is shown may be old.',
  next: 'It is tried again by itself.',
};

// A response that is fine, or a Problem.
export async function ask(path, { method = 'GET', body, signal, accept = 'application/json' } = {}) {
  const headers = { Accept: accept };
  if (cluster) headers['X-Persys-Cluster-ID'] = cluster;
  if (body !== undefined) headers['Content-Type'] = 'application/json';
  let response;
  try {
    response = await fetch(path, {
      method,
      headers,
      signal,
      body: body === undefined ? undefined : JSON.stringify(body),
      credentials: 'same-origin',
      cache: 'no-store',
    });
  } catch (error) {
    if (error.name === 'AbortError') throw error;
    throw new Problem(AWAY);
  }
  if (!response.ok) throw await problemOf(response);
  return response;
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
  return response.status === 204 ? {} : response.json();
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
  standing: () => json('/v1/standing'),
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
