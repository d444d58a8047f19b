//! Containers.

use std::net::IpAddr;
use std::sync::Arc;

use super::at::At;
use super::image::image;
use super::limits::{
    COMMAND_TOTAL_BYTES, COMMAND_WORD_BYTES, COMMAND_WORDS, CONTAINER_MEMORY_MIN_BYTES, CPU_SHARES,
    MAX_RETRIES, MEMORY_MIB, PORTS, VOLUMES,
};
use super::text::{EnvFor, count, env, labels, length, number, path, word};
use super::volume::{VolumeFor, inner_path, mounts_differ, volumes};
use crate::spec::Protocol;
use crate::spec::container::{Bind, ContainerSpec, Limits, Open, Port, RestartPolicy, Swap};
use crate::spec::draft::{BindDraft, ContainerDraft, LimitsDraft, PortDraft};

const MIB: i64 = 1024 * 1024;

const PROTOCOLS: &[(&str, Protocol)] =
    &[("", Protocol::Tcp), ("tcp", Protocol::Tcp), ("udp", Protocol::Udp)];

pub(super) fn container(at: &At<'_>, draft: &ContainerDraft) -> Option<ContainerSpec> {
    let image = image(&at.field("image"), &draft.image);
    let command = command(at, draft);
    let env = env(&at.field("env"), &draft.env, EnvFor::Container);
    let binds = binds(&at.field("volumes"), &draft.volumes);
    let ports = ports(&at.field("ports"), &draft.ports);
    let restart = restart(&at.field("restart_policy"), draft);
    let labels = labels(&at.field("labels"), &draft.labels, ours);
    let limits = limits(&at.field("resources"), &draft.resources);
    let managed_volumes =
        volumes(&at.field("managed_volumes"), &draft.managed_volumes, VolumeFor::Container);
    mounts_differ(at, &draft.volumes, &draft.managed_volumes);
    let [entrypoint, mut command, mut args] = command?;
    if !entrypoint.is_empty() {
        // One way to say it: agents of the version before know an entrypoint and its arguments.
        args.splice(0..0, command.drain(..));
    }
    Some(ContainerSpec {
        image: image?,
        entrypoint,
        command,
        args,
        env: env?,
        binds: binds?,
        ports: ports?,
        restart: restart?,
        privileged: draft.privileged,
        labels: labels?,
        limits: limits?,
        managed_volumes: managed_volumes?,
    })
}

/// Our own labels say whose a container is; a user's must not.
fn ours(key: &str) -> Option<&'static str> {
    key.starts_with("persys.").then_some("keys that start with 'persys.' are ours")
}

type Words = Vec<Arc<str>>;

/// Entrypoint, command and arguments. An empty first word would be looked for as a program.
fn command(at: &At<'_>, draft: &ContainerDraft) -> Option<[Words; 3]> {
    let ContainerDraft { entrypoint, command, args, .. } = draft;
    let words = entrypoint.len().saturating_add(command.len()).saturating_add(args.len());
    count(&at.field("command"), words, COMMAND_WORDS)?;
    for (field, given) in [("entrypoint", entrypoint), ("command", command)] {
        if given.first().is_some_and(String::is_empty) {
            at.field(field).index(0).fault("names no program");
        }
    }
    let total: usize = entrypoint.iter().chain(command).chain(args).map(String::len).sum();
    let entrypoint = arguments(&at.field("entrypoint"), entrypoint);
    let command = arguments(&at.field("command"), command);
    let args = arguments(&at.field("args"), args);
    length(&at.field("command"), total, COMMAND_TOTAL_BYTES)?;
    Some([entrypoint?, command?, args?])
}

fn arguments(at: &At<'_>, given: &[String]) -> Option<Words> {
    let mut words = Vec::with_capacity(given.len());
    for (nth, word) in given.iter().enumerate() {
        let here = at.index(nth);
        let fits = length(&here, word.len(), COMMAND_WORD_BYTES);
        let clean = if word.contains('\0') { here.refuse("has a NUL character") } else { Some(()) };
        words.push(fits.and(clean).map(|()| Arc::from(word.as_str())));
    }
    words.into_iter().collect()
}

fn binds(at: &At<'_>, drafts: &[BindDraft]) -> Option<Vec<Bind>> {
    count(at, drafts.len(), VOLUMES)?;
    let mut binds = Vec::with_capacity(drafts.len());
    for (nth, draft) in drafts.iter().enumerate() {
        let here = at.index(nth);
        let host_path = path(&here.field("host_path"), &draft.host_path);
        let container_path = inner_path(&here.field("container_path"), &draft.container_path);
        binds.push(host_path.zip(container_path).map(|(host_path, container_path)| Bind {
            host_path,
            container_path,
            read_only: draft.read_only,
        }));
    }
    binds.into_iter().collect()
}

fn ports(at: &At<'_>, drafts: &[PortDraft]) -> Option<Vec<Port>> {
    count(at, drafts.len(), PORTS)?;
    let mut ports: Vec<Option<Port>> = Vec::with_capacity(drafts.len());
    for (nth, draft) in drafts.iter().enumerate() {
        let here = at.index(nth);
        let port = port(&here, draft);
        if let Some(port) = port
            && let Some(host) = port.on_node()
            && ports.iter().flatten().any(|earlier| earlier.clashes_with(&port))
        {
            here.field("host_port").fault(format!("{host} is taken by an earlier port"));
        }
        ports.push(port);
    }
    ports.into_iter().collect()
}

fn port(at: &At<'_>, draft: &PortDraft) -> Option<Port> {
    let most = i64::from(u16::MAX);
    let host = number(&at.field("host_port"), i64::from(draft.host_port), 0, most);
    let container = number(&at.field("container_port"), i64::from(draft.container_port), 1, most);
    let protocol = word(&at.field("protocol"), &draft.protocol, PROTOCOLS);
    let address = address(&at.field("host_ip"), &draft.host_ip);
    Some(Port {
        address,
        // Port 0 is the client's way to leave the choice to the runtime.
        host: u16::try_from(host?).ok().filter(|port| *port > 0),
        container: u16::try_from(container?).ok()?,
        protocol: protocol?,
    })
}

/// An address of the node, not its name: names mean different addresses on different nodes. None is
/// every address; what is no address is a fault.
fn address(at: &At<'_>, text: &str) -> Option<IpAddr> {
    if text.is_empty() {
        return None;
    }
    let address = text.parse().ok();
    if address.is_none() {
        at.fault("is not an IP address; write one such as 127.0.0.1 or ::1");
    }
    address
}

#[derive(Clone, Copy)]
enum Again {
    No,
    Always,
    OnFailure,
    UnlessStopped,
}

/// Nothing said is `no`: what clients and Docker itself mean by it. A count limits the restarts in
/// a row under every policy that restarts.
const RESTARTS: &[(&str, Again)] = &[
    ("", Again::No),
    ("no", Again::No),
    ("always", Again::Always),
    ("on-failure", Again::OnFailure),
    ("unless-stopped", Again::UnlessStopped),
];

fn restart(at: &At<'_>, draft: &ContainerDraft) -> Option<RestartPolicy> {
    let again = word(at, &draft.restart_policy, RESTARTS);
    let here = at.field("max_retry_count");
    let most = number(&here, i64::from(draft.max_retry_count), 0, MAX_RETRIES)?;
    let max_retries = u32::try_from(most).ok()?;
    match again? {
        Again::No if max_retries > 0 => {
            here.refuse(format!("{max_retries} restarts contradict a policy of none"))
        }
        Again::No => Some(RestartPolicy::No),
        Again::OnFailure => Some(RestartPolicy::OnFailure { max_retries }),
        Again::Always | Again::UnlessStopped if max_retries > 0 => {
            Some(RestartPolicy::AlwaysUpTo { max_retries })
        }
        Again::Always => Some(RestartPolicy::Always),
        Again::UnlessStopped => Some(RestartPolicy::UnlessStopped),
    }
}

fn limits(at: &At<'_>, draft: &LimitsDraft) -> Option<Limits> {
    let (least, most) = CPU_SHARES;
    let cpu_shares = match draft.cpu_shares {
        0 => Some(None),
        given => number(&at.field("cpu_shares"), given, least, most).map(Some),
    };
    let most = MEMORY_MIB.saturating_mul(MIB);
    let memory_bytes = match draft.memory_bytes {
        0 => Some(None),
        given => {
            let here = at.field("memory_bytes");
            number(&here, given, CONTAINER_MEMORY_MIN_BYTES, most).map(Some)
        }
    };
    let swap = swap(&at.field("memory_swap_bytes"), draft, most);
    let cpu_shares = match cpu_shares? {
        Some(shares) => Some(u32::try_from(shares).ok()?),
        None => None,
    };
    let memory_bytes = memory_bytes?;
    if draft.memory_unlimited && memory_bytes.is_some() {
        return at.field("memory_unlimited").refuse("contradicts memory_bytes");
    }
    let open = Open { cpu: draft.cpu_unlimited, memory: draft.memory_unlimited };
    Some(Limits { cpu_shares, memory_bytes, swap: swap?, open })
}

fn swap(at: &At<'_>, draft: &LimitsDraft, most: i64) -> Option<Swap> {
    match draft.memory_swap_bytes {
        0 => Some(Swap::RuntimeDefault),
        -1 => Some(Swap::Unlimited),
        given if draft.memory_bytes <= 0 => at.refuse(format!(
            "{given} counts memory and swap together, so memory_bytes must be given"
        )),
        given => number(at, given, draft.memory_bytes, most).map(Swap::TotalBytes),
    }
}
