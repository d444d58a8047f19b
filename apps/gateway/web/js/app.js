// Where it begins: is somebody logged in, what does the address ask for, and the frame around every page.

import { session } from './api.js';
import { alarms } from './counts.js';
import { h, render } from './dom.js';
import { help, listen } from './keys.js';
import { beatNow, end, lookNow, start } from './live.js';
import { clusterId, clustersPage } from './pages/clusters.js';
import { apply } from './pages/apply.js';
import { disks } from './pages/disks.js';
import { drift } from './pages/drift.js';
import { events } from './pages/events.js';
import { loginPage } from './pages/login.js';
import { node, nodes } from './pages/nodes.js';
import { overview } from './pages/overview.js';
import { workload } from './pages/workload/index.js';
import { workloads } from './pages/workloads.js';
import { head, notice, problemTitle } from './parts/frame.js';
import { shape } from './parts/shape.js';
import { go, link, route } from './router.js';
import { changed, refresh, state, switchTo, watch } from './state.js';
import { age, clock } from './words.js';

const TICK_MS = 1000;
const ASK_AGAIN_MS = 2000;

const lost = {
  title: () => 'Not found',
  wants: () => [],
  view: () => [head('Page not found'), notice('warn', 'This page does not exist', h('a', { href: '#/' }, 'Go to the overview'))],
};
const clusters = clustersPage(chooseCluster);
const PAGES = { '': overview, workloads, nodes, disks, drift, events, clusters, apply };
const PAGES_OF_ONE = { workloads: workload, nodes: node };

const MENU = [
  ['', 'Overview', 'overview'],
  ['workloads', 'Workloads', 'workloads'],
  ['nodes', 'Nodes', 'nodes'],
  ['disks', 'Disks', 'disks'],
  ['drift', 'Drift', 'drift'],
  ['events', 'Events', 'events'],
  ['clusters', 'Clusters', 'clusters'],
  ['apply', 'Apply', 'apply'],
];

let current = { address: '', page: overview, parts: [], query: {} };

function arrive() {
  const { parts, query } = route();
  const page = (parts.length > 1 ? PAGES_OF_ONE[parts[0]] : PAGES[parts[0] ?? '']) ?? lost;
  const address = parts.slice(0, 2).join('/');
  const moved = address !== current.address;
  current = { address, page, parts, query };
  document.title = `${page.title(parts)} – Persys`;
  page.enter?.(parts);
  changed();
  if (moved && state.session) {
    lookNow();
    // Those who hear the page are told where they are.
    afterDrawing(focusTitle);
    window.scrollTo(0, 0);
  }
  afterDrawing(showCurrent);
}

function afterDrawing(work) {
  requestAnimationFrame(() => requestAnimationFrame(work));
}

// On a narrow screen the menu and the tabs scroll sideways; the current entry is in sight.
function showCurrent() {
  for (const entry of document.querySelectorAll('.menu [aria-current], .tabs [aria-current]')) {
    const [row, own] = [entry.parentElement, entry.getBoundingClientRect()];
    const around = row.getBoundingClientRect();
    row.scrollLeft += own.left + own.width / 2 - (around.left + around.width / 2);
  }
}

function focusTitle() {
  document.getElementById('title')?.focus({ preventScroll: true });
}

function draw() {
  const root = document.getElementById('app');
  if (state.loggedOut || !state.session) {
    document.title = 'Log in – Persys';
    if (state.loggedOut) end();
    const word = current.parts[0] === 'login' ? current.parts[1] : state.session ? 'over' : '';
    render(root, state.begun ? loginPage(word, entered) : loading());
    return;
  }
  render(root, h('div', { class: 'frame', key: 'frame' }, side(), h('main', { id: 'content', key: current.parts[0] ?? 'overview' }, banner(), current.page.view(current.parts, current.query))));
}

function loading() {
  const problem = state.bootProblem;
  return h('main', { id: 'content', class: 'login', key: 'boot' }, problem ? notice('bad', problemTitle(problem), problem.message) : h('p', { class: 'muted' }, 'Persys is loading.'));
}

function side() {
  const found = alarms();
  return h('header', { class: 'side', key: 'side' },
    h('a', { class: 'brand', href: '#/' }, h('img', { src: '/assets/icon.svg', alt: '', width: 26, height: 26 }), h('span', null, 'Persys')),
    clusterChoice(),
    h('nav', { 'aria-label': 'Main', class: 'menu' }, MENU.map(([path, text, drawn]) => {
      const number = found[path]?.length ?? 0;
      return h('a', { key: path, href: path ? link(path) : '#/', 'aria-current': (current.parts[0] ?? '') === path ? 'page' : undefined }, shape(drawn), h('span', null, text), number > 0 && h('span', { class: 'menu-alarm' }, number, h('span', { class: 'unseen' }, ' need attention')));
    })),
    h('div', { class: 'side-foot' },
      connection(),
      h('div', { class: 'who' },
        h('div', { class: 'who-name' }, h('span', null, state.session.user), h('span', { class: 'muted small' }, roleWord())),
        h('button', { type: 'button', class: 'icon-button', 'aria-label': 'Light or dark', title: 'Light or dark (t)', onclick: switchTheme }, shape(isDark() ? 'sun' : 'moon')),
        h('button', { type: 'button', class: 'icon-button', 'aria-label': 'Keys', title: 'Keys (?)', onclick: help }, h('span', { 'aria-hidden': 'true' }, '?')),
        h('button', { type: 'button', class: 'icon-button', 'aria-label': 'Log out', title: 'Log out', onclick: logOut }, shape('leave')))));
}

function roleWord() {
  return state.session.roles.join(', ');
}

function clusterChoice() {
  const known = state.clusters.data;
  if (known.length < 2) return null;
  return h('select', { class: 'cluster', key: 'cluster', 'aria-label': 'Cluster', value: state.cluster || clusterId(known.find((one) => one.by_default) ?? known[0]), onchange: (event) => chooseCluster(event.target.value) },
    known.map((cluster) => h('option', { key: clusterId(cluster), value: clusterId(cluster) }, cluster.name || clusterId(cluster))));
}

const LINK = {
  live: ['good', 'disc', 'Live'],
  connecting: ['busy', 'half', 'Connecting'],
  behind: ['warn', 'turn', 'Events interrupted'],
  away: ['bad', 'cross', 'Not connected'],
};

function connection() {
  const [tone, drawn, text] = LINK[state.link];
  const since = { away: state.freshAt > 0 && `data from ${clock(state.freshAt)}`, behind: `since ${clock(state.linkSince)}` }[state.link];
  return h('p', { class: `connection ${tone}`, role: 'status', title: state.linkProblem?.message }, shape(drawn), h('span', null, text), since && h('span', { class: 'connection-since' }, since));
}

// What concerns every page.
function banner() {
  const standing = state.standing;
  if (state.link === 'away') {
    const old = state.freshAt > 0 ? `The data on this page is from ${clock(state.freshAt)} (${age(state.freshAt)} old). ` : '';
    return h('div', { key: 'banner' }, notice('bad', problemTitle(state.linkProblem), state.linkProblem.message, `${old}The page reconnects by itself.`));
  }
  const mode = standing.data?.mode;
  if (mode && mode !== 'normal' && current.parts.length > 0) return h('div', { key: 'banner' }, notice('bad', `The cluster is in mode ${mode}`, standing.data.reason));
  return null;
}

function chooseCluster(id) {
  switchTo(id);
  go('#/');
  begin();
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === 'dark' : matchMedia('(prefers-color-scheme: dark)').matches;
}

function switchTheme() {
  const theme = isDark() ? 'light' : 'dark';
  document.documentElement.dataset.theme = theme;
  try {
    localStorage.setItem('persys-theme', theme);
  } catch {
    // Kept for this page only.
  }
  changed();
}

async function logOut() {
  end();
  await session.close().catch(() => {});
  Object.assign(state, { session: null, loggedOut: true });
  changed();
}

function entered(found) {
  Object.assign(state, { session: found, loggedOut: false });
  if (current.parts[0] === 'login') history.replaceState(null, '', '#/');
  begin();
  arrive();
}

function begin() {
  start(() => current.page.wants());
  refresh('clusters');
}

async function boot() {
  window.addEventListener('hashchange', arrive);
  document.addEventListener('visibilitychange', () => !document.hidden && state.session && (beatNow(), lookNow()));
  // The address after # says which page is shown, so the link cannot lead anywhere by itself.
  document.querySelector('.skip').onclick = (event) => {
    event.preventDefault();
    focusTitle();
  };
  watch(draw);
  listen(switchTheme);
  setInterval(changed, TICK_MS);
  arrive();
  await findSession();
  state.begun = true;
  if (state.session) entered(state.session);
  else changed();
}

// Who is logged in, if anybody. Asked until somebody answers.
async function findSession() {
  for (;;) {
    try {
      state.session = await session.get();
      return;
    } catch (problem) {
      if (problem.loggedOut) return;
      state.bootProblem = problem;
      changed();
      await new Promise((resolve) => setTimeout(resolve, ASK_AGAIN_MS));
    }
  }
}

boot();
