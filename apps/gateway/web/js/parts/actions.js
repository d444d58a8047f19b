// What can be done about a workload or a node, shown only to those whose role allows it. The server
// decides again in any case.

import { act } from '../api.js';
import { h } from '../dom.js';
import { lookNow } from '../live.js';
import { state } from '../state.js';
import { confirm, toast } from './dialog.js';
import { fateOf, listed } from './fate.js';

// Roles that only look. Where the gateway does not say what somebody is, the server's word decides.
const ONLY_LOOK = ['viewer', 'auditor'];

export function mayChange() {
  const roles = state.session?.roles ?? [];
  return roles.length === 0 || roles.some((role) => !ONLY_LOOK.includes(role));
}

// Nodes and what nobody knows are the business of those who look after the cluster.
export function mayOperate() {
  const roles = state.session?.roles ?? [];
  return roles.length === 0 || roles.includes('admin');
}

// Does it, and says how it went. `under` is the button, which is dead meanwhile.
export async function perform(work, said, under) {
  if (under) under.disabled = true;
  try {
    const answer = await work();
    toast(answer?.note || answer?.message || said);
    await lookNow();
  } catch (problem) {
    if (problem.loggedOut) state.loggedOut = true;
    toast([problem.message, problem.next].filter(Boolean).join(' '), 'bad');
  } finally {
    if (under) under.disabled = false;
  }
}

function button(text, work, { danger = false, primary = false } = {}) {
  const look = danger ? 'danger-quiet' : primary ? 'primary' : '';
  return h('button', { key: text, type: 'button', class: `button ${look}`, onclick: (event) => work(event.currentTarget) }, text);
}

// Asks with the lists of what goes and what stays, and deletes.
async function remove(id, under, gone) {
  under.disabled = true;
  const fate = await fateOf(id).catch(() => null);
  under.disabled = false;
  const sure = await confirm({
    title: `Delete ${id}?`,
    text: fate ? '' : 'Its parts cannot be listed at the moment. Volumes of a Compose file stay unless you choose otherwise.',
    details: fate && ((volumes) => fateLists(listed(fate, volumes))),
    action: 'Delete',
    danger: true,
    name: id,
    option: (!fate || fate.volumes.length > 0) && 'Delete the volumes of its Compose file too, with their data',
  });
  if (sure) await perform(() => act.remove(id, Boolean(sure.chosen)), `${id} is being deleted`, under).then(gone);
}

function fateLists({ goes, stays }) {
  const list = (title, all, name) => [h('dt', { key: title }, title), h('dd', { key: name, class: name }, all.length === 0 ? h('p', { class: 'muted' }, 'nothing') : h('ul', { class: 'plain' }, all.map((one) => h('li', { key: one }, one))))];
  return h('dl', { class: 'fate' }, list('Goes', goes, 'goes'), list('Stays', stays, 'stays'));
}

export function workloadActions(view, { gone } = {}) {
  if (!mayChange()) return [];
  const id = view.workload_id;
  const stopped = view.desired_state === 'Stopped';
  const trouble = ['Failed', 'RetryPending'].includes(view.status) || view.update_state === 'UpdateFailed';
  const running = ['Running', 'Restarting'].includes(view.status);
  const paused = view.desired_state === 'Paused' || view.status === 'Paused';
  return [
    trouble && button('Retry', (under) => perform(() => act.retry(id), `${id} is being retried`, under), { primary: true }),
    stopped && button('Start', (under) => perform(() => act.start(id), `${id} is being started`, under), { primary: true }),
    paused && button('Resume', (under) => perform(() => act.resume(id), `${id} is being resumed`, under), { primary: true }),
    running && !paused && button('Pause', (under) => perform(() => act.pause(id), `${id} is being paused`, under)),
    running && !paused && button('Restart', (under) => perform(() => act.restart(id), `${id} is being restarted`, under)),
    !stopped && button('Stop', (under) => perform(() => act.stop(id), `${id} is being stopped`, under)),
    button('Delete', (under) => remove(id, under, gone), { danger: true }),
  ].filter(Boolean);
}

export function nodeActions(node) {
  if (!mayOperate()) return [];
  const id = node.node_id;
  if (node.status === 'Draining') {
    return [button('Undrain', (under) => perform(() => act.undrain(id), `${id} accepts workloads again`, under), { primary: true })];
  }
  return [button('Drain', async (under) => {
    const sure = await confirm({
      title: `Drain ${id}?`,
      text: 'The node takes no new workloads, and those that can run elsewhere move there. Workloads with data on this node stay.',
      action: 'Drain',
    });
    if (sure) await perform(() => act.drain(id, 'from the dashboard'), `${id} is being drained`, under);
  })];
}
