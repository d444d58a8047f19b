// Runs inside a page of the dashboard: what programs send, and what a terminal of 4 rows and 10 columns
// shows of it. Answers with every case that is shown otherwise.

const done = arguments[arguments.length - 1];
const CASES = [
  ['letters and lines', 'one\r\ntwo', ['one', 'two', '', '']],
  ['a long line goes on below', '0123456789ab', ['0123456789', 'ab', '', '']],
  ['a full line alone does not scroll', '0123456789\r\nx', ['0123456789', 'x', '', '']],
  ['more lines than there are rows', '1\r\n2\r\n3\r\n4\r\n5', ['2', '3', '4', '5']],
  ['backspace and overwriting', 'abc\b\bX', ['aXc', '', '', '']],
  ['a tab', 'a\tb', ['a       b', '', '', '']],
  ['a place by row and column', '\x1b[2;3Hx', ['', '  x', '', '']],
  ['moving relative', 'ab\x1b[1Bc\x1b[2Ad\x1b[3Ge', ['abed', '  c', '', '']],
  ['erasing to the end of a line', 'abcdef\x1b[3D\x1b[K', ['abc', '', '', '']],
  ['erasing from the start of a line', 'abcdef\x1b[3D\x1b[1K', ['    ef', '', '', '']],
  ['erasing the screen', 'abc\r\ndef\x1b[2J\x1b[Hx', ['x', '', '', '']],
  ['inserting and deleting characters', 'abcd\x1b[3D\x1b[2@XY\x1b[2P', ['aXYd', '', '', '']],
  ['inserting and deleting lines', '1\r\n2\r\n3\x1b[2;1H\x1b[L\x1b[1;1H\x1b[M', ['', '2', '3', '']],
  ['a region that scrolls by itself', '1\r\n2\r\n3\r\n4\x1b[2;3r\x1b[3;1H\n\x1b[3;1Hx', ['1', '3', 'x', '4']],
  ['going up past the top', '1\r\n2\x1b[H\x1bM0', ['0', '1', '2', '']],
  ['the second screen leaves the first alone', 'first\x1b[?1049hsecond\x1b[?1049l', ['first', '', '', '']],
  ['keeping and finding a place', 'ab\x1b7\r\ncd\x1b8x', ['abx', 'cd', '', '']],
  ['colours are not letters', '\x1b[1;31mred\x1b[0m \x1b[38;5;208mo\x1b[48;2;1;2;3mb\x1b[m', ['red ob', '', '', '']],
  ['a title is not letters', '\x1b]0;title\x07a\x1b]2;other\x1b\\b', ['ab', '', '', '']],
  ['other alphabets are not letters', '\x1b(Ba\x1b)0b\x1b=c\x1b>d', ['abcd', '', '', '']],
  ['unknown codes vanish whole', 'a\x1b[?2026hb\x1b[>4;1mc\x1b[99zd', ['abcd', '', '', '']],
  ['letters beyond ASCII', 'gr\u00fc\u00df \u2713', ['gr\u00fc\u00df \u2713', '', '', '']],
  ['a huge count does no harm', 'a\x1b[99999999999Bb\x1b[99999999999S', ['', '', '', '']],
];

function text(row) {
  return row.map((cell) => cell.char).join('').trimEnd();
}

import('/assets/js/parts/screen.js').then(({ Screen }) => {
  const faults = [];
  for (const [name, input, wanted] of CASES) {
    const bytes = new TextEncoder().encode(input);
    const whole = new Screen(4, 10);
    whole.write(bytes);
    // However the bytes are cut, the same is shown.
    const pieces = new Screen(4, 10);
    for (const byte of bytes) pieces.write(Uint8Array.of(byte));
    for (const [way, screen] of [['whole', whole], ['in pieces', pieces]]) {
      const shown = screen.grid.map(text);
      if (shown.join('\n') !== wanted.join('\n')) faults.push(`${name}, ${way}: ${JSON.stringify(shown)}`);
    }
  }
  const answers = [];
  const asked = new Screen(4, 10, (answer) => answers.push(answer));
  asked.write(new TextEncoder().encode('ab\x1b[6n'));
  if (answers[0] !== '\x1b[1;3R') faults.push(`where the cursor is: ${JSON.stringify(answers)}`);
  const small = new Screen(4, 10);
  small.write(new TextEncoder().encode('1\r\n2\r\n3\r\n4'));
  small.resize(2, 3);
  if (small.grid.map(text).join() !== '3,4' || small.row !== 1) faults.push(`made smaller: ${small.grid.map(text)}`);
  done(faults);
}).catch((error) => done([String(error)]));
