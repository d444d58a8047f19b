// A spec, a manifest or a Compose file, typed, pasted, chosen or dropped here, is applied as `persys apply`
// would: the gateway reads it with the same code and names every fault before anything starts.

import { act } from '../api.js';
import { h } from '../dom.js';
import { mayChange } from '../parts/actions.js';
import { toast } from '../parts/dialog.js';
import { head, notice, panel, problemNotice } from '../parts/frame.js';
import { go, link } from '../router.js';
import { changed, state } from '../state.js';
import { bytes, count } from '../words.js';

const EXAMPLES = {
  Container: 'name: web\nspec:\n  type: container\n  resources:\n    cpu_millicores: 100\n    memory_mb: 64\n  container:\n    image: nginx:1.27\n    ports:\n      - host_port: 8081\n        container_port: 80\n',
  'Compose file': 'name: shop\nservices:\n  web:\n    image: nginx:1.27\n    ports:\n      - "8081:80"\n',
  Machine: 'name: box\nspec:\n  type: vm\n  vm:\n    vcpus: 2\n    memory_mb: 2048\n    os_image: debian-12\n    disk_gb: 20\n',
};
// The gateway takes bodies of 4 MiB, and base64 is a third longer than what it holds.
const MOST_BYTES = 2 * 1024 * 1024;
// Parts of a folder that no project mounts.
const LEFT_OUT = /(^|\/)(\.git|node_modules)\//;
// Names under which a Compose project or a spec is usually found.
const USUAL = /^(compose|docker-compose|persys)\.(ya?ml|json)$/;
const MANIFEST = /\.(ya?ml|json)$/i;

const EMPTY = () => ({ name: '', text: EXAMPLES.Container, from: '', edited: false, beside: new Map() });
const form = { ...EMPTY(), over: false, busy: false, problem: null };

export const apply = {
  title: () => 'Apply',
  wants: () => [],
  view: () => [
    head('Apply', { under: 'Start a workload, or change one that runs' }),
    mayChange() ? panel('', { key: 'form' }, fields()) : notice('warn', 'Your role does not allow this', 'It needs the role operator.'),
  ],
};

// Whatever is changed is a new attempt: what was wrong with the last one is no longer said.
function set(part) {
  Object.assign(form, { problem: null, ...part });
  changed();
}

function fields() {
  const examples = Object.entries(EXAMPLES);
  return h('form', { class: `apply ${form.over ? 'over' : ''}`, onsubmit: submit, ondragover: (event) => hover(event, true), ondragleave: (event) => hover(event, false), ondrop: drop },
    h('div', { class: 'filters', key: 'sources' },
      picker('file', 'Choose files', { multiple: true }),
      picker('folder', 'Choose folder', { webkitdirectory: true }),
      h('span', { class: 'muted', key: 'or' }, 'or drop them here, or start from'),
      examples.map(([title, text]) => h('button', { key: title, type: 'button', class: 'button small', onclick: () => set({ ...EMPTY(), name: form.name, text }) }, title))),
    form.from && h('p', { class: 'muted', key: 'from' }, chosen()),
    h('label', { class: 'field', key: 'name' }, h('span', null, 'Name ', h('span', { class: 'muted' }, '(where the file has none)')), h('input', { id: 'name', type: 'text', autocomplete: 'off', spellcheck: 'false', value: form.name, oninput: (event) => set({ name: event.target.value }) })),
    h('label', { class: 'field', key: 'text' }, h('span', null, 'Spec, manifest or Compose file ', h('span', { class: 'muted' }, '(YAML or JSON)')), h('textarea', { id: 'manifest', class: 'code', rows: 18, spellcheck: 'false', value: form.text, oninput: (event) => set({ text: event.target.value, edited: true }) })),
    form.problem && h('div', { key: 'problem', id: 'problem' }, problemNotice(form.problem)),
    h('div', { class: 'dialog-actions', key: 'actions' }, h('button', { type: 'submit', class: 'button primary', disabled: form.busy }, form.busy ? 'Applying' : 'Apply')));
}

function picker(id, text, way) {
  const onchange = (event) => {
    const { target } = event;
    // The same file can be chosen again, after it was mended.
    take([...target.files]).finally(() => { target.value = ''; });
  };
  return h('label', { class: 'button file', key: id }, text, h('input', { id, type: 'file', 'aria-label': text, ...way, onchange }));
}

// The path of a file from the folder it was chosen with.
function pathOf(file) {
  return file.webkitRelativePath ? file.webkitRelativePath.split('/').slice(1).join('/') : file.name;
}

function chosen() {
  const others = [...form.beside.keys()];
  return [h('code', null, form.from), form.edited && ' (edited)', others.length > 0 && ` with ${count(others.length, 'file')} beside it: ${others.join(', ')}`];
}

function hover(event, over) {
  event.preventDefault();
  if (form.over !== over) {
    form.over = over;
    changed();
  }
}

function drop(event) {
  event.preventDefault();
  form.over = false;
  take([...event.dataTransfer.files]);
}

// The first that looks like a Compose file or a spec is the one to apply; the others stand beside it.
async function take(all) {
  const files = all.map((file) => [pathOf(file), file]).filter(([path]) => !LEFT_OUT.test(`/${path}`));
  if (files.length === 0) return;
  const size = files.reduce((sum, [, file]) => sum + file.size, 0);
  try {
    if (size > MOST_BYTES) throw new Error(`The files have ${bytes(size)}; at most ${bytes(MOST_BYTES)} can be sent. Type persys apply FILE where they are.`);
    const main = files.find(([path]) => USUAL.test(path)) ?? files.find(([path]) => MANIFEST.test(path)) ?? files[0];
    const beside = new Map();
    for (const one of files) if (one !== main) beside.set(one[0], await base64(one[1]));
    set({ text: await main[1].text(), from: main[0], edited: false, beside });
  } catch (problem) {
    // A folder that is dropped is a file that cannot be read.
    set({ problem: problem.name === 'NotFoundError' || problem.name === 'NotReadableError' ? new Error('This cannot be read as a file. Use Choose folder for a folder.') : problem });
  }
}

async function base64(file) {
  const content = new Uint8Array(await file.arrayBuffer());
  const pieces = [];
  for (let at = 0; at < content.length; at += 8192) pieces.push(String.fromCharCode(...content.subarray(at, at + 8192)));
  return btoa(pieces.join(''));
}

// What is wrong with a file is listed; that it was refused is clear.
function faulty(problem) {
  const number = problem.faults?.length ?? 0;
  return number === 0 ? problem : Object.assign(problem, { title: `Nothing was applied: the file has ${count(number, 'fault')}`, next: '' });
}

async function submit(event) {
  event.preventDefault();
  set({ busy: true });
  let applied = [];
  try {
    const wanted = await act.readManifest({ text: form.text, name: form.name, files: Object.fromEntries(form.beside) });
    for (const request of wanted) {
      await act.apply({ desired_state: 'Running', ...request });
      applied = [...applied, request.workload_id];
    }
    Object.assign(form, EMPTY());
    toast(`${applied.join(', ')} ${applied.length === 1 ? 'is' : 'are'} accepted`);
    go(applied.length === 1 ? link('workloads', applied[0]) : link('workloads'));
  } catch (problem) {
    if (problem.loggedOut) state.loggedOut = true;
    if (applied.length > 0) toast(`${applied.join(', ')} ${applied.length === 1 ? 'was' : 'were'} accepted before the fault`);
    form.problem = faulty(problem);
  } finally {
    form.busy = false;
    changed();
  }
}
