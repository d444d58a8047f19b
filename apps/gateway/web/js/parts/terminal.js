// A terminal in the page: a screen drawn as text, and keys turned into what programs expect.
//
// Tab belongs to the program inside; Shift+Tab leaves, so nobody is caught.

import { Screen } from './screen.js';

const KEYS = {
  Enter: '\r', Backspace: '\x7f', Tab: '\t', Escape: '\x1b',
  Delete: '\x1b[3~', Insert: '\x1b[2~', PageUp: '\x1b[5~', PageDown: '\x1b[6~',
  F1: '\x1bOP', F2: '\x1bOQ', F3: '\x1bOR', F4: '\x1bOS', F5: '\x1b[15~', F6: '\x1b[17~',
  F7: '\x1b[18~', F8: '\x1b[19~', F9: '\x1b[20~', F10: '\x1b[21~', F11: '\x1b[23~', F12: '\x1b[24~',
};
const ARROWS = { ArrowUp: 'A', ArrowDown: 'B', ArrowRight: 'C', ArrowLeft: 'D', Home: 'H', End: 'F' };
const BOTTOM_SLACK = 24;

export class Terminal {
  // `send` gets bytes that were typed, `resized` the new size.
  constructor(host, { label, send, resized = () => {} }) {
    this.send = (text) => send(new TextEncoder().encode(text));
    this.resized = resized;
    this.host = host;
    this.paper = make('div', 'paper', { role: 'log', 'aria-label': `${label}, output` });
    this.keys = make('textarea', 'keys', { 'aria-label': `${label}, type here; Shift+Tab leaves`, autocapitalize: 'off', autocomplete: 'off', autocorrect: 'off', spellcheck: 'false' });
    host.append(this.paper, this.keys);
    this.screen = new Screen(24, 80, this.send);
    this.lines = [];
    this.listen();
    this.watcher = new ResizeObserver(() => this.fit());
    this.watcher.observe(host);
    this.fit();
  }

  write(bytes) {
    this.screen.write(bytes);
    this.draw();
  }

  focus() {
    this.keys.focus({ preventScroll: true });
  }

  close() {
    this.watcher.disconnect();
  }

  get size() {
    return { rows: this.screen.rows, columns: this.screen.columns };
  }

  listen() {
    this.keys.onkeydown = (event) => this.key(event);
    this.keys.oninput = (event) => {
      if (event.isComposing) return;
      this.type(this.keys.value);
      this.keys.value = '';
    };
    this.keys.onpaste = (event) => {
      event.preventDefault();
      const text = event.clipboardData.getData('text').replace(/\r?\n/g, '\r');
      this.type(this.screen.bracketedPaste ? `\x1b[200~${text}\x1b[201~` : text);
    };
    this.host.onmouseup = () => {
      // A selection is for copying; a mere click is for typing.
      if (getSelection().isCollapsed) this.focus();
    };
  }

  type(text) {
    if (!text) return;
    this.send(text);
    this.host.scrollTop = this.host.scrollHeight;
  }

  key(event) {
    if (event.isComposing || event.metaKey) return;
    if (event.key === 'Tab' && event.shiftKey) return;
    const text = this.codeOf(event);
    if (text === null) return;
    event.preventDefault();
    this.type(text);
  }

  codeOf({ key, ctrlKey, altKey, shiftKey }) {
    if (ctrlKey && shiftKey) return null;
    if (ARROWS[key]) {
      const modifier = 1 + (shiftKey ? 1 : 0) + (altKey ? 2 : 0) + (ctrlKey ? 4 : 0);
      if (modifier > 1) return `\x1b[1;${modifier}${ARROWS[key]}`;
      return (this.screen.keypadCursor ? '\x1bO' : '\x1b[') + ARROWS[key];
    }
    if (KEYS[key]) return KEYS[key];
    if (ctrlKey && key.length === 1) {
      const code = key.toUpperCase().charCodeAt(0);
      if (key === ' ') return '\x00';
      return code >= 64 && code < 96 ? String.fromCharCode(code - 64) : null;
    }
    if (altKey && key.length === 1) return `\x1b${key}`;
    return null;
  }

  // As many rows and columns as there is room for.
  fit() {
    const probe = make('span', 'probe', {});
    probe.textContent = 'MMMMMMMMMM';
    this.paper.append(probe);
    const { width, height } = probe.getBoundingClientRect();
    probe.remove();
    if (width === 0) return;
    const style = getComputedStyle(this.host);
    const inner = (size, a, b) => size - parseFloat(style[a]) - parseFloat(style[b]);
    const columns = Math.max(20, Math.floor(inner(this.host.clientWidth, 'paddingLeft', 'paddingRight') / (width / 10)));
    // A line is as high as the style says; the letters in it are lower.
    const line = parseFloat(style.lineHeight) || height;
    const rows = Math.max(5, Math.floor(inner(this.host.clientHeight, 'paddingTop', 'paddingBottom') / line));
    if (rows === this.screen.rows && columns === this.screen.columns && this.lines.length > 0) return;
    this.screen.resize(rows, columns);
    Object.assign(this.host.dataset, { rows, columns });
    this.resized(this.size);
    this.draw();
  }

  draw() {
    if (this.drawing) return;
    this.drawing = true;
    requestAnimationFrame(() => {
      this.drawing = false;
      this.paint();
    });
  }

  paint() {
    const { screen, host } = this;
    const atEnd = host.scrollHeight - host.scrollTop - host.clientHeight < BOTTOM_SLACK;
    const wanted = [...screen.history, ...screen.grid];
    while (this.lines.length > wanted.length) this.lines.pop().element.remove();
    wanted.forEach((cells, at) => {
      const cursor = at - screen.history.length === screen.row && !screen.hidden ? screen.column : -1;
      const line = this.lines[at] ?? this.addLine();
      const drawn = spans(cells, cursor);
      if (line.drawn === drawn.key) return;
      line.drawn = drawn.key;
      line.element.replaceChildren(...drawn.runs.map(span));
    });
    if (atEnd) host.scrollTop = host.scrollHeight;
  }

  addLine() {
    const line = { element: make('div', 'line', {}), drawn: null };
    this.paper.append(line.element);
    this.lines.push(line);
    return line;
  }
}

// Neighbours that look the same, as one piece each; and a key that tells whether a line changed.
function spans(cells, cursor) {
  const runs = [];
  cells.forEach((cell, column) => {
    const style = column === cursor ? { ...cell.style, cursor: true } : cell.style;
    const look = JSON.stringify(style);
    const last = runs.at(-1);
    if (last && last.look === look) last.text += cell.char;
    else runs.push({ look, style, text: cell.char });
  });
  const end = runs.at(-1);
  if (end && !end.style.cursor && end.style.bg === null && !end.style.inverse) end.text = end.text.trimEnd();
  return { runs, key: runs.map((run) => run.look + run.text).join('\n') };
}

function span({ style, text }) {
  const element = document.createElement('span');
  element.textContent = text;
  const { fg, bg, ...flags } = style;
  const names = Object.entries(flags).filter(([, on]) => on).map(([name]) => `t-${name}`);
  colour(element, names, 'fg', fg);
  colour(element, names, 'bg', bg);
  if (names.length > 0) element.className = names.join(' ');
  return element;
}

function colour(element, names, which, value) {
  if (value === null) return;
  if (typeof value === 'number') names.push(`t-${which}-${value}`);
  else element.style.setProperty(which === 'fg' ? 'color' : 'background-color', value);
}

function make(tag, name, attributes) {
  const element = document.createElement(tag);
  element.className = name;
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  return element;
}
