// The clusters this gateway knows, and how each answers. One that is away says so, and hides nothing else.

import { h } from '../dom.js';
import { badge } from '../parts/badge.js';
import { empty, head, held, panel, table } from '../parts/frame.js';
import { shape } from '../parts/shape.js';
import { state } from '../state.js';
import { ago } from '../words.js';

export function clusterId(cluster) {
  return cluster.id ?? '';
}

export function clustersPage(chooseCluster) {
  return {
    title: () => 'Clusters',
    wants: () => ['clusters'],
    view: () => [
      head('Clusters', { under: 'Known to this gateway' }),
      panel('', { key: 'list' }, held(state.clusters, (all) => (all.length === 0 ? empty('This gateway serves one cluster', 'More are named in its cluster.yaml.') : list(all, chooseCluster)))),
    ],
  };
}

function list(all, chooseCluster) {
  return table('Clusters', [{ name: 'Cluster' }, { name: 'Health' }, { name: 'Routing' }, { name: 'Schedulers' }, { name: 'Actions', class: 'right' }], all.map((cluster) => {
    const id = clusterId(cluster);
    const shown = state.cluster ? id === state.cluster : cluster.by_default;
    const schedulers = cluster.schedulers ?? [];
    return {
      key: id,
      cells: [
        [h('span', { class: 'name' }, cluster.name || id), shown && h('span', { class: 'tag' }, 'shown')],
        badge(healthy(cluster) ? 'Ready' : 'NotReady'),
        cluster.routing_strategy || '–',
        schedulers.map((one) => h('div', { key: one.id, class: one.healthy ? 'scheduler' : 'scheduler bad' }, shape(one.healthy ? 'disc' : 'cross'), one.address, !one.healthy && h('span', { class: 'muted' }, one.last_seen ? `, last seen ${ago(one.last_seen)}` : ', never seen'))),
        shown ? '' : h('button', { class: 'button small', type: 'button', onclick: () => chooseCluster(id) }, 'Show'),
      ],
    };
  }));
}

function healthy(cluster) {
  return (cluster.healthy_schedulers ?? 0) > 0;
}
