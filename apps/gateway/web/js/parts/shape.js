// Small drawings. A status has a shape of its own, so that it is told apart without its colour.

import { h } from '../dom.js';

const SHAPES = {
  disc: [['circle', { cx: 8, cy: 8, r: 5, fill: 'currentColor' }]],
  ring: [['circle', { cx: 8, cy: 8, r: 4.5, ...line() }]],
  check: [['path', { d: 'M3.5 8.5l3 3 6-6.5', ...line(2) }]],
  clock: [['circle', { cx: 8, cy: 8, r: 5.5, ...line() }], ['path', { d: 'M8 5v3.2l2 1.3', ...line() }]],
  half: [['circle', { cx: 8, cy: 8, r: 5, ...line() }], ['path', { d: 'M8 3a5 5 0 0 1 0 10z', fill: 'currentColor' }]],
  turn: [['path', { d: 'M12.6 6.2A5 5 0 1 0 13 9', ...line(1.8) }], ['path', { d: 'M13.2 2.8v3.6H9.6', ...line(1.8) }]],
  square: [['rect', { x: 4, y: 4, width: 8, height: 8, rx: 1.5, fill: 'currentColor' }]],
  cross: [['path', { d: 'M8 1.8l6.6 11.6H1.4z', fill: 'currentColor' }], ['path', { d: 'M8 6.2v3.4M8 11.6v.1', stroke: 'var(--surface)', 'stroke-width': 1.7, 'stroke-linecap': 'round' }]],
  overview: [['rect', { x: 2.5, y: 2.5, width: 4.5, height: 6, rx: 1, ...line() }], ['rect', { x: 2.5, y: 11, width: 4.5, height: 2.5, rx: 1, ...line() }], ['rect', { x: 9.5, y: 2.5, width: 4, height: 2.5, rx: 1, ...line() }], ['rect', { x: 9.5, y: 7.5, width: 4, height: 6, rx: 1, ...line() }]],
  workloads: [['path', { d: 'M8 1.8l5.5 3.1v6.2L8 14.2l-5.5-3.1V4.9z', ...line() }], ['path', { d: 'M2.8 5L8 8l5.2-3M8 8v6', ...line() }]],
  nodes: [['rect', { x: 2, y: 2.5, width: 12, height: 4.5, rx: 1.2, ...line() }], ['rect', { x: 2, y: 9, width: 12, height: 4.5, rx: 1.2, ...line() }], ['path', { d: 'M4.8 4.8h.1M4.8 11.3h.1', ...line(2) }]],
  disks: [['ellipse', { cx: 8, cy: 4, rx: 5.5, ry: 2, ...line() }], ['path', { d: 'M2.5 4v8c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2V4M2.5 8c0 1.1 2.5 2 5.5 2s5.5-.9 5.5-2', ...line() }]],
  drift: [['path', { d: 'M2 5h8.5M8 2.5L10.5 5 8 7.5M14 11H5.5M8 8.5L5.5 11 8 13.5', ...line() }]],
  events: [['path', { d: 'M5.5 3.5H14M5.5 8H14M5.5 12.5H14', ...line() }], ['path', { d: 'M2.2 3.5h.1M2.2 8h.1M2.2 12.5h.1', ...line(2.2) }]],
  clusters: [['circle', { cx: 8, cy: 3.5, r: 1.8, ...line() }], ['circle', { cx: 3.5, cy: 12, r: 1.8, ...line() }], ['circle', { cx: 12.5, cy: 12, r: 1.8, ...line() }], ['path', { d: 'M7.2 5.2L4.4 10.3M8.8 5.2l2.8 5.1M5.4 12h5.2', ...line() }]],
  apply: [['path', { d: 'M8 10.5V2.5M5 5.5l3-3 3 3M2.5 10v2.5a1 1 0 0 0 1 1h9a1 1 0 0 0 1-1V10', ...line() }]],
  sun: [['circle', { cx: 8, cy: 8, r: 2.8, ...line() }], ['path', { d: 'M8 1.5v1.3M8 13.2v1.3M1.5 8h1.3M13.2 8h1.3M3.4 3.4l.9.9M11.7 11.7l.9.9M3.4 12.6l.9-.9M11.7 4.3l.9-.9', ...line() }]],
  moon: [['path', { d: 'M13.2 9.6A5.8 5.8 0 0 1 6.4 2.8a5.8 5.8 0 1 0 6.8 6.8z', ...line() }]],
  leave: [['path', { d: 'M6.5 2.5h-3a1 1 0 0 0-1 1v9a1 1 0 0 0 1 1h3M10.5 5l3 3-3 3M13.2 8H6.5', ...line() }]],
};

function line(width = 1.5) {
  return { fill: 'none', stroke: 'currentColor', 'stroke-width': width, 'stroke-linecap': 'round', 'stroke-linejoin': 'round' };
}

export function shape(name) {
  const drawn = (SHAPES[name] ?? SHAPES.ring).map(([tag, props]) => h(tag, props));
  return h('svg', { class: 'shape', viewBox: '0 0 16 16', 'aria-hidden': 'true' }, drawn);
}
