// What a terminal shows, as a value: a grid of characters that bytes from a program change.
//
// It knows the codes that shells, editors and full-screen tools use (xterm's, as far as terminfo's
// `linux` and `xterm-256color` speak them): moving, erasing, inserting and deleting, scroll regions, the
// second screen, colours. What it does not know it swallows whole, never as stray letters.

const SCROLLBACK = 2000;
const PLAIN = Object.freeze({ fg: null, bg: null, bold: false, dim: false, italic: false, underline: false, inverse: false });
// Longest sequence that is waited for; a longer one is no sequence.
const MOST_SEQUENCE = 4096;

const BLANK = (style) => ({ char: ' ', style: style.bg === null ? PLAIN : { ...PLAIN, bg: style.bg } });

export class Screen {
  constructor(rows, columns, answer = () => {}) {
    Object.assign(this, { rows, columns, answer, rest: '', title: '', keypadCursor: false, bracketedPaste: false });
    this.decoder = new TextDecoder();
    this.reset();
  }

  reset() {
    this.history = [];
    this.grid = this.blankGrid();
    this.other = null;
    this.style = PLAIN;
    this.row = 0;
    this.column = 0;
    this.saved = { row: 0, column: 0, style: PLAIN };
    this.top = 0;
    this.bottom = this.rows - 1;
    this.hidden = false;
    this.wrapNext = false;
  }

  blankGrid() {
    return Array.from({ length: this.rows }, () => this.blankRow());
  }

  blankRow() {
    return Array.from({ length: this.columns }, () => BLANK(this.style ?? PLAIN));
  }

  resize(rows, columns) {
    const fit = (row) => (row.length > columns ? row.slice(0, columns) : [...row, ...Array.from({ length: columns - row.length }, () => BLANK(PLAIN))]);
    let grid = this.grid.map(fit);
    while (grid.length > rows) {
      // Room is taken from below the cursor first, then from above it.
      if (this.row < grid.length - 1) grid.pop();
      else {
        this.keep(grid.shift());
        this.row -= 1;
      }
    }
    this.rows = rows;
    this.columns = columns;
    while (grid.length < rows) grid.push(this.blankRow());
    this.grid = grid;
    if (this.other) this.other = this.blankGrid();
    this.top = 0;
    this.bottom = rows - 1;
    this.column = Math.min(this.column, columns - 1);
    this.wrapNext = false;
  }

  // Bytes of a program; sequences and letters may be cut anywhere.
  write(bytes) {
    const text = this.rest + this.decoder.decode(bytes, { stream: true });
    let at = 0;
    while (at < text.length) {
      const char = text[at];
      if (char === '\x1b') {
        const length = this.escape(text, at);
        if (length === 0) break;
        at += length;
      } else if (char < ' ' || char === '\x7f') {
        this.control(char);
        at += 1;
      } else {
        const letter = String.fromCodePoint(text.codePointAt(at));
        this.print(letter);
        at += letter.length;
      }
    }
    this.rest = text.length - at > MOST_SEQUENCE ? '' : text.slice(at);
  }

  print(char) {
    if (this.wrapNext) {
      this.column = 0;
      this.down();
      this.wrapNext = false;
    }
    this.grid[this.row][this.column] = { char, style: this.style };
    if (this.column === this.columns - 1) this.wrapNext = true;
    else this.column += 1;
  }

  control(char) {
    if (char === '\n' || char === '\x0b' || char === '\x0c') this.down();
    else if (char === '\r') this.column = 0;
    else if (char === '\b') this.column = Math.max(0, this.column - 1);
    else if (char === '\t') this.column = Math.min(this.columns - 1, (Math.floor(this.column / 8) + 1) * 8);
    else return;
    this.wrapNext = false;
  }

  // How many characters the sequence at `at` takes; 0 while its end is missing.
  escape(text, at) {
    const kind = text[at + 1];
    if (kind === undefined) return 0;
    if (kind === '[') {
      const match = /^[0-?]*[ -/]*[@-~]/.exec(text.slice(at + 2, at + 2 + 64));
      if (!match) return text.length - at > 66 ? 2 : 0;
      this.sequence(match[0]);
      return 2 + match[0].length;
    }
    if (']PX^_'.includes(kind)) return this.string(text, at);
    if ('()*+-./# %'.includes(kind)) return text.length > at + 2 ? 3 : 0;
    this.single(kind);
    return 2;
  }

  // A title, or something else in words, up to BEL or ST.
  string(text, at) {
    const ends = [text.indexOf('\x07', at), text.indexOf('\x1b\\', at + 2)].filter((end) => end >= 0);
    if (ends.length === 0) return text.length - at > MOST_SEQUENCE ? 2 : 0;
    const end = Math.min(...ends);
    const body = text.slice(at + 2, end);
    if (/^[02];/.test(body)) this.title = body.slice(2, 120);
    return end - at + (text[end] === '\x07' ? 1 : 2);
  }

  single(kind) {
    if (kind === '7') this.save();
    else if (kind === '8') this.restore();
    else if (kind === 'D') this.down();
    else if (kind === 'E') (this.column = 0), this.down();
    else if (kind === 'M') this.up();
    else if (kind === 'c') this.reset();
  }

  sequence(body) {
    const final = body.at(-1);
    const secret = '<=>?'.includes(body[0]) ? body[0] : '';
    const numbers = body.slice(secret.length, -1).split(/[;:]/).map((word) => parseInt(word, 10));
    const first = Number.isNaN(numbers[0]) ? 0 : Math.min(numbers[0], 9999);
    const many = Math.max(1, first);
    if (secret === '?' && (final === 'h' || final === 'l')) return numbers.forEach((mode) => this.mode(mode, final === 'h'));
    if (secret) return undefined;
    if (final !== 'm') this.wrapNext = false;
    return MOVES[final]?.(this, many, first, numbers);
  }

  mode(mode, on) {
    if (mode === 25) this.hidden = !on;
    else if (mode === 1) this.keypadCursor = on;
    else if (mode === 2004) this.bracketedPaste = on;
    else if (mode === 1049 || mode === 47 || mode === 1047) this.second(on);
  }

  // The screen that full-screen tools draw on, so that the first one is as before when they end.
  second(on) {
    if (on === (this.other !== null)) return;
    if (on) {
      this.save();
      this.other = this.grid;
      this.grid = this.blankGrid();
    } else {
      this.grid = this.other;
      this.other = null;
      this.restore();
    }
  }

  save() {
    this.saved = { row: this.row, column: this.column, style: this.style };
  }

  restore() {
    this.to(this.saved.row, this.saved.column);
    this.style = this.saved.style;
  }

  to(row, column) {
    this.row = Math.max(0, Math.min(this.rows - 1, row));
    this.column = Math.max(0, Math.min(this.columns - 1, column));
    this.wrapNext = false;
  }

  down() {
    if (this.row === this.bottom) this.scroll(1);
    else if (this.row < this.rows - 1) this.row += 1;
  }

  up() {
    if (this.row === this.top) this.scroll(-1);
    else if (this.row > 0) this.row -= 1;
  }

  scroll(many, from = this.top) {
    for (let turn = 0; turn < Math.min(Math.abs(many), this.rows); turn += 1) {
      if (many > 0) {
        const [gone] = this.grid.splice(from, 1);
        this.grid.splice(this.bottom, 0, this.blankRow());
        if (from === 0 && this.top === 0 && !this.other) this.keep(gone);
      } else {
        this.grid.splice(this.bottom, 1);
        this.grid.splice(from, 0, this.blankRow());
      }
    }
  }

  keep(row) {
    this.history.push(row);
    if (this.history.length > SCROLLBACK) this.history.shift();
  }

  erase(row, from, to) {
    for (let column = from; column < to; column += 1) this.grid[row][column] = BLANK(this.style);
  }

  eraseScreen(what) {
    if (what === 3) this.history = [];
    const [from, to] = what === 0 ? [this.row + 1, this.rows] : what === 1 ? [0, this.row] : [0, this.rows];
    for (let row = from; row < to; row += 1) this.erase(row, 0, this.columns);
    if (what < 2) this.eraseLine(what);
  }

  eraseLine(what) {
    this.erase(this.row, what === 0 ? this.column : 0, what === 1 ? this.column + 1 : this.columns);
  }

  shift(many) {
    const row = this.grid[this.row];
    const blanks = Array.from({ length: Math.min(Math.abs(many), this.columns - this.column) }, () => BLANK(this.style));
    if (many > 0) {
      row.splice(this.column, 0, ...blanks);
      row.length = this.columns;
    } else {
      row.splice(this.column, blanks.length);
      row.push(...blanks);
    }
  }

  paint(numbers) {
    for (let at = 0; at < numbers.length; at += 1) {
      const code = numbers[at] || 0;
      if (code === 38 || code === 48) {
        const [colour, taken] = extended(numbers, at);
        if (colour !== null) this.style = { ...this.style, [code === 38 ? 'fg' : 'bg']: colour };
        at += taken;
      } else {
        this.style = { ...this.style, ...styleOf(code) };
      }
    }
  }
}

const MOVES = {
  A: (s, many) => s.to(s.row - many, s.column),
  B: (s, many) => s.to(s.row + many, s.column),
  C: (s, many) => s.to(s.row, s.column + many),
  D: (s, many) => s.to(s.row, s.column - many),
  E: (s, many) => s.to(s.row + many, 0),
  F: (s, many) => s.to(s.row - many, 0),
  G: (s, many) => s.to(s.row, many - 1),
  '`': (s, many) => s.to(s.row, many - 1),
  d: (s, many) => s.to(many - 1, s.column),
  H: (s, many, _, numbers) => s.to(many - 1, (numbers[1] || 1) - 1),
  f: (s, many, _, numbers) => s.to(many - 1, (numbers[1] || 1) - 1),
  J: (s, _, first) => s.eraseScreen(first),
  K: (s, _, first) => s.eraseLine(first),
  X: (s, many) => s.erase(s.row, s.column, Math.min(s.columns, s.column + many)),
  L: (s, many) => s.row >= s.top && s.row <= s.bottom && s.scroll(-many, s.row),
  M: (s, many) => s.row >= s.top && s.row <= s.bottom && s.scroll(many, s.row),
  P: (s, many) => s.shift(-many),
  '@': (s, many) => s.shift(many),
  S: (s, many) => s.scroll(many),
  T: (s, many) => s.scroll(-many),
  m: (s, _, __, numbers) => s.paint(numbers),
  r: (s, many, _, numbers) => {
    s.top = Math.min(many - 1, s.rows - 1);
    s.bottom = Math.min((numbers[1] || s.rows) - 1, s.rows - 1);
    if (s.top >= s.bottom) Object.assign(s, { top: 0, bottom: s.rows - 1 });
    s.to(0, 0);
  },
  s: (s) => s.save(),
  u: (s) => s.restore(),
  n: (s, _, first) => first === 6 && s.answer(`\x1b[${s.row + 1};${s.column + 1}R`),
  c: (s) => s.answer('\x1b[?1;2c'),
};

function styleOf(code) {
  if (code === 0) return PLAIN;
  if (code === 1) return { bold: true };
  if (code === 2) return { dim: true };
  if (code === 3) return { italic: true };
  if (code === 4) return { underline: true };
  if (code === 7) return { inverse: true };
  if (code === 22) return { bold: false, dim: false };
  if (code === 23) return { italic: false };
  if (code === 24) return { underline: false };
  if (code === 27) return { inverse: false };
  if (code === 39) return { fg: null };
  if (code === 49) return { bg: null };
  if (code >= 30 && code <= 37) return { fg: code - 30 };
  if (code >= 40 && code <= 47) return { bg: code - 40 };
  if (code >= 90 && code <= 97) return { fg: code - 82 };
  if (code >= 100 && code <= 107) return { bg: code - 92 };
  return {};
}

// A colour of 256 is its number, a true one `rgb(...)`; and how many numbers it took.
function extended(numbers, at) {
  if (numbers[at + 1] === 5) {
    const colour = numbers[at + 2];
    return [colour < 16 ? colour : colour < 256 ? cube(colour) : null, 2];
  }
  if (numbers[at + 1] === 2) {
    const parts = numbers.slice(at + 2, at + 5).map((part) => Math.min(255, part || 0));
    return [`rgb(${parts.join(' ')})`, 4];
  }
  return [null, 1];
}

function cube(colour) {
  if (colour >= 232) {
    const level = 8 + (colour - 232) * 10;
    return `rgb(${level} ${level} ${level})`;
  }
  const level = (step) => (step === 0 ? 0 : 55 + step * 40);
  const index = colour - 16;
  return `rgb(${level(Math.floor(index / 36))} ${level(Math.floor(index / 6) % 6)} ${level(index % 6)})`;
}
