// Questions before something that cannot be undone, and short messages afterwards.

import { h, render } from '../dom.js';

// Resolves to true when confirmed. With `name`, that name has to be typed first.
// `option` can be chosen beside yes; the answer then tells whether it was. `details(chosen)` describes what
// will happen, for either choice.
export function confirm({ title, text, action, danger = false, name, option, details }) {
  return new Promise((resolve) => {
    const dialog = document.createElement('dialog');
    dialog.setAttribute('aria-labelledby', 'dialog-title');
    const close = (answer) => {
      dialog.close();
      dialog.remove();
      resolve(answer);
    };
    let chosen = false;
    let typed = '';
    const draw = () => render(dialog, h('form', { method: 'dialog', onsubmit: (event) => { event.preventDefault(); if (!name || typed === name) close(option ? { chosen } : true); } },
      h('h2', { id: 'dialog-title', key: 'title' }, title),
      text && h('p', { key: 'text' }, text),
      details && h('div', { key: 'details', class: 'dialog-details' }, details(chosen)),
      option && h('label', { class: 'option', key: 'option' },
        h('input', { type: 'checkbox', name: 'option', checked: chosen, onchange: (event) => { chosen = event.target.checked; draw(); } }), ' ', option),
      name && h('label', { class: 'field', key: 'name' }, h('span', null, 'Type ', h('code', null, name), ' to confirm'),
        h('input', { type: 'text', name: 'confirm', autocomplete: 'off', spellcheck: 'false', autofocus: true, value: typed, oninput: (event) => { typed = event.target.value; draw(); } })),
      h('div', { class: 'dialog-actions', key: 'actions' },
        h('button', { type: 'button', class: 'button', onclick: () => close(false) }, 'Cancel'),
        h('button', { type: 'submit', class: `button ${danger ? 'danger' : 'primary'}`, disabled: Boolean(name) && typed !== name }, action))));
    dialog.oncancel = (event) => {
      event.preventDefault();
      close(false);
    };
    draw();
    document.body.append(dialog);
    dialog.showModal();
  });
}

// A dialog that only tells something.
export function tell(title, ...kids) {
  const dialog = document.createElement('dialog');
  dialog.setAttribute('aria-labelledby', 'dialog-title');
  render(dialog, h('form', { method: 'dialog' },
    h('h2', { id: 'dialog-title' }, title), kids,
    h('div', { class: 'dialog-actions' }, h('button', { type: 'submit', class: 'button primary' }, 'Close'))));
  dialog.onclose = () => dialog.remove();
  document.body.append(dialog);
  dialog.showModal();
}

const SHOWN_MS = 6000;
const MOST_SHOWN = 3;

// A short message that goes by itself; it is also said to those who hear the page.
export function toast(text, tone = 'good') {
  let stack = document.getElementById('toasts');
  if (!stack) {
    stack = document.createElement('div');
    stack.id = 'toasts';
    document.body.append(stack);
  }
  const item = document.createElement('div');
  item.className = `toast ${tone}`;
  item.setAttribute('role', tone === 'bad' ? 'alert' : 'status');
  item.textContent = text;
  stack.append(item);
  while (stack.children.length > MOST_SHOWN) stack.firstChild.remove();
  setTimeout(() => item.remove(), tone === 'bad' ? SHOWN_MS * 2 : SHOWN_MS);
}
