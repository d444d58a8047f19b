// Logging in: with a token, or with the one-time link that `persys dev` and `persys login` print.

import { session } from '../api.js';
import { h } from '../dom.js';
import { notice, problemNotice } from '../parts/frame.js';
import { changed } from '../state.js';

const form = { busy: false, problem: null };

// Notices shown before the first attempt.
const SAID = {
  gone: ['This link was used already, or has expired', 'Ask for a new one.'],
  over: ['Your session has ended', 'Log in again; you return to the same page.'],
};

// `word` is what the address says beside `login`. `entered` is called with the session once there is one.
export function loginPage(word, entered) {
  return h('main', { id: 'content', class: 'login', key: 'login' },
    h('div', { class: 'login-card' },
      h('img', { src: '/assets/icon.svg', alt: '', width: 44, height: 44 }),
      h('h1', { id: 'title', tabindex: -1 }, 'Log in to Persys'),
      h('p', { class: 'muted' }, 'With a token, or with the one-time link that ', h('code', null, 'persys dev'), ' prints.'),
      SAID[word] && !form.problem && h('div', { key: 'said' }, notice('bad', ...SAID[word])),
      form.problem && h('div', { key: 'problem' }, problemNotice(form.problem)),
      h('form', { onsubmit: (event) => submit(event, entered) },
        h('label', { class: 'field' }, h('span', null, 'Token'),
          h('input', { id: 'token', type: 'password', name: 'token', autocomplete: 'current-password', required: true, spellcheck: 'false' })),
        h('button', { type: 'submit', class: 'button primary wide', disabled: form.busy }, form.busy ? 'Logging in' : 'Log in')),
      h('p', { class: 'muted small' }, 'No token yet? ', h('code', null, 'persys access token create NAME --role operator --cluster'))));
}

function submit(event, entered) {
  event.preventDefault();
  const token = event.target.elements.token.value.trim();
  if (token) enter(token, entered);
}

async function enter(token, entered) {
  Object.assign(form, { busy: true, problem: null });
  changed();
  try {
    const found = await session.open(token);
    form.busy = false;
    entered(found);
  } catch (problem) {
    Object.assign(form, { busy: false, problem });
    changed();
  }
}
