// Paste a request as JSON, or a Compose file, and have it applied. Every fault is named before anything
// starts.

import { act } from '../api.js';
import { h } from '../dom.js';
import { mayChange } from '../parts/actions.js';
import { toast } from '../parts/dialog.js';
import { head, notice, panel, problemNotice } from '../parts/frame.js';
import { go, link } from '../router.js';
import { changed, state } from '../state.js';

const EXAMPLE = {
  container: '{\n  "workload_id": "web",\n  "spec": {\n    "type": "container",\n    "resources": { "cpu_millicores": 100, "memory_mb": 64 },\n    "container": {\n      "image": "nginx",\n      "ports": [{ "host_port": 8081, "container_port": 80 }]\n    }\n  }\n}\n',
  compose: 'services:\n  web:\n    image: nginx\n    ports:\n      - "8081:80"\n',
};

const form = { kind: 'container', id: '', text: EXAMPLE.container, busy: false, problem: null };

export const apply = {
  title: () => 'Apply',
  wants: () => [],
  view: () => [
    head('Apply', { under: 'Start something new, or change what runs' }),
    mayChange() ? panel('', { key: 'form' }, fields()) : notice('warn', 'Your role does not allow this', 'It needs the role operator.'),
  ],
};

function fields() {
  const set = (part) => {
    Object.assign(form, part);
    changed();
  };
  const kinds = [['container', 'Request (JSON)'], ['compose', 'Compose file']];
  return h('form', { class: 'apply', onsubmit: submit },
    h('fieldset', { class: 'segments' }, h('legend', { class: 'unseen' }, 'What is pasted'),
      kinds.map(([kind, text]) => h('label', { key: kind }, h('input', { type: 'radio', name: 'kind', value: kind, checked: form.kind === kind, onchange: () => set({ kind, text: Object.values(EXAMPLE).includes(form.text) ? EXAMPLE[kind] : form.text }) }), h('span', null, text)))),
    form.kind === 'compose' && h('label', { class: 'field', key: 'id' }, h('span', null, 'Name of the stack'), h('input', { type: 'text', required: true, autocomplete: 'off', spellcheck: 'false', value: form.id, oninput: (event) => set({ id: event.target.value }) })),
    h('label', { class: 'field', key: 'text' }, h('span', null, form.kind === 'compose' ? 'Compose file' : 'Request'), h('textarea', { id: 'manifest', class: 'code', rows: 18, spellcheck: 'false', value: form.text, oninput: (event) => set({ text: event.target.value }) })),
    form.problem && h('div', { key: 'problem' }, problemNotice(form.problem)),
    h('div', { class: 'dialog-actions', key: 'actions' }, h('button', { type: 'submit', class: 'button primary', disabled: form.busy }, form.busy ? 'Applying' : 'Apply')));
}

async function submit(event) {
  event.preventDefault();
  Object.assign(form, { busy: true, problem: null });
  changed();
  try {
    const request = requestOf();
    await act.apply(request);
    toast(`${request.workload_id} is accepted`);
    go(link('workloads', request.workload_id));
  } catch (problem) {
    if (problem.loggedOut) state.loggedOut = true;
    form.problem = problem;
  } finally {
    form.busy = false;
    changed();
  }
}

function requestOf() {
  if (form.kind === 'compose') {
    return { workload_id: form.id, desired_state: 'Running', spec: { type: 'compose', compose: { source_type: 'inline', inline_yaml: form.text } } };
  }
  const request = JSON.parse(form.text);
  return { desired_state: 'Running', ...request };
}
