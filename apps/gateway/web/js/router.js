// The part of the address after # says what is shown, so every view can be linked to, and the server
// never learns what somebody looks at.
//
//   #/workloads/web/logs?tail=100   is   { parts: ['workloads', 'web', 'logs'], query: { tail: '100' } }

export function route() {
  const [path, query] = location.hash.replace(/^#\/?/, '').split('?');
  return {
    parts: path.split('/').filter(Boolean).map(decode),
    query: Object.fromEntries(new URLSearchParams(query ?? '')),
  };
}

export function link(...parts) {
  return '#/' + parts.map(encodeURIComponent).join('/');
}

export function linkWith(parts, query) {
  const kept = Object.entries(query).filter(([, value]) => value);
  const text = new URLSearchParams(kept).toString();
  return link(...parts) + (text ? `?${text}` : '');
}

export function go(address) {
  location.hash = address;
}

// Changes the address without a step back to it: for what is typed letter by letter.
export function replace(address) {
  history.replaceState(null, '', address);
  window.dispatchEvent(new HashChangeEvent('hashchange'));
}

function decode(part) {
  try {
    return decodeURIComponent(part);
  } catch {
    return part;
  }
}
