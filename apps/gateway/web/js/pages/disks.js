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
    panel('', { key: 'list' }, held(state.disks, (all) => (all.length === 0 ? empty('There are no disks', ['Make one with ', h('code', null, 'persys disk create'), ', or have a workload ask for a managed volume.']) : list(all)))),
  ],
};

function list(all) {
  const columns = [{ name: 'Disk' }, { name: 'Phase' }, { name: 'Size', class: 'right' }, { name: 'Driver' }, { name: 'Node' }, { name: 'Used by' }, { name: 'Kept', class: 'extra' }, { name: 'Age', class: 'right' }, ...(mayChange() ? [{ name: 'Actions', class: 'right' }] : [])];
  return table('Disks', columns, all.map((disk) => ({
    key: disk.id,
    cells: [
      [h('span', { class: 'name' }, disk.name || disk.id), disk.standalone && h('div', { class: 'tags' }, h('span', { class: 'tag' }, 'on its own'))],
      [badge(disk.phase || 'Unknown'), disk.last_error && h('p', { class: 'muted small' }, disk.last_error)],
      gib(disk.size_gb),
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
  if (!disk.standalone || (disk.workload_refs ?? []).length > 0) return null;
  const name = disk.name || disk.id;
  return h('button', { class: 'button small danger-quiet', type: 'button', onclick: async (event) => {
    const under = event.currentTarget;
    if (await confirm({ title: `Delete disk ${name}?`, text: 'Its data is gone for good.', action: 'Delete', danger: true, name })) {
      await perform(() => act.removeDisk(disk.id), `${name} is being deleted`, under);
    }
  } }, 'Delete');
}
