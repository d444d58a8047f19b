//! What a gateway is told.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use persys_gateway::app::{Config, Security};
use persys_gateway::caller::Secret;
use persys_gateway::clusters::discovery::Discovery;
use persys_gateway::clusters::file::Plan;
use persys_gateway::limits::Limits;
use persys_gateway::webhooks::{self, Provider};
use persys_identity::Name;

use super::read::Reader;
use super::scheduler::certificates;
use super::{Setting, Unused, Values, telemetry};

pub(crate) const ABOUT: &str =
    "The gateway: REST, events, webhooks and pages in front of the schedulers of many clusters";

#[rustfmt::skip]
pub(crate) const TABLE: &[Setting] = &[
    setting!("http-addr", ["PERSYS_GATEWAY_HTTP_ADDR"], "0.0.0.0:8551", "Where callers with certificates ask"),
    setting!("http-addr-public", ["PERSYS_GATEWAY_HTTP_ADDR_PUBLIC"], "0.0.0.0:8585", "Where browsers, callers with tokens and webhooks come in"),
    setting!("public-plain", ["PERSYS_GATEWAY_PUBLIC_PLAIN"], "false", "No TLS at the public address, which is then 127.0.0.1 unless said otherwise"),
    setting!("insecure", [], "false", "No certificates at all: on 127.0.0.1, everybody on this machine may do everything"),
    setting!("cluster-config", ["PERSYS_GATEWAY_CLUSTER_CONFIG"], "", "File that says which clusters there are; cluster.yaml of this folder if it is there"),
    setting!("cluster", ["PERSYS_CLUSTER_ID"], "persys", "Name of the one cluster, where no file says more"),
    setting!("scheduler-addr", ["PERSYS_SCHEDULER_ADDR"], "localhost:8085", "Its schedulers, host:port, separated by commas"),
    setting!("request-timeout", ["PERSYS_GATEWAY_REQUEST_TIMEOUT"], "10s", "How long a scheduler may take for an answer"),
    setting!("health-check-interval", ["PERSYS_GATEWAY_HEALTH_CHECK_INTERVAL"], "5s", "How often schedulers are asked whether they are well"),
    setting!("discovery-server", ["PERSYS_GATEWAY_DISCOVERY_SERVER"], "", "DNS server, address and port, that names schedulers of the usual cluster besides; not asked when not given"),
    setting!("discovery-domain", ["PERSYS_GATEWAY_DISCOVERY_DOMAIN"], "persys.local", "Domain of their names"),
    setting!("discovery-service", ["PERSYS_GATEWAY_DISCOVERY_SERVICE"], "persys-scheduler", "Name of their service"),
    setting!("discovery-interval", ["PERSYS_GATEWAY_DISCOVERY_INTERVAL"], "30s", "How often it is asked"),
    setting!("state-dir", ["PERSYS_STATE_DIR"], "/var/lib/persys/gateway", "Folder of what is remembered about webhooks"),
    setting!("github-webhook-secret", ["PERSYS_GATEWAY_GITHUB_WEBHOOK_SECRET"], "", "What GitHub signs its webhooks with; several with commas; not as a flag"),
    setting!("gitlab-webhook-secret", ["PERSYS_GATEWAY_GITLAB_WEBHOOK_SECRET"], "", "The token that GitLab shows with its webhooks; not as a flag"),
    setting!("gitea-webhook-secret", ["PERSYS_GATEWAY_GITEA_WEBHOOK_SECRET"], "", "What Gitea signs its webhooks with; not as a flag"),
    setting!("webhook-user", ["PERSYS_GATEWAY_WEBHOOK_USER"], "webhooks", "The user in whose name pushes are dealt with and events are followed; bind it to a role"),
    setting!("webhook-replay-ttl", ["PERSYS_GATEWAY_WEBHOOK_REPLAY_TTL"], "24h", "How long deliveries are remembered"),
    setting!("webhook-listeners", ["PERSYS_GATEWAY_WEBHOOK_LISTENERS"], "", "File of those who are told of events"),
    setting!("max-connections", ["PERSYS_GATEWAY_MAX_CONNECTIONS"], "16384", "Connections at a time"),
    setting!("max-connections-per-source", ["PERSYS_GATEWAY_MAX_CONNECTIONS_PER_SOURCE"], "1024", "Connections at a time from one address"),
    setting!("requests-per-second", ["PERSYS_GATEWAY_REQUESTS_PER_SECOND"], "1000", "Requests a second of one caller, and twice as many at once"),
    setting!("max-body-bytes", ["PERSYS_GATEWAY_MAX_BODY_BYTES"], "4194304", "Largest body of a request"),
    setting!("identity", ["PERSYS_IDENTITY"], "", "One file with key, certificate and roots, instead of the three below"),
    setting!("tls-ca", ["PERSYS_GATEWAY_TLS_CA_PATH"], "/etc/persys/certs/persys-gateway/ca.pem", "Trusted roots"),
    setting!("tls-cert", ["PERSYS_GATEWAY_TLS_CERT_PATH"], "/etc/persys/certs/persys-gateway/tls.crt", "Certificate"),
    setting!("tls-key", ["PERSYS_GATEWAY_TLS_KEY_PATH"], "/etc/persys/certs/persys-gateway/tls.key", "Private key"),
    setting!("tls-names", ["PERSYS_TLS_NAMES"], "", "File that maps names of certificates made elsewhere to roles; see certificates.md"),
    setting!("otlp-endpoint", ["PERSYS_GATEWAY_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT", "JAEGER_ENDPOINT", "OTEL_EXPORTER_JAEGER_ENDPOINT"], "", "Collector that spans are sent to, http://host:4317 or host:4317, OTLP over gRPC; no traces when not given"),
    telemetry::INSECURE,
    telemetry::ROOTS,
    telemetry::HEADERS,
    telemetry::SERVICE,
    telemetry::ATTRIBUTES,
    telemetry::SAMPLER,
    telemetry::SHARE,
    telemetry::LEVEL,
    telemetry::FORMAT,
    setting!("enrol-addr", ["PERSYS_ENROL_ADDR"], "", "Where the certificate is renewed, host:port, several with commas; nothing: somebody else looks after the files"),
    setting!("vault-enabled", ["PERSYS_VAULT_ENABLED"], "auto", "Certificates from Vault: true, false, or auto, when there is something to log in with"),
    setting!("vault-addr", ["PERSYS_GATEWAY_VAULT_ADDR", "PERSYS_VAULT_ADDR"], "http://127.0.0.1:8200", "URL of Vault"),
    setting!("vault-auth-method", ["PERSYS_GATEWAY_VAULT_AUTH_METHOD", "PERSYS_VAULT_AUTH_METHOD"], "token", "How to log in: token or approle"),
    setting!("vault-token", ["PERSYS_GATEWAY_VAULT_TOKEN", "PERSYS_VAULT_TOKEN"], "", "Token for Vault; not as a flag"),
    setting!("vault-approle-role-id", ["PERSYS_GATEWAY_VAULT_ROLE_ID", "PERSYS_VAULT_APPROLE_ROLE_ID"], "", "Role id for Vault's AppRole"),
    setting!("vault-approle-secret-id", ["PERSYS_GATEWAY_VAULT_SECRET_ID", "PERSYS_VAULT_APPROLE_SECRET_ID"], "", "Its secret id; not as a flag"),
    setting!("vault-pki-mount", ["PERSYS_VAULT_PKI_MOUNT"], "pki", "Where Vault's PKI is mounted"),
    setting!("vault-pki-role", ["PERSYS_VAULT_PKI_ROLE"], "persys-gateway", "Role of that PKI; it must allow our identity as a URI"),
    setting!("vault-cert-ttl", ["PERSYS_VAULT_CERT_TTL"], "24h", "How long certificates of Vault last"),
    setting!("vault-service-name", ["PERSYS_VAULT_SERVICE_NAME"], "persys-gateway", "Common name of the certificate"),
    setting!("vault-service-domain", ["PERSYS_VAULT_SERVICE_DOMAIN"], "", "Domain of the common name, and of our identity"),
    setting!("vault-retry-interval", ["PERSYS_VAULT_RETRY_INTERVAL"], "1m", "How long to wait when Vault gives no certificate"),
    setting!("external-ip", ["PERSYS_EXTERNAL_IP"], "", "A further address in certificates of Vault"),
];

/// Variables that are documented somewhere and have no meaning here, or not yet.
#[rustfmt::skip]
pub(crate) const UNUSED: &[Unused] = &[
    ("PERSYS_GATEWAY_CONFIG", "its sections became plain settings; PERSYS_CONFIG_FILE names their file"),
    ("PERSYS_GATEWAY_MONGO_URI", NO_DATABASE),
    ("PERSYS_GATEWAY_DB_NAME", NO_DATABASE),
    ("PERSYS_GATEWAY_GITHUB_CLIENT_*", "people log in with a token of the cluster; there is no login by GitHub"),
    ("PERSYS_GATEWAY_FORGERY_*", "there is no build service in this system"),
];

const NO_DATABASE: &str = "the clusters keep everything; the gateway needs no database";
/// Read when no other file is named and it is there.
const CLUSTER_FILE: &str = "cluster.yaml";
/// Largest file that says which clusters there are.
const LARGEST_FILE: u64 = 1024 * 1024;
/// Shortest times.
const LEAST_TIMEOUT_MS: u64 = 100;
const LEAST_CHECK_MS: u64 = 100;
const LEAST_DISCOVERY_MS: u64 = 1_000;
const LEAST_WINDOW_MS: u64 = 60_000;

/// The configuration, or all that is wrong with it.
pub(crate) fn config(values: &Values) -> Result<Config, Vec<String>> {
    let mut read = Reader::new(values);
    let insecure = read.switch("insecure");
    let public_is_plain = read.switch("public-plain") || insecure;
    let inner = address(&mut read, "http-addr", values, insecure);
    let public = address(&mut read, "http-addr-public", values, public_is_plain);
    let security = if insecure { Security::Insecure } else { Security::Mtls(certificates(&read)) };
    let plan = plan(&mut read);
    let request_timeout =
        Duration::from_millis(read.interval_ms("request-timeout", LEAST_TIMEOUT_MS));
    let health_interval =
        Duration::from_millis(read.interval_ms("health-check-interval", LEAST_CHECK_MS));
    let limits = limits(&mut read);
    let webhooks = webhooks(&mut read);
    let discovery = discovery(&mut read);
    let made =
        inner.zip(public).zip(plan).zip(limits).map(|(((inner, public), plan), limits)| Config {
            inner: (!insecure).then_some(inner),
            public,
            security,
            public_is_plain,
            plan,
            request_timeout,
            health_interval,
            discovery,
            limits,
            webhooks,
        });
    read.finish(made)
}

/// An address with its port; without TLS that of this machine alone, unless somebody said so.
fn address(
    read: &mut Reader<'_>,
    key: &str,
    values: &Values,
    is_plain: bool,
) -> Option<SocketAddr> {
    let text = read.text(key).unwrap_or_default();
    // Written as `:8551`, it is every address.
    let text = if text.starts_with(':') { format!("0.0.0.0{text}") } else { text };
    let Ok(address) = text.parse::<SocketAddr>() else {
        read.fault(key, "an address with a port, such as 0.0.0.0:8585");
        return None;
    };
    if is_plain && !values.is_given(key) {
        return Some(SocketAddr::from(([127, 0, 0, 1], address.port())));
    }
    Some(address)
}

fn plan(read: &mut Reader<'_>) -> Option<Plan> {
    let named = read.text("cluster-config");
    let usual = || Path::new(CLUSTER_FILE).exists().then(|| CLUSTER_FILE.to_owned());
    let Some(path) = named.or_else(usual) else {
        let cluster = read.text("cluster").unwrap_or_default();
        let plan = Plan::single(&cluster, &read.list("scheduler-addr"));
        return plan
            .map_err(|faults| faults.iter().for_each(|fault| read.fault("cluster", fault)))
            .ok();
    };
    let size = std::fs::metadata(&path).map_or(0, |found| found.len());
    let text = match std::fs::read_to_string(&path) {
        Ok(text) if size <= LARGEST_FILE => text,
        Ok(_) => {
            read.fault("cluster-config", "the file is too large");
            return None;
        }
        Err(fault) => {
            read.fault("cluster-config", fault);
            return None;
        }
    };
    let plan = Plan::parse(&text);
    plan.map_err(|faults| faults.iter().for_each(|fault| read.fault("cluster-config", fault))).ok()
}

/// Where schedulers are found besides, if anywhere.
fn discovery(read: &mut Reader<'_>) -> Option<Discovery> {
    let every = Duration::from_millis(read.interval_ms("discovery-interval", LEAST_DISCOVERY_MS));
    let server =
        read.perhaps("discovery-server", "an address with a port, such as 127.0.0.1:5353")?;
    let text = |key: &str| read.text(key).unwrap_or_default();
    let service = format!("_{}.{}", text("discovery-service"), text("discovery-domain"));
    Some(Discovery { server, service, every })
}

/// Webhooks, if anybody can prove anything or is told anything.
fn webhooks(read: &mut Reader<'_>) -> Option<webhooks::Settings> {
    let user = match Name::new(&read.text("webhook-user").unwrap_or_default()) {
        Ok(user) => user,
        Err(fault) => {
            read.fault("webhook-user", fault);
            return None;
        }
    };
    let window = Duration::from_millis(read.interval_ms("webhook-replay-ttl", LEAST_WINDOW_MS));
    let mut secrets = BTreeMap::new();
    for (provider, key) in [
        (Provider::Github, "github-webhook-secret"),
        (Provider::Gitlab, "gitlab-webhook-secret"),
        (Provider::Gitea, "gitea-webhook-secret"),
    ] {
        let all: Vec<_> = read.list(key).iter().map(|text| Secret::new(text)).collect();
        if !all.is_empty() {
            secrets.insert(provider, all);
        }
    }
    let listeners = match read.text("webhook-listeners") {
        None => Vec::new(),
        Some(path) => listeners(read, Path::new(&path)),
    };
    let folder = read.path("state-dir");
    let wanted = !secrets.is_empty() || !listeners.is_empty();
    wanted.then_some(webhooks::Settings { folder, secrets, user, window, listeners })
}

fn listeners(read: &mut Reader<'_>, path: &Path) -> Vec<webhooks::Listener> {
    let secret = |path: &std::path::PathBuf| {
        let text = std::fs::read_to_string(path).map_err(|fault| fault.to_string())?;
        Ok(text.trim().to_owned())
    };
    let text = match std::fs::read_to_string(path) {
        Ok(text) => text,
        Err(fault) => {
            read.fault("webhook-listeners", fault);
            return Vec::new();
        }
    };
    webhooks::parse_listeners(&text, secret).unwrap_or_else(|faults| {
        for fault in &faults {
            read.fault("webhook-listeners", fault);
        }
        Vec::new()
    })
}

fn limits(read: &mut Reader<'_>) -> Option<Limits> {
    const NUMBER: &str = "a number above 0";
    let mut number = |key| read.perhaps::<std::num::NonZeroU32>(key, NUMBER);
    let connections = number("max-connections");
    let per_source = number("max-connections-per-source");
    let rate = number("requests-per-second");
    let body = number("max-body-bytes");
    let size = |number: std::num::NonZeroU32| usize::try_from(number.get()).unwrap_or(usize::MAX);
    Some(Limits {
        connections: size(connections?),
        connections_per_source: size(per_source?),
        requests_per_second: rate?.get(),
        body: size(body?),
        ..Limits::default()
    })
}

#[cfg(test)]
mod tests {
    use super::super::{command, resolve};
    use super::*;

    fn configured(line: &str) -> Result<Config, Vec<String>> {
        let words = line.split_whitespace().map(std::ffi::OsString::from);
        let words = words.map(super::super::with_two_dashes);
        let typed = command("gateway", ABOUT, TABLE).try_get_matches_from(words).unwrap();
        config(&resolve(TABLE, &typed, |_| None, None).unwrap())
    }

    #[test]
    fn without_certificates_it_is_for_this_machine_alone() {
        let config = configured("-insecure").unwrap();
        assert_eq!((config.inner, config.public.to_string()), (None, "127.0.0.1:8585".to_owned()));
        assert!(matches!(config.security, Security::Insecure) && config.public_is_plain);
        let config = configured("-public-plain --http-addr :9551").unwrap();
        assert_eq!(config.inner.unwrap().to_string(), "0.0.0.0:9551");
        assert_eq!(config.public.to_string(), "127.0.0.1:8585");
        let config = configured("").unwrap();
        assert_eq!(config.public.to_string(), "0.0.0.0:8585");
    }

    #[test]
    fn clusters_come_from_a_file_or_from_addresses() {
        let config = configured("--scheduler-addr a:1,b:2 --cluster east").unwrap();
        assert_eq!(
            (config.plan.default.as_str(), config.plan.clusters[0].schedulers.len()),
            ("east", 2)
        );
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("cluster.yaml");
        std::fs::write(&path, "scheduler: {clusters: [{id: a}, {id: b}]}").unwrap();
        let config = configured(&format!("--cluster-config {}", path.display())).unwrap();
        assert_eq!(config.plan.clusters.len(), 2);
        std::fs::write(&path, "scheduler: {clusters: [{id: ../a}, {id: b, routing_strategy: x}]}")
            .unwrap();
        let faults = configured(&format!("--cluster-config {}", path.display())).unwrap_err();
        assert_eq!(faults.len(), 2, "{faults:?}");
    }

    #[test]
    fn all_faults_are_named_at_once() {
        let faults = configured(
            "--http-addr here --http-addr-public 1 --max-connections 0 --request-timeout soon \
             --health-check-interval 1ms --scheduler-addr nowhere",
        )
        .unwrap_err();
        assert!(faults.len() >= 6, "{faults:#?}");
    }
}
