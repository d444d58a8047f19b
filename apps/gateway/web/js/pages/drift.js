// Differences between the record and the nodes, and the operator's decision about unknown workloads.

import { act } from '../api.js';
import { h } from '../dom.js';
import { mayOperate, perform } from '../parts/actions.js';
import { confirm } from '../parts/dialog.js';
import { empty, head, held, panel, table } from '../parts/frame.js';
import { link } from '../router.js';
import { state } from '../state.js';
import { ago } from '../words.js';

const KINDS = {
  orphan_on_agent: 'Unknown workload',
  state_mismatch: 'State differs',
  revision_mismatch: 'Revision differs',
  missing_on_agent: 'Missing on its node',
};

export const drift = {
  title: () => 'Drift',
  wants: () => ['drifts'],
  view: () => [
    head('Drift', { under: 'Differences between the record and what nodes run', actions: mayOperate() && h('button', { class: 'button', type: 'button', onclick: (event) => perform(act.checkDrift, 'All nodes are being checked', event.currentTarget) }, 'Check now') }),
    panel('', { key: 'list' }, held(state.drifts, (all) => (all.length === 0 ? empty('No differences', 'The nodes run what is recorded.') : list(all)))),
  ],
};

function list(all) {
  const columns = [{ name: 'Workload' }, { name: 'Node' }, { name: 'Difference' }, { name: 'Recorded' }, { name: 'Found' }, { name: 'Remedy' }, { name: 'Since', class: 'right' }, { name: 'Actions', class: 'right' }];
  return table('Differences', columns, all.map((one) => ({
    key: `${one.node_id}/${one.workload_id}/${one.kind}`,
    tone: one.ignored ? 'dimmed' : '',
    cells: [
      h('a', { class: 'name', href: link('workloads', one.workload_id) }, one.workload_id),
      h('a', { href: link('nodes', one.node_id) }, one.node_id),
      [KINDS[one.kind] ?? one.kind, one.ignored && h('span', { class: 'tag' }, 'ignored')],
      one.recorded || '–',
      one.found || '–',
      one.remedy || '–',
      ago(one.since),
      mayOperate() && one.kind === 'orphan_on_agent' ? h('div', { class: 'row-actions' }, verdicts(one)) : '',
    ],
  })));
}

function verdicts(one) {
  const say = (verdict, said) => (event) => perform(() => act.orphan(one, verdict), said, event.currentTarget);
  return [
    h('button', { key: 'adopt', class: 'button small', type: 'button', onclick: say('adopt', `${one.workload_id} is adopted`) }, 'Adopt'),
    !one.ignored && h('button', { key: 'ignore', class: 'button small', type: 'button', onclick: say('ignore', `${one.workload_id} is ignored`) }, 'Ignore'),
    h('button', { key: 'delete', class: 'button small danger-quiet', type: 'button', onclick: async (event) => {
      const under = event.currentTarget;
      if (await confirm({ title: `Delete ${one.workload_id} on ${one.node_id}?`, text: 'No record of it exists. It is stopped and removed, with its data.', action: 'Delete', danger: true, name: one.workload_id })) {
        await perform(() => act.orphan(one, 'delete'), `${one.workload_id} is being removed`, under);
      }
    } }, 'Delete'),
  ];
}
