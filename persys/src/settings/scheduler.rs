//! What a scheduler is told.

use persys_cluster::discovery::{ZoneFault, Zones};
use persys_cluster::settings::Settings;
use persys_identity::{Exposure, Source};
use persys_scheduler::app::{Advertise, Config, Security};
use persys_scheduler::discovery::{Discovery, Dns};

use super::read::{Reach, Reader};
use super::{Setting, Unused, Values, telemetry};

pub(crate) const ABOUT: &str = "The scheduler: owns what you want, places it, sees that it runs";

#[rustfmt::skip]
pub(crate) const TABLE: &[Setting] = &[
    setting!("grpc-addr", ["PERSYS_GRPC_ADDR"], "0.0.0.0", "Address to listen on, gRPC and HTTP"),
    setting!("grpc-port", ["GRPC_PORT"], "8085", "Port of the control API"),
    setting!("metrics-port", ["METRICS_PORT"], "8084", "Port of /health and /metrics"),
    setting!("advertise-ip", ["SCHEDULER_ADVERTISE_IP"], "", "Address other schedulers reach this one at; found out if not given"),
    setting!("advertise-port", ["SCHEDULER_ADVERTISE_PORT"], "", "Port they reach it at; usually grpc-port"),
    setting!("cluster", ["PERSYS_CLUSTER_ID"], "persys", "Name of the cluster, as certificates carry it"),
    setting!("state-dir", ["PERSYS_STATE_DIR"], "/var/lib/persys/scheduler", "Folder of the embedded store, and of what this host remembers of any"),
    setting!("store", [], "embedded", "embedded: a file, for one scheduler; etcd: shared by several (also when its endpoints are named)"),
    setting!("etcd-endpoints", ["ETCD_ENDPOINTS"], "localhost:2379", "Members of etcd, host:port, separated by commas"),
    setting!("etcd-root", [], "", "Stands in front of every key in etcd, such as /persys"),
    setting!("etcd-ca", [], "", "Trusted roots for etcd; with it connections are TLS"),
    setting!("etcd-cert", [], "", "Certificate to show to etcd"),
    setting!("etcd-key", [], "", "Its private key"),
    setting!("etcd-server-name", [], "", "Name in etcd's certificate, if it is not the host that is dialled"),
    setting!("etcd-user", [], "", "Name to etcd"),
    setting!("etcd-password", ["ETCD_PASSWORD"], "", "Its password; not as a flag"),
    setting!("etcd-password-file", [], "", "File with the password"),
    setting!("etcd-quota-bytes", ["PERSYS_ETCD_QUOTA_BYTES"], "2147483648", "How much etcd may store, as its --quota-backend-bytes says: it is warned of before that is full"),
    setting!("insecure", [], "false", "No TLS: on 127.0.0.1, everybody on this machine is an operator"),
    setting!("insecure-anywhere", [], "false", "No TLS for everybody who can reach the port"),
    setting!("identity", ["PERSYS_IDENTITY"], "", "One file with key, certificate and roots, instead of the three below"),
    setting!("tls-ca", ["PERSYS_TLS_CA"], "/etc/persys/certs/persys-scheduler/ca.pem", "Trusted roots"),
    setting!("tls-cert", ["PERSYS_TLS_CERT"], "/etc/persys/certs/persys-scheduler/persys_scheduler.crt", "Certificate"),
    setting!("tls-key", ["PERSYS_TLS_KEY"], "/etc/persys/certs/persys-scheduler/persys_scheduler-key.key", "Private key"),
    setting!("tls-names", ["PERSYS_TLS_NAMES"], "", "File that maps names of certificates made elsewhere to roles; see certificates.md"),
    setting!("ca-dir", ["PERSYS_CA_DIR"], "", "Folder of the authority, if this scheduler has one beside it; `ca` in state-dir when not given"),
    setting!("enrol-port", ["PERSYS_ENROL_PORT"], "8086", "Port where machines join and renew, if there is an authority; nothing: nowhere"),
    setting!("cert-ttl", ["PERSYS_ENROL_CERT_TTL"], "24h", "How long the certificates of its members last"),
    setting!("enrol-addr", ["PERSYS_ENROL_ADDR"], "", "Where the certificate is renewed, host:port, several with commas; nothing: somebody else looks after the files"),
    setting!("vault-enabled", ["PERSYS_VAULT_ENABLED"], "auto", "Certificates from Vault: true, false, or auto, when there is something to log in with"),
    setting!("vault-addr", ["PERSYS_VAULT_ADDR"], "http://127.0.0.1:8200", "URL of Vault"),
    setting!("vault-auth-method", ["PERSYS_VAULT_AUTH_METHOD"], "token", "How to log in: token or approle"),
    setting!("vault-token", ["PERSYS_VAULT_TOKEN"], "", "Token for Vault; not as a flag"),
    setting!("vault-approle-role-id", ["PERSYS_VAULT_APPROLE_ROLE_ID"], "", "Role id for Vault's AppRole"),
    setting!("vault-approle-secret-id", ["PERSYS_VAULT_APPROLE_SECRET_ID"], "", "Its secret id; not as a flag"),
    setting!("vault-pki-mount", ["PERSYS_VAULT_PKI_MOUNT"], "pki", "Where Vault's PKI is mounted"),
    setting!("vault-pki-role", ["PERSYS_VAULT_PKI_ROLE"], "persys-scheduler", "Role of that PKI; it must allow our identity as a URI"),
    setting!("vault-cert-ttl", ["PERSYS_VAULT_CERT_TTL"], "24h", "How long certificates of Vault last"),
    setting!("vault-service-name", ["PERSYS_VAULT_SERVICE_NAME"], "persys-scheduler", "Common name of the certificate"),
    setting!("vault-service-domain", ["PERSYS_VAULT_SERVICE_DOMAIN"], "", "Domain of the common name, and of our identity"),
    setting!("vault-retry-interval", ["PERSYS_VAULT_RETRY_INTERVAL"], "1m", "How long to wait when Vault gives no certificate"),
    setting!("external-ip", ["PERSYS_EXTERNAL_IP"], "", "A further address in certificates of Vault"),
    setting!("agent-tls-enabled", ["SCHEDULER_AGENT_TLS_ENABLED"], "true", "TLS to the agents; goes with `insecure`"),
    setting!("reconcile-interval", ["SCHEDULER_RECONCILE_INTERVAL"], "5s", "How often it looks what is due although nothing happened"),
    setting!("drift-detect-interval", ["SCHEDULER_DRIFT_DETECT_INTERVAL"], "30s", "How often each node is asked for all it holds"),
    setting!("node-unavailable-grace", ["SCHEDULER_NODE_UNAVAILABLE_GRACE"], "4s", "How long after its lease a silent node keeps its work"),
    setting!("missing-grace-period", ["SCHEDULER_MISSING_GRACE_PERIOD"], "15s", "How long a node may lack a workload that it was told to start before that is a drift"),
    setting!("agent-down-grace", ["SCHEDULER_AGENT_DOWN_GRACE"], "1m", "How long after its lease a node keeps its work whose host lives and whose agent does not"),
    setting!("agent-status-poll-interval", ["SCHEDULER_AGENT_STATUS_POLL_INTERVAL"], "1s", "How often agents of the earlier contract are asked about a workload that is started, stopped or removed; ours tell by themselves"),
    setting!("shadow", ["SCHEDULER_SHADOW"], "false", "Place, order and report, but publish no ports and announce no names; the same on every scheduler"),
    setting!("agent-apply-timeout", ["SCHEDULER_AGENT_APPLY_TIMEOUT"], "45s", "Longest time without progress until an attempt to start a container or a stack ends"),
    setting!("agent-vm-apply-timeout", ["SCHEDULER_AGENT_VM_APPLY_TIMEOUT"], "4m", "The same for a virtual machine"),
    setting!("agent-delete-timeout", ["SCHEDULER_AGENT_DELETE_TIMEOUT"], "1m", "Longest time without progress until a stop or a removal is reported as overdue; the time a workload has to end by itself comes on top"),
    setting!("domain", ["DOMAIN"], "persys.local", "Domain of the names of scheduler and workloads"),
    setting!("agents-discovery-domain", ["AGENTS_DISCOVERY_DOMAIN"], "agents.persys.cloud", "Domain of the names of agents"),
    setting!("shard-key", ["SCHEDULER_SHARD_KEY"], "default", "Part of the names of agents before their domain"),
    setting!("skydns-enabled", ["PERSYS_SKYDNS_ENABLED"], "true", "With etcd: keep the names there too, as CoreDNS reads them"),
    setting!("dns-enabled", ["PERSYS_DNS_ENABLED"], "true", "Answer the names of the cluster over DNS"),
    setting!("dns-addr", ["PERSYS_DNS_ADDR"], "127.0.0.1", "Address where names are answered; 0.0.0.0 for everybody"),
    setting!("dns-port", ["PERSYS_DNS_PORT"], "5353", "Port where names are answered, UDP and TCP"),
    setting!("git-allow", ["PERSYS_GIT_ALLOW"], "https,ssh", "Protocols by which Compose files are fetched from repositories: https, ssh, file, http"),
    setting!("git-hosts", ["PERSYS_GIT_HOSTS"], "", "Hosts they may be fetched from, with commas; all when not given"),
    setting!("git-credentials", ["PERSYS_GIT_CREDENTIALS"], "", "File of tokens for private repositories, one https://user:token@host a line"),
    setting!("git-ssh-key", ["PERSYS_GIT_SSH_KEY"], "", "Private key for repositories over ssh"),
    setting!("git-known-hosts", ["PERSYS_GIT_KNOWN_HOSTS"], "", "Keys of the servers over ssh, as known_hosts keeps them"),
    setting!("git-timeout", ["PERSYS_GIT_TIMEOUT"], "30s", "How long one fetch may take"),
    setting!("secrets-key-file", ["PERSYS_SECRETS_KEY_FILE"], "", "File with the keys of secrets, the same on every scheduler; usually secrets.key in state-dir"),
    setting!("vault-secrets-enabled", ["PERSYS_VAULT_SECRETS_ENABLED"], "false", "Secrets may be read from Vault, with the address and login of vault-addr and the rest; a namespace says which paths"),
    setting!("vault-secrets-refresh", ["PERSYS_VAULT_SECRETS_REFRESH"], "5m", "How often a secret is read again from Vault"),
    setting!("oidc-issuer", ["PERSYS_OIDC_ISSUER"], "", "OpenID provider whose logins are believed; none when not given"),
    setting!("oidc-audience", ["PERSYS_OIDC_AUDIENCE"], "persys", "Whom its tokens must be for"),
    setting!("oidc-user-claim", ["PERSYS_OIDC_USER_CLAIM"], "sub", "The claim that names the user"),
    setting!("oidc-groups-claim", ["PERSYS_OIDC_GROUPS_CLAIM"], "groups", "The claim that lists their groups"),
    setting!("oidc-ca", ["PERSYS_OIDC_CA"], "", "Roots to trust for the provider, beside the system's"),
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
    ("REDIS_ADDR", NO_REDIS),
    ("REDIS_PASSWORD", NO_REDIS),
    ("REDIS_DB", NO_REDIS),
    ("REDIS_RECONCILE_TTL", NO_REDIS),
    ("REDIS_EVENT_TTL", NO_REDIS),
    ("REDIS_EVENT_MAX_ENTRIES", NO_REDIS),
    ("METER_REDIS_STREAM", NO_REDIS),
    ("SCHEDULER_RECONCILE_CONCURRENCY", "one process decides; nothing runs in rounds"),
    ("SCHEDULER_AGENT_RPC_TIMEOUT", "a call to an agent has 10 s; what was not answered is sent again"),
    ("SCHEDULER_REAPPLY_GUARD", "what was decided once is not decided again"),
    ("SCHEDULER_HA_MODE", "several schedulers on one etcd always work as one that leads and others that follow"),
    ("SCHEDULER_SHARD_COUNT", NO_SHARDS),
    ("SCHEDULER_SHARD_INDEX", NO_SHARDS),
    ("PERSYS_VAULT_MANAGER_ADDR", "there is no manager between this and Vault"),
    ("PERSYS_RGW_*", "there is no object storage in this version yet"),
    ("PERSYS_GATEWAY_*", NO_GATEWAY),
];

const NO_REDIS: &str = "events and results are kept with the state; there is no Redis";
const NO_SHARDS: &str =
    "one scheduler leads all nodes; SCHEDULER_SHARD_KEY is only part of their names";
pub(super) const NO_GATEWAY: &str = "it is a setting of `persys gateway`";

/// Shortest intervals, so that no setting makes a scheduler that is busy with itself.
const LEAST_LOOK_MS: u64 = 50;
const LEAST_POLL_MS: u64 = 100;
/// Shortest timeout, so that no setting ends attempts before an agent can tell of them.
const LEAST_TIMEOUT_MS: u64 = 1_000;
const LEAST_DRIFT_MS: u64 = 1_000;

/// The configuration, or all that is wrong with it.
pub(crate) fn config(values: &Values) -> Result<Config, Vec<String>> {
    let mut read = Reader::new(values);
    let (anywhere, insecure) = (read.switch("insecure-anywhere"), read.switch("insecure"));
    let insecure = insecure || anywhere;
    if insecure && values.is_given("agent-tls-enabled") && read.switch("agent-tls-enabled") {
        read.fault(
            "agent-tls-enabled",
            "contradicts `insecure`: TLS is on both ways or on neither",
        );
    }
    if !insecure && !read.switch("agent-tls-enabled") {
        read.fault("agent-tls-enabled", "TLS is on both ways or on neither; see `insecure`");
    }
    let security = if insecure {
        Security::Insecure(if anywhere { Exposure::Anywhere } else { Exposure::Loopback })
    } else {
        Security::Mtls(certificates(&read))
    };
    let reach = Reach::of(insecure, anywhere);
    let grpc = read.address("grpc-addr", "grpc-port", reach);
    let http = read.address("grpc-addr", "metrics-port", reach);
    let advertise = Advertise {
        ip: read.perhaps("advertise-ip", "an address such as 10.0.0.1"),
        port: read
            .perhaps("advertise-port", "a port from 1 to 65535")
            .map(std::num::NonZeroU16::get),
    };
    let settings = Settings {
        look_ms: read.interval_ms("reconcile-interval", LEAST_LOOK_MS),
        drift_interval_ms: read.interval_ms("drift-detect-interval", LEAST_DRIFT_MS),
        failover_grace_ms: read.duration_ms("node-unavailable-grace"),
        missing_grace_ms: read.duration_ms("missing-grace-period"),
        agent_down_failover_ms: read.duration_ms("agent-down-grace"),
        status_poll_ms: read.interval_ms("agent-status-poll-interval", LEAST_POLL_MS),
        apply_timeout_ms: read.interval_ms("agent-apply-timeout", LEAST_TIMEOUT_MS),
        vm_apply_timeout_ms: read.interval_ms("agent-vm-apply-timeout", LEAST_TIMEOUT_MS),
        delete_timeout_ms: read.interval_ms("agent-delete-timeout", LEAST_TIMEOUT_MS),
        shadow: read.switch("shadow"),
        ..Settings::default()
    };
    let discovery = discovery(&mut read);
    let (state_dir, cluster) = (read.path("state-dir"), values.text("cluster").to_owned());
    let store = super::etcd::place(&mut read, values);
    let git = super::git::settings(&mut read);
    let secrets_key = values.is_given("secrets-key-file").then(|| read.path("secrets-key-file"));
    let vault = super::vault::secrets(&mut read, values);
    let logins = super::oidc::settings(&read);
    let made = grpc.zip(http).zip(discovery).map(|((grpc, http), discovery)| Config {
        grpc,
        http,
        advertise,
        state_dir,
        store,
        cluster,
        security,
        settings,
        discovery,
        logins,
        git,
        secrets_key,
        vault,
    });
    read.finish(made)
}

/// Under which names everything is found.
fn discovery(read: &mut Reader<'_>) -> Option<Discovery> {
    let text = |key: &str| read.text(key).unwrap_or_default();
    let (domain, agents, shard) =
        (text("domain"), text("agents-discovery-domain"), text("shard-key"));
    let zones = Zones::new(&domain, &agents, &shard);
    let zones = zones.map_err(|faults| {
        for fault in faults {
            let key = match fault {
                ZoneFault::Domain(_) => "domain",
                ZoneFault::Agents(_) | ZoneFault::Shared { .. } => "agents-discovery-domain",
                ZoneFault::Shard => "shard-key",
            };
            read.fault(key, fault);
        }
    });
    // Names may be asked for by whoever reaches the address, so that is always said, not derived.
    let at = read.address("dns-addr", "dns-port", Reach::Anywhere);
    let dns = if read.switch("dns-enabled") { Dns::At(at?) } else { Dns::Off };
    let publish = read.switch("skydns-enabled");
    Some(Discovery { zones: zones.ok()?, dns, publish, sink: None })
}

/// One file if it is given, else three; and the mapping of names beside them.
pub(super) fn certificates(read: &Reader<'_>) -> Source {
    let files = match read.text("identity") {
        Some(path) => Source::Bundle(path.into()),
        None => Source::Separate {
            certificate: read.path("tls-cert"),
            key: read.path("tls-key"),
            roots: read.path("tls-ca"),
        },
    };
    files.mapped(read.text("tls-names").map(Into::into))
}

#[cfg(test)]
mod tests {
    use super::super::{command, resolve};
    use super::*;

    fn configured(line: &str) -> Result<Config, Vec<String>> {
        let words = line.split_whitespace().map(std::ffi::OsString::from);
        let words = words.map(super::super::with_two_dashes);
        let typed = command("scheduler", ABOUT, TABLE).try_get_matches_from(words).unwrap();
        config(&resolve(TABLE, &typed, |_| None, None).unwrap())
    }

    #[test]
    fn the_documented_flag_listens_on_this_machine_alone() {
        let config = configured("-insecure").unwrap();
        assert_eq!(config.grpc.to_string(), "127.0.0.1:8085");
        assert!(matches!(config.security, Security::Insecure(Exposure::Loopback)));
        let config = configured("-insecure-anywhere").unwrap();
        assert_eq!(config.grpc.to_string(), "0.0.0.0:8085");
        assert!(matches!(config.security, Security::Insecure(Exposure::Anywhere)));
    }

    #[test]
    fn what_is_said_reaches_the_settings() {
        let config =
            configured("--drift-detect-interval 1m30s --node-unavailable-grace 7").unwrap();
        assert_eq!(config.settings.drift_interval_ms, 90_000);
        assert_eq!(config.settings.failover_grace_ms, 7_000);
        assert!(matches!(config.security, Security::Mtls(Source::Separate { .. })));
    }

    #[test]
    fn where_others_reach_it_is_said_or_found_out() {
        let config = configured("-insecure").unwrap();
        assert_eq!(config.advertise, Advertise::default());
        assert_eq!(config.advertise.resolve(config.grpc).to_string(), "127.0.0.1:8085");
        let config = configured("--advertise-ip 10.0.0.7 --advertise-port 9085").unwrap();
        assert_eq!(config.advertise.resolve(config.grpc).to_string(), "10.0.0.7:9085");
        let faults = configured("--advertise-ip here --advertise-port 0").unwrap_err();
        assert_eq!(faults.len(), 2, "{faults:#?}");
    }

    #[test]
    fn names_are_as_they_are_told() {
        let discovery = configured("-insecure").unwrap().discovery;
        assert_eq!(discovery.zones, Zones::default());
        assert_eq!(discovery.dns, Dns::At("127.0.0.1:5353".parse().unwrap()));
        let said = "--domain a.test --agents-discovery-domain b.test --shard-key s \
                    --dns-addr 0.0.0.0 --dns-port 53";
        let discovery = configured(said).unwrap().discovery;
        assert_eq!(discovery.zones, Zones::new("a.test", "b.test", "s").unwrap());
        assert_eq!(discovery.dns, Dns::At("0.0.0.0:53".parse().unwrap()));
        let variables = [
            ("DOMAIN", "a.test"),
            ("AGENTS_DISCOVERY_DOMAIN", "b.test"),
            ("SCHEDULER_SHARD_KEY", "s"),
            ("PERSYS_DNS_ADDR", "0.0.0.0"),
            ("PERSYS_DNS_PORT", "53"),
        ];
        let typed = command("scheduler", ABOUT, TABLE).try_get_matches_from([""; 0]).unwrap();
        let set = |name: &str| {
            variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
        };
        let by_variables = config(&resolve(TABLE, &typed, set, None).unwrap()).unwrap().discovery;
        assert_eq!(format!("{by_variables:?}"), format!("{discovery:?}"));
        assert_eq!(configured("--dns-enabled=false").unwrap().discovery.dns, Dns::Off);
        let faults = configured("--domain .. --shard-key a.b --dns-addr there");
        assert_eq!(faults.unwrap_err().len(), 3);
        assert!(configured("--domain default.agents.persys.cloud").is_err(), "shared names");
    }

    #[test]
    fn all_faults_are_named_at_once() {
        let faults = configured(
            "--grpc-port 99999 --grpc-addr here --drift-detect-interval soon --insecure=perhaps",
        )
        .unwrap_err();
        assert_eq!(faults.len(), 5, "{faults:#?}");
        let faults = configured("-insecure --agent-tls-enabled=true").unwrap_err();
        assert!(faults.iter().all(|fault| fault.contains("contradicts")), "{faults:?}");
    }
}
