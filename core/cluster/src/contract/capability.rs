//! Parts of a spec that an agent of the plain contract cannot carry out.
//!
//! Placement knows them as labels that every other node has, so that a workload never waits for an
//! agent that would drop what it asks for. Their names are the words people read: "lacks …". No label
//! of a user can have them, because of their spaces.

use persys_model::labels::{Constraint, Labels, Rule};
use persys_model::node::{BY_STREAM, NodeFacts};
use persys_model::spec::container::RestartPolicy;
use persys_model::spec::vm::{Attach, DiskFormat, DiskSource, NicModel, VmDisk, VmNetwork};
use persys_model::spec::{ContainerSpec, Kind, Spec, VmSpec};

const PRIVILEGED: &str = "an agent that can run privileged containers";
const ENTRYPOINT: &str = "an agent that can replace the entrypoint of an image";
const COUNTED: &str = "an agent that can limit the restarts of a container";
const SECRETS: &str = "an agent that can keep secrets";
const POOLS: &str = "an agent that can choose a storage pool";
const ADDRESSES: &str = "an agent that can publish a port on one address of its node";
/// Agents that are reached over a stream are sent the control package's spec, which says less.
const WHOLE_SPEC: &str = "an agent that can read all of this spec";

const EVERY_CONTRACT_AGENT: [&str; 5] = [PRIVILEGED, ENTRYPOINT, COUNTED, SECRETS, POOLS];

/// Adds the capabilities of a node's agent to the labels placement sees.
pub(crate) fn label(facts: &NodeFacts, labels: &mut Labels) {
    for key in EVERY_CONTRACT_AGENT.iter().chain([&WHOLE_SPEC, &ADDRESSES]) {
        labels.remove(*key);
    }
    if !facts.is_contract() {
        labels.extend(EVERY_CONTRACT_AGENT.map(|key| (key.into(), "yes".into())));
    }
    if !facts.is_contract() || *facts.endpoint != *BY_STREAM {
        labels.insert(WHOLE_SPEC.into(), "yes".into());
    }
    if facts.addresses {
        labels.insert(ADDRESSES.into(), "yes".into());
    }
}

/// The capabilities a spec demands of its node's agent.
pub(crate) fn demanded(spec: &Spec) -> Vec<Constraint> {
    let mut keys = Vec::new();
    if !spec.secrets.is_empty() {
        keys.push(SECRETS);
    }
    match &spec.kind {
        Kind::Container(body) => container(body, &mut keys),
        Kind::Compose(body) => {
            if body.project.is_some() {
                keys.push(WHOLE_SPEC);
            }
        }
        Kind::Vm(body) => vm(body, &mut keys),
    }
    let exists = |key: &str| Constraint { key: key.into(), rule: Rule::Exists };
    keys.into_iter().map(exists).collect()
}

fn container(body: &ContainerSpec, keys: &mut Vec<&'static str>) {
    if body.privileged {
        keys.push(PRIVILEGED);
    }
    if !body.entrypoint.is_empty() {
        keys.push(ENTRYPOINT);
    }
    if matches!(body.restart, RestartPolicy::AlwaysUpTo { .. }) {
        keys.push(COUNTED);
    }
    if body.ports.iter().any(|port| port.address.is_some()) {
        keys.push(ADDRESSES);
    }
    let limited = body.limits != persys_model::spec::container::Limits::default();
    let counted = matches!(body.restart, RestartPolicy::OnFailure { max_retries: 1.. });
    if limited || counted || !body.labels.is_empty() {
        keys.push(WHOLE_SPEC);
    }
}

fn vm(body: &VmSpec, keys: &mut Vec<&'static str>) {
    let in_pool = |disk: &VmDisk| matches!(&disk.source, DiskSource::Pool { pool: Some(_), .. });
    if body.disks.iter().any(in_pool) {
        keys.push(POOLS);
    }
    let named = body.name.is_some() || !body.metadata.is_empty();
    let login = body.cloud_init.login.is_some();
    if named || login || !body.disks.iter().all(plain_disk) || !body.networks.iter().all(plain_card)
    {
        keys.push(WHOLE_SPEC);
    }
}

fn plain_disk(disk: &VmDisk) -> bool {
    matches!(disk.source, DiskSource::Pool { .. })
        && disk.format == DiskFormat::Qcow2
        && !disk.cdrom
        && disk.backing_file.is_none()
}

fn plain_card(card: &VmNetwork) -> bool {
    matches!(card.attach, Attach::Bridge(_)) && card.mac.is_none() && card.model == NicModel::Virtio
}
