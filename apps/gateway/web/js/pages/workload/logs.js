// The output of a workload, followed live.

import { streams } from '../../api.js';
import { h } from '../../dom.js';
import { panel } from '../../parts/frame.js';
import { follow } from '../../stream.js';
import { containers } from './services.js';

const TAIL = 500;
// Lines that are kept in the page.
const MOST_LINES = 5000;
const AGAIN_MS = 2000;
const SLACK = 40;

export function logs(view, own) {
  const services = containers(own, { whole: true }).map((one) => one.value);
  return panel('Logs', { class: 'log-panel' }, h('div', { key: `${view.workload_id}/${services.join(' ')}`, class: 'log-host', mount: (host) => mount(host, view.workload_id, services) }));
}

// The log looks after itself: thousands of lines are not worth comparing with each change of the page.
function mount(host, id, services) {
  const stop = new AbortController();
  const view = build(host, id, services);
  run(view, id, stop.signal);
  return () => stop.abort();
}

function build(host, id, services) {
  const view = { lines: 0, rest: ['', ''], service: '', restart: new AbortController(), find: '' };
  view.state = element('span', 'log-state', '');
  view.state.setAttribute('role', 'status');
  view.find = element('input', '', '');
  Object.assign(view.find, { type: 'search', placeholder: 'Show lines with', oninput: () => filter(view) });
  view.find.setAttribute('aria-label', 'Show only lines with');
  view.wrap = element('button', 'button small', 'Wrap');
  view.wrap.type = 'button';
  view.wrap.setAttribute('aria-pressed', 'true');
  view.box = element('div', 'log wrap', '');
  view.box.tabIndex = 0;
  view.box.setAttribute('role', 'log');
  view.box.setAttribute('aria-label', `Output of ${id}`);
  view.box.setAttribute('aria-live', 'off');
  view.wrap.onclick = () => view.wrap.setAttribute('aria-pressed', String(view.box.classList.toggle('wrap')));
  const bar = element('div', 'log-bar', '');
  bar.append(view.find, ...(services.length > 1 ? [choice(view, services)] : []), view.wrap, view.state);
  host.append(bar, view.box);
  return view;
}

function choice(view, services) {
  const select = element('select', '', '');
  select.setAttribute('aria-label', 'Service');
  for (const name of ['', ...services]) select.append(new Option(name || 'All services', name));
  select.onchange = () => {
    view.service = select.value;
    view.restart.abort();
  };
  return select;
}

async function run(view, id, signal) {
  while (!signal.aborted) {
    view.restart = new AbortController();
    const either = AbortSignal.any([signal, view.restart.signal]);
    view.state.textContent = 'connecting';
    try {
      clear(view);
      await follow(streams.logs(id, { tail: TAIL, service: view.service }), {
        signal: either,
        open: () => (view.state.textContent = 'following'),
        on: (message) => show(view, message),
      });
      view.state.textContent = 'ended; reconnecting';
    } catch (problem) {
      if (signal.aborted) return;
      if (problem.name !== 'AbortError') view.state.textContent = problem.message;
      else continue;
    }
    await new Promise((resolve) => setTimeout(resolve, AGAIN_MS));
  }
}

function clear(view) {
  view.box.replaceChildren();
  Object.assign(view, { lines: 0, rest: ['', ''] });
}

function show(view, message) {
  if (message.event === 'problem') {
    view.state.textContent = JSON.parse(message.data).detail;
    return;
  }
  const chunk = JSON.parse(message.data);
  const which = chunk.stream === 2 ? 1 : 0;
  const lines = (view.rest[which] + (chunk.text ?? '')).split('\n');
  view.rest[which] = lines.pop();
  const atEnd = view.box.scrollHeight - view.box.scrollTop - view.box.clientHeight < SLACK;
  view.box.append(...lines.map((line) => lineOf(line, which, view)));
  view.lines += lines.length;
  for (; view.lines > MOST_LINES; view.lines -= 1) view.box.firstChild.remove();
  if (atEnd) view.box.scrollTop = view.box.scrollHeight;
}

function lineOf(text, which, view) {
  // Colours and cursor moves have no place in a list of lines.
  const plain = text.replace(/\x1b\[[0-?]*[ -/]*[@-~]/g, '').replace(/\r$/, '');
  const line = element('div', which === 1 ? 'log-line err' : 'log-line', plain);
  line.hidden = !plain.toLowerCase().includes(view.find.value.toLowerCase());
  return line;
}

function filter(view) {
  const wanted = view.find.value.toLowerCase();
  for (const line of view.box.children) line.hidden = !line.textContent.toLowerCase().includes(wanted);
  view.box.scrollTop = view.box.scrollHeight;
}

function element(tag, name, text) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text) made.textContent = text;
  return made;
}
