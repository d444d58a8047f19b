// A shell inside a container, and the serial console of a machine.

import { sockets } from '../../api.js';
import { h } from '../../dom.js';
import { empty, panel } from '../../parts/frame.js';
import { confirm } from '../../parts/dialog.js';
import { Terminal } from '../../parts/terminal.js';

export function terminal(view) {
  if (view.status !== 'Running') return panel('Terminal', {}, empty('It does not run', 'A shell can be opened once it is Running.'));
  return hosted('Terminal', view, (id, size) => sockets.exec(id, [['argv', '/bin/sh'], ['terminal', 'true'], ['rows', size.rows], ['columns', size.columns]]));
}

export function consoleTab(view) {
  if (view.status !== 'Running') return panel('Console', {}, empty('It does not run', 'Its console can be opened once it is Running.'));
  return hosted('Console', view, (id, _, force) => sockets.console(id, force ? [['force', 'true']] : []));
}

function hosted(title, view, open) {
  const key = `${view.workload_id}/${view.epoch}`;
  return panel(title, { class: 'terminal-panel' }, h('div', { key, class: 'terminal-frame', mount: (frame) => mount(frame, title, view.workload_id, open) }));
}

function mount(frame, title, id, open) {
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
    label: `${title} of ${id}`,
    send: (bytes) => socket?.readyState === WebSocket.OPEN && socket.send(bytes),
    resized: (size) => socket?.readyState === WebSocket.OPEN && socket.send(JSON.stringify({ size })),
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

// Bytes both ways; words about the connection are JSON.
function talk(socket, terminal, said, ended) {
  let last = null;
  socket.binaryType = 'arraybuffer';
  socket.onopen = () => {
    said.textContent = 'connected';
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
