// A status: shape, colour and word.

import { h } from '../dom.js';
import { look, nodeStatus, workloadStatus } from '../words.js';
import { shape } from './shape.js';

export function badge(word, notes = [], { tone, shape: drawn } = look(word)) {
  return h('span', { class: `badge ${tone}` }, shape(drawn), h('span', null, word), notes.map(([text, own = '']) => h('span', { class: `note ${own}` }, text)));
}

export function workloadBadge(view) {
  const { word, notes } = workloadStatus(view);
  // What is said of it may no longer be so, and does not look as if it were.
  return badge(word, notes, view.uncertain ? { tone: 'warn', shape: 'ring' } : undefined);
}

export function nodeBadge(node) {
  return badge(nodeStatus(node));
}
