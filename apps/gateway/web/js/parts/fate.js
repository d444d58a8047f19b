// What goes and what stays when a workload is deleted: the same lists that `persys delete` prints.

import { read } from '../api.js';
import { gib } from '../words.js';

// Reads what the workload is made of. `volumes` are those its Compose file names, which stay unless asked.
export async function fateOf(id) {
  const { spec = {} } = await read.describe(id);
  if (spec.compose) {
    const volumes = (spec.compose.found_volume_names ?? []).map((name) => `disk ${stackDisk(id, name)}`);
    return { goes: ['the containers and networks of the stack'], stays: [], volumes };
  }
  const { container, vm } = spec;
  const fate = { goes: [], stays: [], volumes: [] };
  if (container) {
    fate.goes.push(`the container (${container.image})`);
    fate.stays.push(...(container.volumes ?? []).map((bind) => `${bind.host_path} of the node`));
  } else {
    fate.goes.push('the machine');
    for (const disk of vm?.disks ?? []) machineDisk(disk, fate);
    if (vm?.disk_gb) fate.goes.push(`its root disk (${gib(vm.disk_gb)}), with its data`);
  }
  for (const volume of (container ?? vm)?.managed_volumes ?? []) {
    const name = `disk ${volume.driver || 'local'}:${volume.name}`;
    if (/^retain$/i.test(volume.retain_policy)) fate.stays.push(`${name}: its policy is Retain`);
    else fate.goes.push(`${name}, with its data: its policy is Delete`);
  }
  return fate;
}

// The name under which a volume of a stack is among the disks. One that is no name of a disk gets another
// there, and is called by its own here.
function stackDisk(id, volume) {
  const name = `${id}.${volume}`;
  return /^[a-z0-9][a-z0-9._-]{0,62}$/.test(name) ? `compose:${name}` : volume;
}

function machineDisk(disk, fate) {
  const name = disk.device || disk.mount_point || 'disk';
  if (disk.path) fate.stays.push(`disk ${name} (${disk.path})`);
  else fate.goes.push(`its disk ${name} (${gib(disk.size_gb)}), with its data`);
}

// Both lists, once it is known whether volumes go, too.
export function listed(fate, withVolumes) {
  return {
    goes: [...fate.goes, ...(withVolumes ? fate.volumes.map((one) => `${one}, with its data`) : [])],
    stays: [...fate.stays, ...(withVolumes ? [] : fate.volumes)],
  };
}
