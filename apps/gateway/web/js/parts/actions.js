// What can be done about a workload or a node, shown only to those whose role allows it. The server
// decides again in any case.

import { act } from '../api.js';
import { h } from '../dom.js';
import { lookNow } from '../live.js';
import { state } from '../state.js';
import { confirm, toast } from './dialog.js';

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

// What a deletion means for data.
const FATE = {
  container: 'It is stopped and removed from its node. Disks with the policy Retain stay; those with the policy Delete go.',
  compose: 'Its containers and networks are stopped and removed. The volumes of its Compose file stay as disks.',
  vm: 'It is shut down and removed from its node, with the disks that were made for it. Disks with the policy Retain stay.',
};

export function workloadActions(view, { gone } = {}) {
  if (!mayChange()) return [];
  const id = view.workload_id;
  const stopped = view.desired_state === 'Stopped';
  const trouble = ['Failed', 'RetryPending'].includes(view.status) || view.update_state === 'UpdateFailed';
  const running = ['Running', 'Restarting'].includes(view.status);
  const paused = view.desired_state === 'Paused' || view.status === 'Paused';
  return [
    trouble && button('Retry', (under) => perform(() => act.retry(id), `${id} is tried again`, under), { primary: true }),
    stopped && button('Start', (under) => perform(() => act.start(id), `${id} is being started`, under), { primary: true }),
    paused && button('Resume', (under) => perform(() => act.resume(id), `${id} is being resumed`, under), { primary: true }),
    running && !paused && button('Pause', (under) => perform(() => act.pause(id), `${id} is being paused`, under)),
    running && !paused && button('Restart', (under) => perform(() => act.restart(id), `${id} is being restarted`, under)),
    !stopped && button('Stop', (under) => perform(() => act.stop(id), `${id} is being stopped`, under)),
    button('Delete', async (under) => {
      const sure = await confirm({
        title: `Delete ${id}?`,
        text: FATE[view.type] ?? FATE.container,
        action: 'Delete',
        danger: true,
        name: id,
        option: view.type === 'compose' && 'Delete the volumes of its Compose file too, with their data',
      });
      if (sure) await perform(() => act.remove(id, Boolean(sure.chosen)), `${id} is being deleted`, under).then(gone);
    }, { danger: true }),
  ].filter(Boolean);
}

export function nodeActions(node) {
  if (!mayOperate()) return [];
  const id = node.node_id;
  if (node.status === 'Draining') {
    return [button('Undrain', (under) => perform(() => act.undrain(id), `${id} takes work again`, under), { primary: true })];
  }
  return [button('Drain', async (under) => {
    const sure = await confirm({
      title: `Drain ${id}?`,
      text: 'It takes nothing new, and what can run elsewhere moves there. Work with data on this node stays and says so.',
      action: 'Drain',
    });
    if (sure) await perform(() => act.drain(id, 'from the dashboard'), `${id} is being drained`, under);
  })];
}
