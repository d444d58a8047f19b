// Usage over time, as a line. It begins when the page was opened: nothing is stored for it.

import { h } from '../dom.js';

const WIDTH = 560;
const HEIGHT = 120;

// `points` are { at, value }; `words` turns a value into text.
export function graph({ label, points, words, least = 1 }) {
  const latest = points.at(-1)?.value ?? 0;
  const top = Math.max(least, ...points.map((point) => point.value)) * 1.15;
  return h('figure', { class: 'graph' },
    h('figcaption', null, h('span', null, label), h('span', { class: 'number' }, words(latest))),
    points.length < 2
      ? h('p', { class: 'graph-wait' }, 'Waiting for a second measurement.')
      : h('svg', { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: 'none', role: 'img', 'aria-label': `${label}: now ${words(latest)}, at most ${words(top / 1.15)}` },
          [0.25, 0.5, 0.75].map((share) => h('line', { class: 'graph-grid', x1: 0, x2: WIDTH, y1: HEIGHT * share, y2: HEIGHT * share })),
          h('path', { class: 'graph-area', d: `${path(points, top)} L${WIDTH} ${HEIGHT} L0 ${HEIGHT} Z` }),
          h('path', { class: 'graph-line', d: path(points, top) })));
}

function path(points, top) {
  const first = points[0].at;
  const span = Math.max(1, points.at(-1).at - first);
  return points
    .map((point, at) => {
      const x = ((point.at - first) / span) * WIDTH;
      const y = HEIGHT - (point.value / top) * HEIGHT;
      return `${at === 0 ? 'M' : 'L'}${x.toFixed(1)} ${y.toFixed(1)}`;
    })
    .join(' ');
}

// What was counted since the last sample, per second: for counters that only grow.
export function rates(samples, field) {
  const points = [];
  for (let at = 1; at < samples.length; at += 1) {
    const seconds = (Date.parse(samples[at].collected_at) - Date.parse(samples[at - 1].collected_at)) / 1000;
    const grown = Number(samples[at][field] ?? 0) - Number(samples[at - 1][field] ?? 0);
    if (seconds > 0) points.push({ at: Date.parse(samples[at].collected_at), value: Math.max(0, grown) / seconds });
  }
  return points;
}

export function levels(samples, field) {
  return samples.map((sample) => ({ at: Date.parse(sample.collected_at), value: Number(sample[field] ?? 0) }));
}
