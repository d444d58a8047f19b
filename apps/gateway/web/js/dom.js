// Turns values into the page, and changes only what differs.
//
// Text only ever becomes text nodes and attributes, so nothing a workload, a node or a user is called
// can become markup. What has the focus, a scroll position or a selection keeps it, because an element
// that is still wanted is never made anew.
//
//   h('a', { class: 'name', href: '#/nodes' }, 'Nodes')   describes an element
//   render(root, description)                             makes the page so
//
// Besides attributes and `on...` functions a description may have:
//   key     which element among its siblings it is, when they change places
//   style   an object of CSS properties
//   mount   (element) => undefined | () => void: the element looks after its own inside from here on;
//           called when the element is in the page, so that it can be measured

const SVG = 'http://www.w3.org/2000/svg';
const AS_PROPERTY = new Set(['value', 'checked', 'disabled', 'selected', 'open']);
const MADE = Symbol('description');
const LEAVE = Symbol('leave');

export function h(tag, props, ...kids) {
  return { tag, props: props ?? {}, kids: kids.flat(Infinity).filter(shown) };
}

// Elements to mount once the whole page is in place.
const unmounted = [];

export function render(root, description) {
  patchKids(root, [description].filter(shown));
  for (let next = unmounted.shift(); next; next = unmounted.shift()) next[LEAVE] = next[MADE].props.mount(next);
}

function shown(kid) {
  return kid !== null && kid !== undefined && kid !== false && kid !== true && kid !== '';
}

function patchKids(parent, kids) {
  const keyed = new Map();
  for (const child of parent.childNodes) {
    const key = child[MADE]?.props?.key;
    if (key !== undefined) keyed.set(key, child);
  }
  let at = parent.firstChild;
  for (const kid of kids) {
    const match = find(kid, at, keyed);
    if (match) {
      if (match !== at) parent.insertBefore(match, at);
      else at = at.nextSibling;
      patch(match, kid);
    } else {
      parent.insertBefore(make(kid, parent), at);
    }
  }
  while (at) {
    const next = at.nextSibling;
    remove(at);
    at = next;
  }
}

// The element that already stands for `kid`, if there is one.
function find(kid, at, keyed) {
  const key = kid.props?.key;
  const candidate = key === undefined ? at : keyed.get(key);
  return candidate && alike(candidate, kid) ? candidate : null;
}

function alike(node, kid) {
  if (typeof kid !== 'object') return node.nodeType === Node.TEXT_NODE;
  const was = node[MADE];
  return was !== undefined && was.tag === kid.tag && was.props.key === kid.props.key;
}

function make(kid, parent) {
  if (typeof kid !== 'object') return document.createTextNode(kid);
  const svg = kid.tag === 'svg' || parent.namespaceURI === SVG;
  const element = svg ? document.createElementNS(SVG, kid.tag) : document.createElement(kid.tag);
  element[MADE] = { tag: kid.tag, props: {} };
  patch(element, kid);
  if (kid.props.mount) unmounted.push(element);
  return element;
}

function patch(node, kid) {
  if (typeof kid !== 'object') {
    const text = String(kid);
    if (node.data !== text) node.data = text;
    return;
  }
  const before = node[MADE].props;
  for (const name of Object.keys(before)) if (!(name in kid.props)) set(node, name, undefined, before[name]);
  for (const [name, value] of Object.entries(kid.props)) set(node, name, value, before[name]);
  node[MADE] = kid;
  if (!kid.props.mount) patchKids(node, kid.kids);
  // A choice can only be set once its options are there.
  if (kid.tag === 'select' && node.value !== kid.props.value) node.value = kid.props.value;
}

function set(node, name, value, before) {
  if (name === 'key' || name === 'mount') return;
  if (name.startsWith('on')) {
    if (value !== before) node[name] = value ?? null;
  } else if (name === 'style') {
    for (const property of Object.keys(before ?? {})) {
      if (!(property in (value ?? {}))) node.style.removeProperty(property);
    }
    for (const [property, wanted] of Object.entries(value ?? {})) node.style.setProperty(property, wanted);
  } else if (AS_PROPERTY.has(name) && node.localName !== 'option') {
    if (node.localName !== 'select' && node[name] !== value) node[name] = value ?? '';
  } else if (value === before) {
    return;
  } else if (value === undefined || value === null || value === false) {
    node.removeAttribute(name);
  } else {
    node.setAttribute(name, name === 'href' ? safe(value) : value === true ? '' : value);
  }
}

// Addresses come from data too; only those that lead to a page are followed.
function safe(address) {
  return /^(#|\/|https?:)/.test(address) ? address : '#/';
}

function remove(node) {
  leave(node);
  node.remove();
}

function leave(node) {
  node[LEAVE]?.();
  for (const child of node.childNodes) leave(child);
}
