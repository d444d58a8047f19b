// Resource usage of a workload since this page was opened.

import { h } from '../../dom.js';
import { empty, panel } from '../../parts/frame.js';
import { graph, levels, rates } from '../../parts/graph.js';
import { state } from '../../state.js';
import { bytes, clock, percent } from '../../words.js';

export function usage(view) {
  const samples = state.usage.get(view.workload_id) ?? [];
  if (samples.length === 0) return panel('Usage', {}, empty('No measurements yet', 'Its node measures running workloads every few seconds.'));
  const perSecond = (number) => `${bytes(number)}/s`;
  const mebibyte = 1024 * 1024;
  return panel('Usage', { aside: h('span', { class: 'muted' }, `since ${clock(samples[0].collected_at)}`) }, h('div', { class: 'graphs' },
    graph({ label: 'CPU', points: levels(samples, 'cpu_percent'), words: percent, least: 5 }),
    graph({ label: 'Memory', points: levels(samples, 'memory_bytes'), words: bytes, least: mebibyte }),
    graph({ label: 'Received', points: rates(samples, 'net_rx_bytes'), words: perSecond, least: 1024 }),
    graph({ label: 'Sent', points: rates(samples, 'net_tx_bytes'), words: perSecond, least: 1024 }),
    graph({ label: 'Read from disk', points: rates(samples, 'disk_read_bytes'), words: perSecond, least: 1024 }),
    graph({ label: 'Written to disk', points: rates(samples, 'disk_write_bytes'), words: perSecond, least: 1024 })));
}
