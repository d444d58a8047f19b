// Server-sent events, read with fetch: unlike EventSource it tells "logged out" from "away", and can
// name the cluster in a header.

import { ask, Problem } from './api.js';

// Longest part of a message that is kept while its end is awaited.
const MOST = 1 << 20;

// Calls `on({ id, event, data })` for each message, `open()` once the server accepted, and returns when
// the server ends the stream. Throws a Problem when it cannot be opened, breaks off, or says nothing for
// `quiet` milliseconds.
export async function follow(path, { on, open, signal, quiet = 0 }) {
  const silence = new AbortController();
  let timer = null;
  const heard = () => {
    clearTimeout(timer);
    if (quiet > 0) timer = setTimeout(() => silence.abort(), quiet);
  };
  heard();
  try {
    const response = await ask(path, { accept: 'text/event-stream', signal: AbortSignal.any([signal, silence.signal]), within: 0 });
    open?.();
    await readAll(response.body, on, heard);
  } catch (error) {
    if (signal.aborted || error instanceof Problem) throw error;
    const detail = silence.signal.aborted ? 'The stream of events is silent.' : 'The stream of events broke off.';
    throw new Problem({ title: 'The gateway does not answer', detail });
  } finally {
    clearTimeout(timer);
  }
}

async function readAll(body, on, heard) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = '';
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    heard();
    rest = (rest + value).replace(/\r\n?/g, '\n');
    const messages = rest.split('\n\n');
    rest = messages.pop().slice(-MOST);
    for (const message of messages) {
      const parsed = parse(message);
      if (parsed) on(parsed);
    }
  }
}

function parse(message) {
  const found = { id: '', event: 'message', data: [] };
  for (const line of message.split('\n')) {
    const colon = line.indexOf(':');
    if (colon <= 0) continue;
    const value = line.slice(colon + 1).replace(/^ /, '');
    const name = line.slice(0, colon);
    if (name === 'data') found.data.push(value);
    else if (name === 'id' || name === 'event') found[name] = value;
  }
  return found.data.length > 0 ? { ...found, data: found.data.join('\n') } : null;
}
