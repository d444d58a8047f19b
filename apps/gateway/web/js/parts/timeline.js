// What happened, newest first.

import { h } from '../dom.js';
import { link } from '../router.js';
import { clock, eventText, eventTone } from '../words.js';

export function timeline(events, { subject = true } = {}) {
  return h('ol', { class: 'timeline' }, events.map((event) => {
    const { what, why, by } = eventText(event);
    return h('li', { key: event.id, class: eventTone(event) },
      h('time', { datetime: event.timestamp }, clock(event.timestamp)),
      h('div', null,
        h('p', null, subject && subjectOf(event), h('span', { class: 'what' }, subject && !event.workload_id ? what.replace(/^node /, '') : what), !subject && event.node_id && h('span', { class: 'muted' }, ' on ', nodeLink(event.node_id))),
        why && h('p', { class: 'muted' }, why),
        by && h('p', { class: 'muted' }, by)));
  }));
}

function subjectOf(event) {
  if (event.workload_id) {
    return [h('a', { class: 'name', href: link('workloads', event.workload_id) }, event.workload_id), event.node_id && h('span', { class: 'muted' }, ' on ', nodeLink(event.node_id)), ' '];
  }
  if (event.node_id) return [h('span', { class: 'muted' }, 'node '), nodeLink(event.node_id), ' '];
  return h('span', { class: 'muted' }, 'cluster ');
}

function nodeLink(id) {
  return h('a', { href: link('nodes', id) }, id);
}
