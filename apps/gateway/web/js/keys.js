// Ways to move without a mouse.

import { h } from './dom.js';
import { tell } from './parts/dialog.js';
import { go, link } from './router.js';

const PLACES = { o: [], w: ['workloads'], n: ['nodes'], e: ['events'], d: ['drift'], k: ['disks'], c: ['clusters'], a: ['apply'] };
const TOLD = [
  ['/', 'Search'], ['g o', 'Overview'], ['g w', 'Workloads'], ['g n', 'Nodes'], ['g e', 'Events'], ['g d', 'Drift'],
  ['g k', 'Disks'], ['g c', 'Clusters'], ['g a', 'Apply a file'], ['t', 'Light or dark'], ['?', 'This list'],
];
const SECOND_KEY_MS = 1500;

let went = 0;

export function listen(switchTheme) {
  document.addEventListener('keydown', (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || document.querySelector('dialog[open]')) return;
    if (event.target.matches('input, textarea, select')) {
      if (event.key === 'Escape' && event.target.type === 'search') event.target.blur();
      return;
    }
    if (Date.now() - went < SECOND_KEY_MS && PLACES[event.key]) {
      went = 0;
      go(link(...PLACES[event.key]));
    } else if (event.key === 'g') {
      went = Date.now();
    } else if (event.key === '/') {
      event.preventDefault();
      search();
    } else if (event.key === '?') {
      help();
    } else if (event.key === 't') {
      switchTheme();
    }
  });
}

function search() {
  const box = document.getElementById('search');
  if (box) {
    box.focus();
    box.select();
    return;
  }
  go(link('workloads'));
  requestAnimationFrame(() => requestAnimationFrame(() => document.getElementById('search')?.focus()));
}

export function help() {
  tell('Keys', h('dl', { class: 'keys-list' }, TOLD.map(([keys, what]) => h('div', { key: keys }, h('dt', null, keys.split(' ').map((key) => h('kbd', { key }, key))), h('dd', null, what)))));
}
