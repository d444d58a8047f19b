// Runs inside a page of the dashboard: every number that is shown on it, by what it counts.

const text = (css, from = document) => from.querySelector(css)?.textContent ?? '';
const number = (said) => Number(said.match(/\d+/)?.[0] ?? 0);
const all = (css) => [...document.querySelectorAll(css)];
const panel = (start) => all('.panel').find((one) => text('h2', one).startsWith(start));
const found = { menu: {}, states: {}, chips: {}, rows: {}, tiles: {} };

for (const entry of all('nav.menu a')) {
  const alarm = entry.querySelector('.menu-alarm');
  found.menu[text('span:not(.menu-alarm)', entry).toLowerCase()] = alarm ? number(alarm.textContent) : 0;
}
found.head = number(text('.head .under'));
found.attention = panel('Needs attention') ? number(text('h2', panel('Needs attention'))) : null;
found.alarms = all('.alarms li').map((one) => text('.name', one));
found.workloads = panel('Workloads') ? number(text('h2', panel('Workloads'))) : null;
for (const entry of all('.counts li')) found.states[text('span:last-child', entry)] = number(text('.count-number', entry));
for (const tile of all('.tile')) found.tiles[text('.name', tile)] = number(text('.muted', tile));
for (const chip of all('.chip')) {
  const count = number(text('.chip-count', chip));
  found.chips[chip.textContent.replace(/\d+$/, '').trim()] = count;
}
for (const row of all('tbody tr')) {
  const status = text('.badge > span', row);
  found.rows[status] = (found.rows[status] ?? 0) + 1;
}
found.total = all('tbody tr').length;
return found;
