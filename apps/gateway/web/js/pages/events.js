// Everything that happened, as it happens.

import { h } from '../dom.js';
import { empty, head, held, panel } from '../parts/frame.js';
import { timeline } from '../parts/timeline.js';
import { linkWith, replace } from '../router.js';
import { state } from '../state.js';
import { apart } from '../words.js';

const SHOWN = 200;

export const events = {
  title: () => 'Events',
  wants: () => [],
  view: (_, query) => [
    head('Events', { under: state.link === 'live' ? 'New events appear by themselves' : 'New events do not arrive at the moment' }),
    panel('', { key: 'list' },
      h('div', { class: 'filters', key: 'filters', role: 'search' }, h('input', { id: 'search', type: 'search', placeholder: 'Search workload, node, event', 'aria-label': 'Search events', value: query.q ?? '', oninput: (event) => replace(linkWith(['events'], { q: event.target.value })) })),
      held(state.events, (all) => {
        const found = all.filter(matches(query.q ?? '')).slice(0, SHOWN);
        return found.length === 0 ? empty(query.q ? 'Nothing matches' : 'No events yet') : timeline(found);
      })),
  ],
};

function matches(text) {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return (event) => {
    const said = `${event.workload_id ?? ''} ${event.node_id ?? ''} ${apart(event.type)} ${event.type} ${event.reason ?? ''} ${event.details?.by ?? ''}`.toLowerCase();
    return words.every((word) => said.includes(word));
  };
}
