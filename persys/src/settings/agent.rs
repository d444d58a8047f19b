//! What an agent is told.

use std::path::PathBuf;

use persys_agent::app::{ComposeChoice, Config, Reach, RuntimeChoice, Security};
use persys_agent::version::Version;
use persys_identity::Exposure;
use persys_node::settings::AgentSettings;

use super::read::{Reach as Exposed, Reader};
use super::scheduler::{NO_GATEWAY, certificates};
use super::storage;
use super::vm::machines;
use super::{Setting, Unused, Values, telemetry};
use crate::component::watchdog_command;

pub(crate) const ABOUT: &str = "The agent: runs what the scheduler places on this node";

#[rustfmt::skip]
pub(crate) const TABLE: &[Setting] = &[
    setting!("node-id", ["PERSYS_NODE_ID"], "", "Name of the node; the host's when not given"),
    setting!("agent-version", ["PERSYS_VERSION"], "", "Name of this installation, shown as the agent's version; that of the program when not given"),
    setting!("cluster", ["PERSYS_CLUSTER_ID"], "persys", "Name of the cluster, as certificates carry it"),
    setting!("scheduler-addr", ["PERSYS_SCHEDULER_ADDR"], "127.0.0.1:8085", "Schedulers, host:port, several with commas; `none` is commanded directly"),
    setting!("scheduler-insecure", ["PERSYS_SCHEDULER_INSECURE"], "false", "No TLS to the schedulers; goes with `insecure`"),
    setting!("grpc-addr", ["PERSYS_GRPC_ADDR"], "0.0.0.0", "Address to listen on"),
    setting!("grpc-port", ["PERSYS_GRPC_PORT"], "50051", "Port of the agent's API"),
    setting!("reach", ["PERSYS_AGENT_REACH"], "called", "`called` by the scheduler, or `stream`: it calls, listens nowhere, and works behind NAT"),
    setting!("agent-grpc-endpoint", ["PERSYS_AGENT_GRPC_ENDPOINT"], "", "Where schedulers reach it, host:port; found out when not given"),
    setting!("state-path", ["PERSYS_STATE_PATH", "PERSYS_STATE_STORE_PATH"], "/var/lib/persys/agent", "Folder of what it must not forget"),
    setting!("insecure", [], "false", "No TLS, on this machine"),
    setting!("insecure-anywhere", [], "false", "No TLS for everybody who can reach the port"),
    setting!("tls-enabled", ["PERSYS_TLS_ENABLED"], "true", "TLS both ways; false is `insecure`"),
    setting!("identity", ["PERSYS_IDENTITY"], "", "One file with key, certificate and roots, instead of the three below"),
    setting!("tls-ca", ["PERSYS_TLS_CA", "PERSYS_TLS_CA_PATH"], "/etc/persys/certs/ca.crt", "Trusted roots"),
    setting!("tls-cert", ["PERSYS_TLS_CERT", "PERSYS_TLS_CERT_PATH"], "/etc/persys/certs/agent.crt", "Certificate"),
    setting!("tls-key", ["PERSYS_TLS_KEY", "PERSYS_TLS_KEY_PATH"], "/etc/persys/certs/agent.key", "Private key"),
    setting!("tls-names", ["PERSYS_TLS_NAMES"], "", "File that maps names of certificates made elsewhere to roles; see certificates.md"),
    setting!("enrol-addr", ["PERSYS_ENROL_ADDR"], "", "Where the certificate is renewed, host:port, several with commas; nothing: somebody else looks after the files"),
    setting!("vault-enabled", ["PERSYS_VAULT_ENABLED"], "auto", "Certificates from Vault: true, false, or auto, when there is something to log in with"),
    setting!("vault-addr", ["PERSYS_VAULT_ADDR"], "http://127.0.0.1:8200", "URL of Vault"),
    setting!("vault-auth-method", ["PERSYS_VAULT_AUTH_METHOD"], "approle", "How to log in: token or approle"),
    setting!("vault-token", ["PERSYS_VAULT_TOKEN"], "", "Token for Vault; not as a flag"),
    setting!("vault-approle-role-id", ["PERSYS_VAULT_APPROLE_ROLE_ID"], "", "Role id for Vault's AppRole"),
    setting!("vault-approle-secret-id", ["PERSYS_VAULT_APPROLE_SECRET_ID"], "", "Its secret id; not as a flag"),
    setting!("vault-pki-mount", ["PERSYS_VAULT_PKI_MOUNT"], "pki", "Where Vault's PKI is mounted"),
    setting!("vault-pki-role", ["PERSYS_VAULT_PKI_ROLE"], "compute-agent", "Role of that PKI; it must allow our identity as a URI"),
    setting!("vault-cert-ttl", ["PERSYS_VAULT_CERT_TTL"], "24h", "How long certificates of Vault last"),
    setting!("vault-service-name", ["PERSYS_VAULT_SERVICE_NAME"], "compute-agent", "Common name of the certificate"),
    setting!("vault-service-domain", ["PERSYS_VAULT_SERVICE_DOMAIN"], "", "Domain of the common name, and of our identity"),
    setting!("vault-retry-interval", ["PERSYS_VAULT_RETRY_INTERVAL"], "2m", "How long to wait when Vault gives no certificate"),
    setting!("external-ip", ["PERSYS_EXTERNAL_IP"], "", "A further address in certificates of Vault"),
    setting!("runtime", [], "docker", "docker, or sim, which runs nothing real"),
    setting!("docker-enabled", ["PERSYS_DOCKER_ENABLED"], "true", "Offer containers and stacks; false: virtual machines alone, and what Docker ran before is only seen and removed"),
    setting!("docker-host", ["DOCKER_HOST"], "", "Where Docker listens; the usual place when not given"),
    setting!("compose-enabled", ["PERSYS_COMPOSE_ENABLED"], "true", "Offer Compose stacks, where Docker and a Compose program answer"),
    setting!("compose-binary", ["PERSYS_COMPOSE_BINARY"], "", "The Compose program: a path, or docker-compose or docker as it is found in the usual folders; whichever answers when not given"),
    setting!("labels", ["PERSYS_NODE_LABELS"], "", "Labels of the node, name=value with commas"),
    setting!("region", ["PERSYS_NODE_REGION"], "", "The label `region`"),
    setting!("env", ["PERSYS_NODE_ENV"], "", "The label `env`"),
    setting!("reconcile-enabled", ["PERSYS_RECONCILE_ENABLED"], "true", "Ask the runtime also when nothing happens; false: after orders, events of the runtime and a start alone"),
    setting!("reconcile-interval", ["PERSYS_RECONCILE_INTERVAL"], "30s", "How often the runtime is asked when nothing happens; while something runs at least every 18 s, unless this is above 30 s"),
    setting!("admit-percent", [], "80", "Measured use of CPU or memory from which nothing new is taken; 0: no limit"),
    setting!("admit-disk-percent", [], "90", "Share of the disk in use, as `df` tells it, from which nothing new is taken; 0: no limit"),
    setting!("metrics-port", ["PERSYS_METRICS_PORT"], "8089", "Port of /health and /metrics; 0: none"),
    setting!("watchdog", [], "true", "A process that stops exclusive work when the agent cannot"),
    setting!("registry-auth", ["PERSYS_REGISTRY_AUTH"], "", "Credentials of private registries, as `docker login` writes them"),
    setting!("storage-local-root", ["PERSYS_STORAGE_LOCAL_ROOT"], "/var/lib/persys/volumes/local", "Folder of managed volumes on this node"),
    setting!("storage-local-limit", ["PERSYS_STORAGE_LOCAL_LIMIT"], "auto", "Whether their size is held: `image` by a file system of their own, `none`, `auto` where the host can"),
    setting!("storage-nfs-server", ["PERSYS_STORAGE_NFS_SERVER"], "", "NFS server of managed volumes; with the export it makes the driver `nfs` available"),
    setting!("storage-nfs-export", ["PERSYS_STORAGE_NFS_EXPORT"], "", "What it exports to us"),
    setting!("storage-nfs-options", ["PERSYS_STORAGE_NFS_OPTIONS"], "", "Options of the mount, as `mount -o` takes them"),
    setting!("storage-nfs-stage-dir", ["PERSYS_STORAGE_NFS_STAGE_DIR"], "/var/lib/persys/volumes/nfs", "Where its volumes are mounted"),
    setting!("storage-ceph-pool", ["PERSYS_STORAGE_CEPH_POOL"], "", "Ceph pool of managed volumes; it makes the driver `ceph-rbd` available"),
    setting!("storage-ceph-cluster", ["PERSYS_STORAGE_CEPH_CLUSTER"], "", "Name of the Ceph cluster; Ceph's own when not given"),
    setting!("storage-ceph-user", ["PERSYS_STORAGE_CEPH_USER"], "", "Who we are to Ceph"),
    setting!("storage-ceph-keyring", ["PERSYS_STORAGE_CEPH_KEYRING"], "", "File with the key for it"),
    setting!("storage-ceph-stage-dir", ["PERSYS_STORAGE_CEPH_STAGE_DIR"], "/var/lib/persys/volumes/ceph-rbd", "Where its volumes are mounted"),
    setting!("vm-enabled", ["PERSYS_VM_ENABLED"], "true", "Offer virtual machines, where libvirt answers"),
    setting!("libvirt-uri", ["PERSYS_LIBVIRT_URI"], "qemu:///system", "Which driver of libvirt"),
    setting!("libvirt-socket", ["PERSYS_LIBVIRT_SOCKET"], "", "Where libvirt listens; the usual places when not given"),
    setting!("vm-path", ["PERSYS_VM_PATH"], "/var/lib/libvirt/persys/machines", "Folder of what belongs to machines: seeds, consoles, records"),
    setting!("vm-pools", ["PERSYS_VM_POOLS"], "default=/var/lib/libvirt/images", "Folders that disks of machines are made in, name=folder with commas; the first is for disks that name none"),
    setting!("vm-images", ["PERSYS_VM_IMAGES"], "/var/lib/libvirt/persys/images", "Folder of the images that machines may name"),
    setting!("vm-roots", ["PERSYS_VM_ROOTS"], "/var/lib/libvirt/images", "Folders under which specs may name disks of their own, with commas"),
    telemetry::ENDPOINT,
    telemetry::INSECURE,
    telemetry::ROOTS,
    telemetry::HEADERS,
    telemetry::SERVICE,
    telemetry::ATTRIBUTES,
    telemetry::SAMPLER,
    telemetry::SHARE,
    telemetry::LEVEL,
    telemetry::FORMAT,
];

/// Variables that are documented somewhere and have no meaning here, or not yet.
#[rustfmt::skip]
pub(crate) const UNUSED: &[Unused] = &[
    ("PERSYS_GATEWAY_*", NO_GATEWAY),
];

/// Shortest interval between two looks at the runtime.
const LEAST_OBSERVE_MS: u64 = 100;

/// Room between the use from which nothing is taken and the use below which it is again.
const HYSTERESIS_PERCENT: u64 = 5;

/// The configuration, or all that is wrong with it.
pub(crate) fn config(values: &Values) -> Result<Config, Vec<String>> {
    let mut read = Reader::new(values);
    let anywhere = read.switch("insecure-anywhere");
    let insecure = read.switch("insecure") || anywhere || !read.switch("tls-enabled");
    let security = match (insecure, anywhere) {
        (false, _) => Security::Mtls(certificates(&read)),
        (true, true) => Security::Insecure(Exposure::Anywhere),
        (true, false) => Security::Insecure(Exposure::Loopback),
    };
    if values.is_given("scheduler-insecure") && read.switch("scheduler-insecure") != insecure {
        read.fault("scheduler-insecure", "TLS is on both ways or on neither; see `tls-enabled`");
    }
    let reached = Exposed::of(insecure, anywhere);
    let grpc = read.address("grpc-addr", "grpc-port", reached);
    let runtime = runtime(&mut read, values);
    check_version(&mut read);
    let compose = compose(&mut read);
    let mut labels: std::collections::BTreeMap<_, _> = read.pairs("labels").into_iter().collect();
    for key in ["region", "env"] {
        labels.extend(read.text(key).map(|value| (key.to_owned(), value)));
    }
    let admit_percent = read.percent("admit-percent");
    let admit_disk_percent = read.percent("admit-disk-percent");
    let settings = AgentSettings {
        observe_ms: read.interval_ms("reconcile-interval", LEAST_OBSERVE_MS),
        observe_periodically: read.switch("reconcile-enabled"),
        admit_percent,
        release_percent: admit_percent.saturating_sub(HYSTERESIS_PERCENT),
        admit_disk_percent,
        release_disk_percent: admit_disk_percent.saturating_sub(HYSTERESIS_PERCENT),
        ..AgentSettings::default()
    };
    let mut schedulers = read.list("scheduler-addr");
    if schedulers == ["none"] {
        schedulers.clear();
    }
    let reach = match values.text("reach") {
        "called" => Reach::Called,
        "stream" => Reach::Stream,
        _ => {
            read.fault("reach", "called or stream");
            Reach::Called
        }
    };
    let http = read.address("grpc-addr", "metrics-port", reached).filter(|at| at.port() != 0);
    let simulated = matches!(runtime, RuntimeChoice::Sim(_));
    let watchdog = if read.switch("watchdog") && !simulated { watchdog_command() } else { None };
    let volumes = storage::settings(&mut read, simulated);
    let machines = machines(&mut read);
    let made = grpc.map(|grpc| Config {
        node: read.text("node-id").filter(|name| name != "auto"),
        grpc,
        reach,
        advertise: read.text("agent-grpc-endpoint"),
        schedulers,
        state_dir: state_dir(read.path("state-path")),
        cluster: values.text("cluster").to_owned(),
        runtime,
        compose,
        security,
        labels,
        settings,
        watchdog,
        volumes,
        registry_auth: read.text("registry-auth").map(PathBuf::from),
        machines,
        http,
    });
    read.finish(made)
}

fn runtime(read: &mut Reader<'_>, values: &Values) -> RuntimeChoice {
    let containers = read.switch("docker-enabled");
    let runtime = match values.text("runtime") {
        "docker" if containers => RuntimeChoice::Docker { host: read.text("docker-host") },
        "docker" => RuntimeChoice::DockerSwitchedOff { host: read.text("docker-host") },
        "sim" => RuntimeChoice::Sim(None),
        _ => {
            read.fault("runtime", "docker or sim");
            RuntimeChoice::Sim(None)
        }
    };
    let nothing = matches!(runtime, RuntimeChoice::DockerSwitchedOff { .. });
    if nothing && !read.switch("vm-enabled") {
        read.fault("docker-enabled", "virtual machines are off too: nothing is left to run");
    }
    runtime
}

fn compose(read: &mut Reader<'_>) -> ComposeChoice {
    // The plugin is what is looked for first when nothing is said.
    let said = read.text("compose-binary").filter(|said| said != "docker compose");
    let program = said.map(PathBuf::from);
    let is_name = |path: &PathBuf| path.components().count() == 1;
    if program.as_ref().is_some_and(|path| !path.is_absolute() && !is_name(path)) {
        let why = "an absolute path, a name such as docker-compose, or the words `docker compose`";
        read.fault("compose-binary", why);
    }
    ComposeChoice { enabled: read.switch("compose-enabled"), program }
}

/// Longest name of an installation: schedulers are told it with the version of the program.
const VERSION_BYTES: usize = 32;

fn check_version(read: &mut Reader<'_>) {
    let Some(version) = read.text("agent-version") else { return };
    let plain = |byte: u8| byte.is_ascii_graphic() && !matches!(byte, b'(' | b')');
    if version.len() > VERSION_BYTES || !version.bytes().all(plain) {
        let why = format!(
            "up to {VERSION_BYTES} letters, digits and signs, without spaces and parentheses"
        );
        read.fault("agent-version", why);
    }
}

/// Version that the agent shows.
pub(crate) fn version(values: &Values) -> Version {
    match values.text("agent-version").trim() {
        "" => Version::default(),
        name => Version::named(name),
    }
}

/// The documents name a file; ours is a folder beside it.
pub(super) fn state_dir(path: PathBuf) -> PathBuf {
    if path.extension().is_some_and(|end| end == "db") {
        path.with_file_name("agent")
    } else {
        path
    }
}

#[cfg(test)]
mod tests {
    use super::super::{command, resolve};
    use super::*;

    fn configured(line: &str) -> Result<Config, Vec<String>> {
        let words = line.split_whitespace().map(std::ffi::OsString::from);
        let typed = command("agent", ABOUT, TABLE).try_get_matches_from(words).unwrap();
        config(&resolve(TABLE, &typed, |_| None, None).unwrap())
    }

    #[test]
    fn what_is_said_reaches_the_agent() {
        let config = configured(
            "--node-id n1 --tls-enabled=false --labels disk=ssd,rack=2 --region eu --runtime sim",
        )
        .unwrap();
        assert_eq!(config.node.as_deref(), Some("n1"));
        assert_eq!(config.grpc.to_string(), "127.0.0.1:50051");
        assert!(matches!(config.security, Security::Insecure(Exposure::Loopback)));
        let labels: Vec<_> = config.labels.iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(labels, ["disk=ssd", "rack=2", "region=eu"]);
        assert_eq!(config.schedulers, ["127.0.0.1:8085"]);
        assert_eq!(
            configured("--state-path /var/lib/persys/state.db").unwrap().state_dir,
            configured("").unwrap().state_dir
        );
        assert!(configured("--scheduler-addr none").unwrap().schedulers.is_empty());
    }

    #[test]
    fn containers_may_be_switched_off_where_machines_are_left() {
        let config = configured("--docker-enabled=false").unwrap();
        assert!(matches!(config.runtime, RuntimeChoice::DockerSwitchedOff { .. }));
        let faults = configured("--docker-enabled=false --vm-enabled=false").unwrap_err();
        assert!(faults[0].contains("nothing is left to run"), "{faults:?}");
    }

    #[test]
    fn a_compose_program_is_a_path_or_a_name() {
        for (said, program) in [
            ("docker-compose", Some("docker-compose")),
            ("docker", Some("docker")),
            ("/opt/dc", Some("/opt/dc")),
        ] {
            let compose = configured(&format!("--compose-binary {said}")).unwrap().compose;
            assert_eq!(compose.program, program.map(PathBuf::from), "{said}");
        }
        assert!(configured("--compose-binary ./docker-compose").is_err());
        assert!(configured("--compose-binary bin/docker-compose").is_err());
    }

    #[test]
    fn a_version_is_a_word() {
        for bad in ["a(b)", &"x".repeat(33)] {
            assert!(configured(&format!("--agent-version {bad}")).is_err(), "{bad}");
        }
        assert!(configured("--agent-version v2024.11-dev").is_ok());
    }

    #[test]
    fn all_faults_are_named_at_once() {
        let line = "--runtime podman --labels ssd --admit-percent 140 --reconcile-interval often \
                    --admit-disk-percent much";
        assert_eq!(configured(line).unwrap_err().len(), 5);
    }
}
