// Revisions of a workload: which runs, which failed, what changed, and the way back.

import { act, read } from '../../api.js';
import { h } from '../../dom.js';
import { mayChange, perform } from '../../parts/actions.js';
import { confirm } from '../../parts/dialog.js';
import { empty, held, panel, problemNotice, table } from '../../parts/frame.js';
import { fill, heldPart } from '../../state.js';
import { age } from '../../words.js';

export function history(view, own) {
  const id = view.workload_id;
  const columns = [{ name: 'Number' }, { name: 'State' }, { name: 'Age', class: 'right' }, { name: 'By' }, { name: 'Revision' }, { name: 'Note', class: 'why' }, { name: '' }];
  return [
    panel('Revisions', { key: 'revisions' }, held(own.history, (all) => (all.length === 0
      ? empty('No revisions are recorded')
      : table('Revisions', columns, all.map((one, at) => ({
          key: one.number,
          cells: [
            String(one.number),
            word(one),
            one.since ? age(one.since) : '–',
            one.by || '–',
            h('code', { title: one.revision_id }, (one.revision_id ?? '').slice(0, 20)),
            h('span', { class: 'clamp', title: one.failed }, one.failed || (one.rolled_back_to ? `content of revision ${one.rolled_back_to}` : '')),
            h('span', { class: 'actions' }, buttons(id, one, all[at + 1], own)),
          ],
        })))))),
    own.diff && panel(`Revision ${own.diff.from} and revision ${own.diff.to}`, { key: 'diff' }, own.diff.part.problem ? problemNotice(own.diff.part.problem, own.diff.part.at) : held(own.diff.part, differences)),
  ];
}

function word({ present, running, failed }) {
  if (running) return present ? 'present' : 'running';
  if (present) return failed ? 'update failed' : 'updating';
  return failed ? 'failed' : '–';
}

function buttons(id, one, before, own) {
  return [
    before && h('button', { key: 'diff', type: 'button', class: 'button', onclick: () => compare(id, before.number, one.number, own) }, 'Diff'),
    !one.present && mayChange() && h('button', { key: 'back', type: 'button', class: 'button', onclick: (event) => back(id, one.number, event.currentTarget) }, 'Roll back'),
  ].filter(Boolean);
}

function compare(id, from, to, own) {
  own.diff = { from, to, part: heldPart([]) };
  fill(own.diff.part, () => read.diff(id, from, to));
}

async function back(id, number, under) {
  const sure = await confirm({ title: `Roll ${id} back to revision ${number}?`, text: 'It becomes a new revision with the content of that one. Data is not rolled back.', action: 'Roll back' });
  if (sure) await perform(() => act.rollback(id, number), `${id} goes back to revision ${number}`, under);
}

function differences(all) {
  if (all.length === 0) return empty('They have the same content');
  return h('ul', { class: 'plain differences' }, all.map((one) => h('li', { key: one.path },
    h('code', null, one.path), one.before ? [' ', h('del', null, one.before)] : '', one.after ? [' ', h('ins', null, one.after)] : '')));
}
