// Disks: those made on their own, and those that came with a workload.

import { act } from '../api.js';
import { h } from '../dom.js';
import { mayChange, perform } from '../parts/actions.js';
import { badge } from '../parts/badge.js';
import { confirm } from '../parts/dialog.js';
import { empty, head, held, panel, table } from '../parts/frame.js';
import { link } from '../router.js';
import { state } from '../state.js';
import { age, count, gib } from '../words.js';

export const disks = {
  title: () => 'Disks',
  wants: () => ['disks'],
  view: () => [
    head('Disks', { under: state.disks.at > 0 && count(state.disks.data.length, 'disk') }),
    panel('', { key: 'list' }, held(state.disks, (all) => (all.length === 0 ? empty('There are no disks', ['Create one with ', h('code', null, 'persys disk create'), ', or request a managed volume in a workload.']) : list(all)))),
  ],
};

function list(all) {
  const columns = [{ name: 'Disk' }, { name: 'Phase' }, { name: 'Size', class: 'right' }, { name: 'Driver' }, { name: 'Node' }, { name: 'Used by' }, { name: 'Policy', class: 'extra' }, { name: 'Age', class: 'right' }, ...(mayChange() ? [{ name: 'Actions', class: 'right' }] : [])];
  return table('Disks', columns, all.map((disk) => ({
    key: disk.id,
    cells: [
      [h('span', { class: 'name' }, disk.name || disk.id), disk.standalone && h('div', { class: 'tags' }, h('span', { class: 'tag' }, 'standalone'))],
      [badge(disk.phase || 'Unknown'), disk.last_error && h('p', { class: 'muted small' }, disk.last_error)],
      Number(disk.size_gb) > 0 ? gib(disk.size_gb) : '–',
      disk.driver || '–',
      disk.node_id ? h('a', { href: link('nodes', disk.node_id) }, disk.node_id) : '–',
      users(disk.workload_refs ?? []),
      disk.retain_policy || '–',
      age(disk.created_at),
      ...(mayChange() ? [h('div', { class: 'row-actions' }, remove(disk))] : []),
    ],
  })));
}

function users(ids) {
  return ids.length === 0 ? '–' : ids.map((id) => h('div', { key: id }, h('a', { href: link('workloads', id) }, id)));
}

function remove(disk) {
  if ((disk.workload_refs ?? []).length > 0) return null;
  const name = disk.name || disk.id;
  return h('button', { class: 'button small danger-quiet', type: 'button', onclick: async (event) => {
    const under = event.currentTarget;
    if (await confirm({ title: `Delete disk ${name}?`, text: 'Its data is deleted and cannot be restored.', action: 'Delete', danger: true, name })) {
      await perform(() => act.removeDisk(disk.id), `${name} is being deleted`, under);
    }
  } }, 'Delete');
}
