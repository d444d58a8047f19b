// A shell inside a container, and the serial console of a machine.

import { sockets } from '../../api.js';
import { h } from '../../dom.js';
import { confirm } from '../../parts/dialog.js';
import { empty, held, panel } from '../../parts/frame.js';
import { Terminal } from '../../parts/terminal.js';
import { linkWith, replace } from '../../router.js';
import { containers } from './services.js';

export function terminal(view, own, query) {
  if (view.type === 'compose') return ofStack(view, own, query);
  if (view.status !== 'Running') return panel('Terminal', {}, empty('The container is not running', 'A shell can be opened while it is Running.'));
  return hosted('Terminal', view, { open: (id, size) => shell(id, size) });
}

function shell(id, size, service) {
  return sockets.exec(id, [['argv', '/bin/sh'], ['terminal', 'true'], ['rows', size.rows], ['columns', size.columns], ...(service ? [['service', service]] : [])]);
}

// A stack has a shell for each container that runs; the one that is chosen is in the address.
function ofStack(view, own, query) {
  if (own.described.at === 0) return panel('Terminal', {}, held(own.described, () => null));
  const all = containers(own);
  if (all.length === 0 && view.status === 'Running') return hosted('Terminal', view, { open: (id, size) => shell(id, size) });
  const chosen = all.find((one) => one.value === query.service) ?? all.find((one) => one.running);
  const options = all.map((one) => h('option', { key: one.value, value: one.value, disabled: !one.running }, one.text));
  const aside = all.length > 0 && h('label', { class: 'choice' }, h('span', null, 'Service'), h('select', { id: 'service', value: chosen?.value, onchange: (event) => replace(linkWith(['workloads', view.workload_id, 'terminal'], { service: event.target.value })) }, options));
  if (!chosen?.running) {
    return panel('Terminal', { aside }, empty(chosen ? `${chosen.text} is not running` : 'No container of the stack is running', 'A shell can be opened in a container that runs.'));
  }
  return hosted('Terminal', view, { name: chosen.value, aside, open: (id, size) => shell(id, size, chosen.value) });
}

export function consoleTab(view) {
  if (view.status !== 'Running') return panel('Console', {}, empty('The machine is not running', 'Its console can be opened while it is Running.'));
  return hosted('Console', view, { open: (id, _, force) => sockets.console(id, force ? [['force', 'true']] : []) });
}

// `name` tells the containers of a stack apart: another one is another terminal.
function hosted(title, view, { name = '', aside, open }) {
  const key = `${view.workload_id}/${view.epoch}/${name}`;
  const label = [view.workload_id, name].filter(Boolean).join('/');
  return panel(title, { class: 'terminal-panel', aside }, h('div', { key, class: 'terminal-frame', mount: (frame) => mount(frame, title, view.workload_id, label, open) }));
}

function mount(frame, title, id, shown, open) {
  const bar = make('div', 'log-bar');
  const again = make('button', 'button small');
  const said = make('span', 'log-state');
  said.setAttribute('role', 'status');
  again.type = 'button';
  again.textContent = 'Connect again';
  const host = make('div', 'terminal');
  bar.append(said, again);
  frame.append(bar, host);
  let socket = null;
  const terminal = new Terminal(host, {
    label: `${title} of ${shown}`,
    send: (bytes) => socket?.readyState === WebSocket.OPEN && socket.send(bytes),
    resized: (size) => tellSize(socket, size),
  });
  const connect = (force) => {
    again.hidden = true;
    said.textContent = 'connecting';
    socket = talk(open(id, terminal.size, force), terminal, said, (refusal) => {
      again.hidden = false;
      if (/held/.test(refusal?.problem?.detail ?? '')) takeOver(id).then((sure) => sure && connect(true));
    });
  };
  again.onclick = () => connect(false);
  connect(false);
  return () => {
    socket?.close();
    terminal.close();
  };
}

function tellSize(socket, size) {
  if (socket?.readyState === WebSocket.OPEN) socket.send(JSON.stringify({ size }));
}

// Bytes both ways; words about the connection are JSON.
function talk(socket, terminal, said, ended) {
  let last = null;
  socket.binaryType = 'arraybuffer';
  socket.onopen = () => {
    said.textContent = 'connected';
    // The page may have been laid out anew since the connection was asked for.
    tellSize(socket, terminal.size);
    terminal.focus();
  };
  socket.onmessage = ({ data }) => {
    // The first byte says which output it is; on a terminal both are one.
    if (typeof data !== 'string') return terminal.write(new Uint8Array(data, 1));
    last = JSON.parse(data);
    return undefined;
  };
  socket.onclose = (event) => {
    said.textContent = farewell(last, event);
    ended(last);
  };
  return socket;
}

function farewell(last, event) {
  if (last?.exit_code !== undefined) return `ended with code ${last.exit_code}`;
  return last?.problem?.detail || event.reason || 'the connection is closed';
}

function takeOver(id) {
  return confirm({ title: `Take over the console of ${id}?`, text: 'Somebody else holds it, and will be cut off.', action: 'Take it over' });
}

function make(tag, name) {
  const element = document.createElement(tag);
  element.className = name;
  return element;
}
