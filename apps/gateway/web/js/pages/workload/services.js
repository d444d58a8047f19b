// The containers of a stack, as exec and logs name them: a service by its name, and one of its containers
// as service-number where it has several.

// [{ value, text, running }] for a choice; `whole` also offers a service with all its containers.
export function containers(own, { whole = false } = {}) {
  const all = own.described.data?.inside?.services ?? [];
  const names = [...new Set(all.map((one) => one.name))].sort();
  return names.flatMap((name) => {
    const mine = all.filter((one) => one.name === name).sort((a, b) => (a.number ?? 0) - (b.number ?? 0));
    if (mine.length === 1) return [choice(name, name, mine[0])];
    // An agent of an earlier version does not number them: the first that runs is meant then.
    if (!mine.every((one) => one.number)) return [choice(name, name, mine.find((one) => one.state === 'running') ?? mine[0])];
    const each = mine.map((one) => choice(`${name}-${one.number}`, `${name}-${one.number}`, one));
    return whole ? [{ value: name, text: `${name} (all)`, running: each.some((one) => one.running) }, ...each] : each;
  });
}

function choice(value, text, container) {
  const running = container.state === 'running';
  return { value, text: running ? text : `${text} (${serviceState(container)})`, running };
}

// A line for each container: its name among its siblings, and its state in a word.
export function serviceLines(all = []) {
  const several = (name) => all.filter((other) => other.name === name).length > 1;
  const line = (one) => `${one.name}${several(one.name) && one.number ? `-${one.number}` : ''} ${serviceState(one)}`;
  return all.map(line).sort((a, b) => a.localeCompare(b, 'en', { numeric: true }));
}

function serviceState(service) {
  if (service.state !== 'exited') return service.state;
  return service.one_shot && !service.exit_code ? 'done' : `exited with code ${service.exit_code ?? 0}`;
}
