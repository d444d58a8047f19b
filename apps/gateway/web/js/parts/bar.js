// A resource: the share that is reserved, and the share that is really used.

import { h } from '../dom.js';
import { percent } from '../words.js';

const HIGH = 0.9;
const RAISED = 0.75;

// `words` turns an amount into text, `unit` follows it. Used is left out where nobody measures it.
export function bar({ label, total, reserved, used, words, unit = '', verb = 'reserved' }) {
  const share = total > 0 ? Math.min(1, reserved / total) : 0;
  const tone = share >= HIGH ? 'high' : share >= RAISED ? 'raised' : '';
  const said = total > 0 ? `${words(reserved)} of ${words(total)}${unit} ${verb}` : 'none';
  const usedShare = used === undefined || total <= 0 ? null : Math.min(1, used / total);
  const usedSaid = usedShare === null ? '' : `${words(used)} in use`;
  return h('div', { class: 'gauge' },
    h('div', { class: 'gauge-head' }, h('span', { class: 'gauge-label' }, label), h('span', { class: 'number' }, total > 0 ? percent(share * 100) : '–')),
    h('div', { class: 'track', role: 'img', 'aria-label': `${label}: ${said}${usedSaid && `, ${usedSaid}`}` },
      h('div', { class: `fill ${tone}`, style: { width: `${share * 100}%` } }),
      usedShare !== null && h('div', { class: 'used', style: { width: `${usedShare * 100}%` } })),
    h('div', { class: 'gauge-foot' }, h('span', null, said), usedSaid && h('span', { class: 'gauge-used' }, usedSaid)));
}

// The same in a table: one line.
export function smallBar({ label, total, reserved, words }) {
  const share = total > 0 ? Math.min(1, reserved / total) : 0;
  const tone = share >= HIGH ? 'high' : share >= RAISED ? 'raised' : '';
  return h('div', { class: 'small-gauge', role: 'img', 'aria-label': `${label}: ${words(reserved)} of ${words(total)} reserved` },
    h('div', { class: 'track' }, h('div', { class: `fill ${tone}`, style: { width: `${share * 100}%` } })),
    h('span', { class: 'number' }, `${words(reserved)} / ${words(total)}`));
}
