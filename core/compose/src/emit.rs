//! The document that is handed to the compose program: JSON, which is YAML, of values only.
//!
//! Everything in it was read and judged; nothing of the user's text is copied. Dollar signs are
//! doubled, so that the program fills in nothing. The same document gives the same bytes.
//!
//! Written so that version 1.29 and version 2 of the program read the same: no `version`, which
//! both may leave out, ports and paths in their short form, limits beside the service rather than
//! under `deploy`, which 1.29 ignores.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};

use crate::document::{Document, Network, Volume};
use crate::service::{
    Attachment, Endpoint, Health, Identity, Limits, Logging, Mount, MountSource, Names, Namespace,
    Port, Powers, Process, Restart, Service, secret_file,
};

/// A folder that is never there.
const NO_SECRETS: &str = "/run/persys-has-no-secrets";

/// What is put on everything a stack makes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Marks {
    /// Labels of every container, network and named volume; they win over the file's.
    pub labels: BTreeMap<String, String>,
    /// Most processes of a container that sets no limit, and of one that sets a higher one.
    pub pids: u64,
    /// How output is kept.
    pub logging: Logging,
    /// Time in milliseconds that a container has to end by itself if it names none.
    pub stop_grace_ms: Option<u64>,
    /// The folder of the node that holds the secrets of the stack as files.
    pub secrets: Option<String>,
}

impl Default for Marks {
    fn default() -> Self {
        Self {
            labels: BTreeMap::new(),
            pids: 4096,
            logging: Logging { file_mib: 10, files: 3 },
            stop_grace_ms: None,
            secrets: None,
        }
    }
}

impl Document {
    /// What the compose program is given.
    #[must_use]
    pub fn emit(&self, marks: &Marks) -> String {
        self.as_run(marks).to_json()
    }

    /// The document with everything on it that we add: marks, limits, and restarts left to us.
    #[must_use]
    pub fn as_run(&self, marks: &Marks) -> Self {
        let mut document = self.clone();
        for service in document.services.values_mut() {
            add_marks(&mut service.labels, marks);
            service.restart = Restart::No;
            service.logging = Some(marks.logging.clone());
            let limits = &mut service.limits;
            limits.pids = Some(limits.pids.map_or(marks.pids, |given| given.min(marks.pids)));
            // Set aside by the scheduler; Docker has no word for it.
            limits.reserved_cpu_millicores = None;
            service.process.stop_grace_ms = service.process.stop_grace_ms.or(marks.stop_grace_ms);
            restrain(&mut service.powers);
            for mount in &mut service.mounts {
                show_secret(&mut mount.source, marks.secrets.as_deref());
            }
        }
        let used: BTreeSet<String> =
            document.services.values().flat_map(|service| service.network.names()).collect();
        document.networks.retain(|name, _| used.contains(name));
        for name in used {
            document.networks.entry(name).or_default();
        }
        for network in document.networks.values_mut() {
            add_marks(&mut network.labels, marks);
        }
        for volume in document.volumes.values_mut() {
            add_marks(&mut volume.labels, marks);
        }
        document.settle_one_shots();
        document
    }

    /// The document itself, every value as it is held.
    fn to_json(&self) -> String {
        self.to_value().to_string()
    }

    pub(crate) fn to_value(&self) -> Value {
        let mut top = Map::new();
        put_map(&mut top, "services", &self.services, service);
        put_map(&mut top, "networks", &self.networks, network);
        put_map(&mut top, "volumes", &self.volumes, volume);
        Value::Object(top)
    }
}

/// A secret is a file that is there before the stack is started; where there is none, nothing starts.
fn show_secret(source: &mut MountSource, folder: Option<&str>) {
    if let MountSource::Secret(secret) = source {
        let name = secret_file(&secret.name, secret.mode, secret.uid, secret.gid);
        let path = format!("{}/{name}", folder.unwrap_or(NO_SECRETS));
        *source = MountSource::Bind { path, create: false, relabel: None };
    }
}

fn add_marks(labels: &mut BTreeMap<String, String>, marks: &Marks) {
    labels.extend(marks.labels.iter().map(|(key, value)| (key.clone(), value.clone())));
}

/// What every container does without unless it asks: new privileges and raw sockets, the same as
/// for containers outside of stacks.
fn restrain(powers: &mut Powers) {
    if powers.privileged {
        return;
    }
    if !powers.cap_add.iter().any(|cap| matches!(cap.as_str(), "NET_RAW" | "ALL")) {
        powers.cap_drop.insert("NET_RAW".to_owned());
    }
    if !powers.security_opt.iter().any(|option| option.starts_with("no-new-privileges")) {
        powers.security_opt.insert("no-new-privileges=true".to_owned());
    }
}

impl Attachment {
    /// The networks of the stack it needs.
    fn names(&self) -> Vec<String> {
        match self {
            Self::Networks(networks) if networks.is_empty() => vec!["default".to_owned()],
            Self::Networks(networks) => networks.keys().cloned().collect(),
            Self::None | Self::Bridge | Self::Host | Self::Service(_) => Vec::new(),
        }
    }
}

/// A text in which the program finds no variable.
fn text(text: &str) -> Value {
    Value::String(text.replace('$', "$$"))
}

fn texts(all: impl IntoIterator<Item = impl AsRef<str>>) -> Value {
    Value::Array(all.into_iter().map(|one| text(one.as_ref())).collect())
}

fn labels(all: &BTreeMap<String, String>) -> Value {
    Value::Object(all.iter().map(|(key, value)| (key.clone(), text(value))).collect())
}

type Object = Map<String, Value>;

fn put(object: &mut Object, key: &str, value: Value) {
    object.insert(key.to_owned(), value);
}

fn put_some<T>(object: &mut Object, key: &str, value: Option<T>, write: impl FnOnce(T) -> Value) {
    if let Some(value) = value {
        put(object, key, write(value));
    }
}

fn put_map<T>(object: &mut Object, key: &str, all: &BTreeMap<String, T>, write: fn(&T) -> Value) {
    if !all.is_empty() {
        let inner = all.iter().map(|(name, one)| (name.clone(), write(one))).collect();
        put(object, key, Value::Object(inner));
    }
}

fn put_texts(object: &mut Object, key: &str, all: impl IntoIterator<Item = impl AsRef<str>>) {
    let mut all = all.into_iter().peekable();
    if all.peek().is_some() {
        put(object, key, texts(all));
    }
}

fn service(service: &Service) -> Value {
    let mut out = Map::new();
    put(&mut out, "image", text(&service.image));
    put_some(&mut out, "entrypoint", service.entrypoint.as_ref(), texts);
    put_some(&mut out, "command", service.command.as_ref(), texts);
    if !service.environment.is_empty() {
        put(&mut out, "environment", labels(&service.environment));
    }
    if !service.ports.is_empty() {
        put(&mut out, "ports", service.ports.iter().map(port).collect());
    }
    put_texts(&mut out, "expose", &service.expose);
    mounts(&mut out, &service.mounts);
    attachment(&mut out, &service.network);
    put_texts(&mut out, "links", &service.links);
    if !service.depends_on.is_empty() {
        let all = service.depends_on.iter();
        let all = all.map(|(name, on)| (name.clone(), json!({ "condition": on.word() })));
        put(&mut out, "depends_on", Value::Object(all.collect()));
    }
    put(&mut out, "restart", Value::String(restart(service.restart)));
    if service.replicas != 1 {
        put(&mut out, "scale", service.replicas.into());
    }
    limits(&mut out, &service.limits);
    put_some(&mut out, "healthcheck", service.healthcheck.as_ref(), health);
    if !service.labels.is_empty() {
        put(&mut out, "labels", labels(&service.labels));
    }
    identity(&mut out, &service.identity);
    process(&mut out, &service.process);
    powers(&mut out, &service.powers);
    names(&mut out, &service.names);
    put_some(&mut out, "logging", service.logging.as_ref(), logging);
    Value::Object(out)
}

fn port(port: &Port) -> Value {
    let protocol = port.protocol.word();
    let host = port.host.map(|host| host.to_string()).unwrap_or_default();
    Value::String(match port.address {
        Some(std::net::IpAddr::V6(address)) => {
            format!("[{address}]:{host}:{}/{protocol}", port.container)
        }
        Some(address) => format!("{address}:{host}:{}/{protocol}", port.container),
        None if port.host.is_none() => format!("{}/{protocol}", port.container),
        None => format!("{host}:{}/{protocol}", port.container),
    })
}

fn mounts(out: &mut Object, mounts: &[Mount]) {
    let (memory, others): (Vec<_>, Vec<_>) =
        mounts.iter().partition(|mount| matches!(mount.source, MountSource::Tmpfs { .. }));
    if !others.is_empty() {
        put(out, "volumes", others.into_iter().map(mount).collect());
    }
    if !memory.is_empty() {
        put(out, "tmpfs", memory.into_iter().map(mount).collect());
    }
}

fn mount(mount: &Mount) -> Value {
    let target = &mount.target;
    let mut options: Vec<String> = Vec::new();
    if mount.read_only {
        options.push("ro".to_owned());
    }
    let what = match &mount.source {
        MountSource::Volume { name, nocopy } => {
            options.extend(nocopy.then(|| "nocopy".to_owned()));
            format!("{name}:{target}")
        }
        MountSource::Anonymous if mount.read_only => {
            return json!({ "type": "volume", "target": text(target), "read_only": true });
        }
        MountSource::Anonymous => target.clone(),
        MountSource::Bind { path, create: true, relabel } => {
            options.extend(relabel.map(String::from));
            format!("{path}:{target}")
        }
        MountSource::Bind { path, create: false, .. } => {
            return json!({
                "type": "bind", "source": text(path), "target": text(target),
                "read_only": mount.read_only,
            });
        }
        MountSource::Secret(secret) => {
            return json!({
                "type": "bind", "source": text(&format!("{NO_SECRETS}/{}", secret.name)),
                "target": text(target), "read_only": true,
            });
        }
        MountSource::Tmpfs { options: given } => {
            options.extend(given.iter().map(|(key, value)| match value.as_str() {
                "" => key.clone(),
                value => format!("{key}={value}"),
            }));
            target.clone()
        }
    };
    if options.is_empty() { text(&what) } else { text(&format!("{what}:{}", options.join(","))) }
}

fn attachment(out: &mut Object, attachment: &Attachment) {
    let mode = match attachment {
        Attachment::Networks(networks) if networks.is_empty() => return,
        Attachment::Networks(networks) => {
            return put_map(out, "networks", networks, endpoint);
        }
        Attachment::None => "none".to_owned(),
        Attachment::Bridge => "bridge".to_owned(),
        Attachment::Host => "host".to_owned(),
        Attachment::Service(name) => format!("service:{name}"),
    };
    put(out, "network_mode", Value::String(mode));
}

fn endpoint(endpoint: &Endpoint) -> Value {
    let mut out = Map::new();
    put_texts(&mut out, "aliases", &endpoint.aliases);
    put_some(&mut out, "ipv4_address", endpoint.ipv4, |ip| ip.to_string().into());
    put_some(&mut out, "ipv6_address", endpoint.ipv6, |ip| ip.to_string().into());
    Value::Object(out)
}

fn restart(restart: Restart) -> String {
    match restart {
        Restart::No => "no".to_owned(),
        Restart::Always { max_retries: 0 } => "always".to_owned(),
        Restart::Always { max_retries } => format!("always:{max_retries}"),
        Restart::OnFailure { max_retries: 0 } => "on-failure".to_owned(),
        Restart::OnFailure { max_retries } => format!("on-failure:{max_retries}"),
        Restart::UnlessStopped => "unless-stopped".to_owned(),
    }
}

fn limits(out: &mut Object, limits: &Limits) {
    put_some(out, "cpus", limits.cpu_millicores, cores);
    put_some(out, "mem_limit", limits.memory_bytes, Value::from);
    put_some(out, "pids_limit", limits.pids, Value::from);
    put_some(out, "mem_reservation", limits.reserved_memory_bytes, Value::from);
    put_some(out, "memswap_limit", limits.swap_bytes, Value::from);
    put_some(out, "cpu_shares", limits.cpu_shares, Value::from);
    put_some(out, "shm_size", limits.shm_bytes, Value::from);
}

/// Thousandths as a decimal text: a fraction of two would not come back as it went.
fn cores(millicores: u64) -> Value {
    let text = format!("{}.{:03}", millicores / 1000, millicores % 1000);
    Value::String(text.trim_end_matches('0').trim_end_matches('.').to_owned())
}

/// In whole seconds where it can be: the older program hands a fraction on to Docker, which takes
/// none for the time a container has to stop.
fn millis(value: u64) -> Value {
    Value::String(match value % 1000 {
        0 => format!("{}s", value / 1000),
        _ => format!("{value}ms"),
    })
}

fn health(health: &Health) -> Value {
    let Health::Check { test, interval_ms, timeout_ms, retries, start_period_ms } = health else {
        return json!({ "disable": true });
    };
    let mut out = Map::new();
    put_some(&mut out, "test", test.as_ref(), texts);
    put_some(&mut out, "interval", *interval_ms, millis);
    put_some(&mut out, "timeout", *timeout_ms, millis);
    put_some(&mut out, "retries", *retries, Value::from);
    put_some(&mut out, "start_period", *start_period_ms, millis);
    Value::Object(out)
}

fn identity(out: &mut Object, identity: &Identity) {
    let words = [
        ("user", &identity.user),
        ("working_dir", &identity.working_dir),
        ("hostname", &identity.hostname),
        ("domainname", &identity.domainname),
        ("platform", &identity.platform),
    ];
    for (key, value) in words {
        put_some(out, key, value.as_ref(), |value| text(value));
    }
    put_texts(out, "group_add", &identity.groups);
}

fn process(out: &mut Object, process: &Process) {
    put_some(out, "init", process.init, Value::from);
    let truths = [
        ("tty", process.tty),
        ("stdin_open", process.stdin_open),
        ("read_only", process.read_only),
    ];
    for (key, _) in truths.into_iter().filter(|(_, truth)| *truth) {
        put(out, key, true.into());
    }
    put_some(out, "stop_signal", process.stop_signal.as_ref(), |signal| text(signal));
    put_some(out, "stop_grace_period", process.stop_grace_ms, millis);
    let limit = |(soft, hard): &(i64, i64)| json!({ "soft": soft, "hard": hard });
    put_map(out, "ulimits", &process.ulimits, limit);
    if !process.sysctls.is_empty() {
        put(out, "sysctls", labels(&process.sysctls));
    }
    put_some(out, "oom_score_adj", process.oom_score_adj, Value::from);
}

fn powers(out: &mut Object, powers: &Powers) {
    if powers.privileged {
        put(out, "privileged", true.into());
    }
    put_texts(out, "cap_add", &powers.cap_add);
    put_texts(out, "cap_drop", &powers.cap_drop);
    put_texts(out, "security_opt", &powers.security_opt);
    put_texts(out, "devices", &powers.devices);
    put_some(out, "pid", powers.pid.as_ref(), namespace);
    put_some(out, "ipc", powers.ipc.as_ref(), namespace);
    if powers.host_users {
        put(out, "userns_mode", "host".into());
    }
}

fn namespace(namespace: &Namespace) -> Value {
    Value::String(match namespace {
        Namespace::Host => "host".to_owned(),
        Namespace::Service(name) => format!("service:{name}"),
        Namespace::Shareable => "shareable".to_owned(),
        Namespace::Private => "private".to_owned(),
    })
}

fn names(out: &mut Object, names: &Names) {
    let hosts: Vec<String> = names
        .extra_hosts
        .iter()
        .flat_map(|(name, all)| all.iter().map(move |address| format!("{name}:{address}")))
        .collect();
    put_texts(out, "extra_hosts", &hosts);
    let servers: Vec<String> = names.dns.iter().map(ToString::to_string).collect();
    put_texts(out, "dns", &servers);
    put_texts(out, "dns_search", &names.search);
    put_texts(out, "dns_opt", &names.options);
}

fn logging(logging: &Logging) -> Value {
    let size = format!("{}m", logging.file_mib);
    json!({
        "driver": "json-file",
        "options": { "max-size": size, "max-file": logging.files.to_string() },
    })
}

fn network(network: &Network) -> Value {
    let mut out = Map::new();
    if network.internal {
        put(&mut out, "internal", true.into());
    }
    if network.ipv6 {
        put(&mut out, "enable_ipv6", true.into());
    }
    if !network.options.is_empty() {
        put(&mut out, "driver", "bridge".into());
        put(&mut out, "driver_opts", labels(&network.options));
    }
    if !network.subnets.is_empty() {
        let all = network.subnets.iter().map(|subnet| {
            let mut one = Map::new();
            put_some(&mut one, "subnet", subnet.range.as_ref(), |range| text(range));
            put_some(&mut one, "ip_range", subnet.given_out.as_ref(), |range| text(range));
            put_some(&mut one, "gateway", subnet.gateway, |ip| ip.to_string().into());
            Value::Object(one)
        });
        put(&mut out, "ipam", json!({ "config": all.collect::<Vec<_>>() }));
    }
    if !network.labels.is_empty() {
        put(&mut out, "labels", labels(&network.labels));
    }
    Value::Object(out)
}

fn volume(volume: &Volume) -> Value {
    let mut out = Map::new();
    if !volume.labels.is_empty() {
        put(&mut out, "labels", labels(&volume.labels));
    }
    Value::Object(out)
}
