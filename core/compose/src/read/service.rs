//! One service: which keys there are, and who reads each.
//!
//! A key is read, or has its verdict in a table, or is refused: there is no fourth way.

use std::collections::BTreeMap;

use super::value::{self, quoted};
use super::{
    configs, deploy, health, mounts, names, network, ports, powers, process, run, secrets,
};
use crate::document::Document;
use crate::finding::Place;
use crate::grammar;
use crate::limits::ENTRIES;
use crate::service::{Restart, Service};
use crate::yaml::{Entry, Node, Value};

/// A service while it is read.
pub(super) struct Draft<'a> {
    pub(super) service: Service,
    pub(super) variables: &'a BTreeMap<String, String>,
    /// Where each of its keys stands, for what only shows once all services are read.
    pub(super) places: BTreeMap<String, Place<'a>>,
    /// The service itself.
    pub(super) at: Place<'a>,
    /// Whether it is only started on demand.
    pub(super) has_profiles: bool,
    /// What its container is called in the file, where others may name it.
    pub(super) container_name: Option<String>,
    /// What `deploy` says about restarts; it wins over `restart`.
    pub(super) deploy_restart: Option<Restart>,
}

impl<'a> Draft<'a> {
    /// Where `key` of this service stands.
    pub(super) fn place(&self, key: &str) -> Place<'a> {
        self.places.get(key).unwrap_or(&self.at).clone()
    }

    /// Remembers where `key` names `name`.
    pub(super) fn names(&mut self, key: &str, name: &str, at: &Place<'a>) {
        self.places.insert(format!("{key} {name}"), at.clone());
    }

    /// Where `key` names `name`; where `key` stands if that was not remembered.
    pub(super) fn place_of(&self, key: &str, name: &str) -> Place<'a> {
        self.places.get(&format!("{key} {name}")).cloned().unwrap_or_else(|| self.place(key))
    }
}

type Reader = for<'a> fn(&mut Draft<'a>, &Place<'a>, &Node);

/// Keys that are read.
const READ: &[(&str, Reader)] = &[
    ("cap_add", powers::cap_add),
    ("cap_drop", powers::cap_drop),
    ("command", run::command),
    ("configs", configs::of_service),
    ("cpu_shares", deploy::cpu_shares),
    ("cpus", deploy::cpus),
    ("depends_on", run::depends_on),
    ("deploy", deploy::deploy),
    ("devices", powers::devices),
    ("dns", names::dns),
    ("dns_opt", names::dns_opt),
    ("dns_search", names::dns_search),
    ("domainname", names::domainname),
    ("entrypoint", run::entrypoint),
    ("environment", run::environment),
    ("expose", ports::expose),
    ("extra_hosts", names::extra_hosts),
    ("group_add", process::group_add),
    ("healthcheck", health::healthcheck),
    ("hostname", names::hostname),
    ("image", run::image),
    ("init", process::init),
    ("ipc", powers::ipc),
    ("labels", run::labels),
    ("links", network::links),
    ("logging", process::logging),
    ("mem_limit", deploy::mem_limit),
    ("mem_reservation", deploy::mem_reservation),
    ("memswap_limit", deploy::memswap_limit),
    ("network_mode", network::network_mode),
    ("networks", network::networks),
    ("oom_score_adj", process::oom_score_adj),
    ("pid", powers::pid),
    ("pids_limit", deploy::pids_limit),
    ("platform", process::platform),
    ("ports", ports::ports),
    ("privileged", powers::privileged),
    ("profiles", run::profiles),
    ("read_only", process::read_only),
    ("restart", run::restart),
    ("runtime", process::runtime),
    ("scale", deploy::scale),
    ("secrets", secrets::of_service),
    ("security_opt", powers::security_opt),
    ("shm_size", deploy::shm_size),
    ("stdin_open", process::stdin_open),
    ("stop_grace_period", process::stop_grace_period),
    ("stop_signal", process::stop_signal),
    ("sysctls", process::sysctls),
    ("tmpfs", mounts::tmpfs),
    ("tty", process::tty),
    ("ulimits", process::ulimits),
    ("user", process::user),
    ("userns_mode", powers::userns_mode),
    ("volumes", mounts::volumes),
    ("working_dir", process::working_dir),
];

/// Keys that are done in another way, whatever stands under them.
const CHANGED: &[(&str, &str)] = &[
    ("container_name", "containers are named after the workload and the service"),
    ("pull_policy", "images are fetched by the rule of the agent"),
];

/// Keys without effect here.
const IGNORED: &[(&str, &str)] = &[
    ("annotations", "nothing here reads them; use labels"),
    ("attach", "output is kept for every service"),
    ("cpu_count", "is for Windows; use cpus"),
    ("cpu_percent", "is for Windows; use cpus"),
    ("develop", "is for the machine of a developer"),
    ("isolation", "is for Windows"),
    ("mem_swappiness", "is for the node to say"),
    ("stop_timeout", "is not of the specification; use stop_grace_period"),
];

/// Said where a project was not read as one.
const NOT_SENT: &str = "names a file beside this one, which was not sent along; apply the file with \
                        `persys apply`, which reads it";

/// Keys that are never taken, and what to do instead.
const REFUSED: &[(&str, &str)] = &[
    ("blkio_config", "is not supported: its devices differ from node to node; leave it out"),
    ("cgroup", "is not supported: every service has its own control group; leave it out"),
    ("cgroup_parent", "would take the service out of its limits; leave it out"),
    ("cpu_period", "is not supported; say how much CPU with cpus"),
    ("cpu_quota", "is not supported; say how much CPU with cpus"),
    ("cpu_rt_period", "is not supported; say how much CPU with cpus"),
    ("cpu_rt_runtime", "is not supported; say how much CPU with cpus"),
    ("cpuset", "ties the service to cores of one machine; say how much CPU with cpus"),
    ("credential_spec", "is for Windows and reads files of the node; leave it out"),
    ("device_cgroup_rules", "is not supported; name the devices with devices"),
    ("env_file", NOT_SENT),
    ("extends", NOT_SENT),
    ("external_links", "reaches beyond the stack; publish a port, or put both in one stack"),
    ("gpus", "are not supported; name the devices with devices"),
    ("label_file", NOT_SENT),
    ("mac_address", "is not supported: two copies of a stack would have it; leave it out"),
    ("models", "are not supported; run the model as a service"),
    ("oom_kill_disable", "would let the service take the memory of the node; leave it out"),
    ("post_start", "is not supported; do it in the entry point"),
    ("pre_stop", "is not supported; do it on the stop signal"),
    ("provider", "runs programs of the node; leave it out"),
    ("storage_opt", "is not supported by the usual storage of Docker; leave it out"),
    ("use_api_socket", "lets the service act as the node; run what needs it beside Persys"),
    ("uts", "is not supported: every service has its own host name; leave it out"),
    ("volumes_from", "is not supported; name the volume and mount it in both services"),
];

/// The service under `entry`.
pub(super) fn service<'a>(
    at: &Place<'a>,
    entry: &Entry,
    variables: &'a BTreeMap<String, String>,
) -> Option<Draft<'a>> {
    if !grammar::is_name(&entry.key) {
        return at.refuse(
            "is not a service's name: letters, digits, then also '-', '_', '.', at most 63",
        );
    }
    let keys = value::map(at, &entry.value, ENTRIES)?;
    let service = Service { name: entry.key.clone(), replicas: 1, ..Service::default() };
    let mut draft = Draft {
        service,
        variables,
        places: BTreeMap::new(),
        at: at.clone(),
        has_profiles: false,
        container_name: container_name(keys),
        deploy_restart: None,
    };
    for key in keys {
        let here = at.key(&key.key, key.line);
        draft.places.insert(key.key.clone(), here.clone());
        one_key(&mut draft, &here, key);
    }
    if let Some(restart) = draft.deploy_restart {
        draft.service.restart = restart;
    }
    built(&draft, keys);
    deploy::consistent(&draft);
    Some(draft)
}

fn container_name(keys: &[Entry]) -> Option<String> {
    let entry = keys.iter().find(|entry| entry.key == "container_name")?;
    match &entry.value.value {
        Value::Scalar(scalar) => Some(scalar.text.clone()),
        Value::Null | Value::List(_) | Value::Map(_) => None,
    }
}

fn one_key<'a>(draft: &mut Draft<'a>, at: &Place<'a>, entry: &Entry) {
    let key = entry.key.as_str();
    if key == "build" {
        return;
    }
    if key.starts_with("x-") {
        return at.ignored("is the file's own");
    }
    if entry.value.value == Value::Null && READ.iter().any(|(name, _)| *name == key) {
        return at.ignored("has no value");
    }
    if let Some((_, read)) = READ.iter().find(|(name, _)| *name == key) {
        return at.honouring(|at| read(draft, at, &entry.value));
    }
    say_fixed(at, key);
}

fn say_fixed(at: &Place<'_>, key: &str) {
    let find = |table: &[(&str, &'static str)]| {
        table.iter().find(|(name, _)| *name == key).map(|(_, why)| *why)
    };
    if let Some(why) = find(CHANGED) {
        at.changed(why);
    } else if let Some(why) = find(IGNORED) {
        at.ignored(why);
    } else if let Some(why) = find(REFUSED) {
        at.refused(why);
    } else {
        let known = READ.iter().map(|(name, _)| *name);
        at.refused(super::unknown("a service", key, known));
    }
}

/// Images are pulled, not built. With an image named as well, that one is.
fn built(draft: &Draft<'_>, keys: &[Entry]) {
    let build = keys.iter().find(|entry| entry.key == "build");
    // `image:` with nothing behind it names none.
    let names_one = |entry: &Entry| entry.key == "image" && entry.value.value != Value::Null;
    let has_image = keys.iter().any(names_one);
    match (build, has_image) {
        (Some(_), true) => {
            draft.place("build").ignored("nothing is built here: the image is pulled, so push it");
        }
        (Some(_), false) => {
            draft.place("build").refused(
                "nothing is built here; apply the file with `persys apply` where Docker is, or build \
                 the image, push it, and name it with image",
            );
        }
        (None, false) => {
            draft.at.refused("has no image");
        }
        (None, true) => {}
    }
}

/// What stands in a message for the value here.
pub(super) fn word(at: &Place<'_>, node: &Node, known: &[&str]) -> Option<String> {
    let scalar = value::scalar(at, node)?;
    if known.contains(&scalar.text.as_str()) {
        return Some(scalar.text.clone());
    }
    at.refuse(format!("{} is not one of {}", quoted(scalar), known.join(", ")))
}

/// Puts the services into `document`.
pub(super) fn into_document(drafts: Vec<Draft<'_>>, document: &mut Document) {
    for draft in drafts {
        document.services.insert(draft.service.name.clone(), draft.service);
    }
}
