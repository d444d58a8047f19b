// Details of a workload: its spec, its addresses, the state of its containers.

import { h } from '../../dom.js';
import { held, pairs } from '../../parts/frame.js';
import { clock, gib, mib } from '../../words.js';
import { serviceLines } from './services.js';

export function details(view, part) {
  return held(part, (found) => pairs([
    ['Desired state', view.desired_state],
    ['Address', lines((found.addresses ?? []).map(address))],
    ['Revision', revision(view.revision_id, view.revision_number)],
    ['Running revision', view.running_revision_id && revision(view.running_revision_id, view.running_revision_number)],
    ['Attempts', view.retry_attempts > 0 && `${view.retry_attempts} of ${view.retry_max_attempts}`],
    ['Created', clock(view.created_at)],
    ['Updated', clock(view.last_updated)],
    ['Former copies', lines((found.former_copies ?? []).map((copy) => `${copy.node_id} (decision ${copy.epoch})`))],
    ...spec(found.spec ?? {}),
    ...(view.assigned_node_id ? inside(found) : []),
  ].filter(([, value]) => value)));
}

// The whole of it can be read when it is pointed at.
function revision(text, number) {
  const short = text.length > 20 ? `${text.slice(0, 20)}…` : text;
  return [number ? `${number} ` : '', h('code', { title: text }, short)];
}

function lines(items) {
  return items.length > 0 && items.map((item, at) => h('div', { key: at }, item));
}

// host:port/tcp can be opened in a browser.
function address(text) {
  const [place, protocol] = text.split('/');
  return protocol === 'udp' ? text : h('a', { href: `http://${place}`, target: '_blank', rel: 'noreferrer' }, place);
}

function spec(found) {
  const asked = found.resources ?? {};
  const reserves = [asked.cpu_millicores && `${asked.cpu_millicores} millicores`, asked.memory_mb && `${mib(asked.memory_mb)} memory`, asked.disk_gb && `${gib(asked.disk_gb)} disk`].filter(Boolean);
  const body = found.container ?? found.compose ?? found.vm ?? {};
  return [
    ['Reserves', reserves.join(', ')],
    ['Image', (body.image || body.os_image) && h('code', null, body.image || body.os_image)],
    ['Command', words([...(body.command ?? []), ...(body.args ?? [])])],
    ['Machine', found.vm && `${body.vcpus ?? 0} vCPUs, ${mib(body.memory_mb)}`],
    ['Source', body.git_repo && `${body.git_repo}${body.git_ref ? ` at ${body.git_ref}` : ''}`],
    ['Commit', body.git_commit && h('code', null, body.git_commit.slice(0, 12))],
    ['Ports', lines((body.ports ?? body.found_ports ?? []).map(published))],
    ['Env', lines(Object.entries(body.env ?? {}).map(([key, value]) => h('code', null, `${key}=${value}`)))],
    ['Volumes', lines([...(body.volumes ?? []).map((bind) => `${bind.host_path}:${bind.container_path}${bind.read_only ? ':ro' : ''}`), ...(body.managed_volumes ?? []).map((volume) => `${volume.name} at ${volume.mount_path}, ${gib(volume.size_gb)}`)])],
    ['Restart', body.restart_policy],
  ];
}

function words(argv) {
  return argv.length > 0 && h('code', null, argv.join(' '));
}

function inside(found) {
  const now = found.inside;
  if (!now) return [['Runtime', found.inside_missing]];
  return [
    ['Started', now.started_at && clock(now.started_at)],
    ['Finished', now.finished_at && clock(now.finished_at)],
    ['Internal IP', (now.ip_addresses ?? []).join(', ')],
    ['Services', lines(serviceLines(now.services))],
    ['Runtime id', now.runtime_id && h('code', null, now.runtime_id.slice(0, 20))],
  ];
}

// 127.0.0.1:8080->80/tcp; without an address it is every address, and a stack tells no port inside.
function published(port) {
  const ip = port.host_ip ?? '';
  const outside = [ip.includes(':') ? `[${ip}]` : ip, port.host_port || (ip && '*')].filter(Boolean).join(':');
  const protocol = port.protocol || 'tcp';
  if (!port.container_port) return `${outside}/${protocol}`;
  return `${outside ? `${outside}->` : ''}${port.container_port}/${protocol}`;
}
