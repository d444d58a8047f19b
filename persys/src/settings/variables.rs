//! Every variable that is documented somewhere: it is a setting, and setting it shows in what a
//! component is told; or the user hears that it means nothing, and why.
//!
//! What a variable does to a running program is in `tests/variables`.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fmt::Debug;

use super::{
    FILE_VARIABLE, Setting, Unused, Values, agent, command, covers, gateway, renewal, resolve,
    scheduler, telemetry,
};

/// What the documents say a scheduler reads.
const SCHEDULER: &[&str] = &[
    // Its own page.
    "ETCD_ENDPOINTS",
    "DOMAIN",
    "GRPC_PORT",
    "METRICS_PORT",
    "SCHEDULER_RECONCILE_INTERVAL",
    "SCHEDULER_DRIFT_DETECT_INTERVAL",
    "SCHEDULER_NODE_UNAVAILABLE_GRACE",
    "SCHEDULER_MISSING_GRACE_PERIOD",
    "AGENTS_DISCOVERY_DOMAIN",
    "SCHEDULER_SHARD_KEY",
    "SCHEDULER_ADVERTISE_IP",
    "SCHEDULER_ADVERTISE_PORT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "JAEGER_ENDPOINT",
    "OTEL_EXPORTER_OTLP_INSECURE",
    "PERSYS_TLS_CA",
    "PERSYS_TLS_CERT",
    "PERSYS_TLS_KEY",
    "PERSYS_VAULT_ENABLED",
    "PERSYS_VAULT_ADDR",
    "PERSYS_VAULT_AUTH_METHOD",
    "PERSYS_VAULT_TOKEN",
    "PERSYS_VAULT_APPROLE_ROLE_ID",
    "PERSYS_VAULT_APPROLE_SECRET_ID",
    "PERSYS_VAULT_PKI_MOUNT",
    "PERSYS_VAULT_PKI_ROLE",
    "PERSYS_VAULT_CERT_TTL",
    "PERSYS_VAULT_RETRY_INTERVAL",
    "PERSYS_VAULT_SERVICE_NAME",
    "PERSYS_VAULT_SERVICE_DOMAIN",
    // What the earlier system reads beside that.
    "PERSYS_GRPC_ADDR",
    "PERSYS_EXTERNAL_IP",
    "REDIS_ADDR",
    "REDIS_PASSWORD",
    "REDIS_DB",
    "REDIS_RECONCILE_TTL",
    "REDIS_EVENT_TTL",
    "REDIS_EVENT_MAX_ENTRIES",
    "SCHEDULER_AGENT_TLS_ENABLED",
    "SCHEDULER_AGENT_STATUS_POLL_INTERVAL",
    "SCHEDULER_AGENT_APPLY_TIMEOUT",
    "SCHEDULER_AGENT_VM_APPLY_TIMEOUT",
    "SCHEDULER_AGENT_DELETE_TIMEOUT",
    "SCHEDULER_AGENT_RPC_TIMEOUT",
    "SCHEDULER_REAPPLY_GUARD",
    "LOG_LEVEL",
    "LOG_FORMAT",
    "SCHEDULER_HA_MODE",
    "SCHEDULER_SHARD_COUNT",
    "SCHEDULER_SHARD_INDEX",
    "SCHEDULER_RECONCILE_CONCURRENCY",
    "PERSYS_VAULT_MANAGER_ADDR",
    "PERSYS_RGW_ENDPOINT",
    "PERSYS_RGW_ACCESS_KEY",
    "PERSYS_RGW_SECRET_KEY",
    "PERSYS_RGW_ADMIN_PATH",
    "METER_REDIS_STREAM",
    // Of another component, and may be set for all.
    "PERSYS_GATEWAY_CONFIG",
    "PERSYS_GATEWAY_CLUSTER_CONFIG",
    "PERSYS_GATEWAY_MONGO_URI",
];

/// What the documents say an agent reads.
const AGENT: &[&str] = &[
    // Its own page.
    "PERSYS_GRPC_ADDR",
    "PERSYS_GRPC_PORT",
    "PERSYS_TLS_ENABLED",
    "PERSYS_TLS_CERT",
    "PERSYS_TLS_KEY",
    "PERSYS_TLS_CA",
    "PERSYS_STATE_PATH",
    "PERSYS_DOCKER_ENABLED",
    "DOCKER_HOST",
    "PERSYS_COMPOSE_ENABLED",
    "PERSYS_COMPOSE_BINARY",
    "PERSYS_VM_ENABLED",
    "PERSYS_LIBVIRT_URI",
    "PERSYS_RECONCILE_ENABLED",
    "PERSYS_RECONCILE_INTERVAL",
    "PERSYS_LOG_LEVEL",
    "PERSYS_NODE_ID",
    "PERSYS_VERSION",
    // What the earlier system reads beside that.
    "PERSYS_METRICS_PORT",
    "PERSYS_TLS_CERT_PATH",
    "PERSYS_TLS_KEY_PATH",
    "PERSYS_TLS_CA_PATH",
    "PERSYS_VAULT_ENABLED",
    "PERSYS_VAULT_ADDR",
    "PERSYS_VAULT_SERVICE_NAME",
    "PERSYS_VAULT_APPROLE_ROLE_ID",
    "PERSYS_VAULT_APPROLE_SECRET_ID",
    "PERSYS_VAULT_AUTH_METHOD",
    "PERSYS_VAULT_TOKEN",
    "PERSYS_VAULT_PKI_MOUNT",
    "PERSYS_VAULT_PKI_ROLE",
    "PERSYS_VAULT_CERT_TTL",
    "PERSYS_VAULT_SERVICE_DOMAIN",
    "PERSYS_VAULT_RETRY_INTERVAL",
    "PERSYS_STATE_STORE_PATH",
    "PERSYS_NODE_REGION",
    "PERSYS_NODE_ENV",
    "PERSYS_NODE_LABELS",
    "PERSYS_SCHEDULER_ADDR",
    "PERSYS_SCHEDULER_INSECURE",
    "PERSYS_AGENT_GRPC_ENDPOINT",
    "PERSYS_CONFIG_FILE",
    "OTEL_EXPORTER_JAEGER_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_SERVICE_NAME",
    "PERSYS_GATEWAY_CONFIG",
];

/// What the documents say a gateway reads.
const GATEWAY: &[&str] = &[
    "PERSYS_GATEWAY_CONFIG",
    "PERSYS_GATEWAY_CLUSTER_CONFIG",
    "PERSYS_GATEWAY_MONGO_URI",
    "PERSYS_GATEWAY_DB_NAME",
    "PERSYS_GATEWAY_TLS_CERT_PATH",
    "PERSYS_GATEWAY_TLS_KEY_PATH",
    "PERSYS_GATEWAY_TLS_CA_PATH",
    "PERSYS_GATEWAY_VAULT_ADDR",
    "PERSYS_GATEWAY_VAULT_AUTH_METHOD",
    "PERSYS_GATEWAY_VAULT_TOKEN",
    "PERSYS_GATEWAY_VAULT_ROLE_ID",
    "PERSYS_GATEWAY_VAULT_SECRET_ID",
    "PERSYS_GATEWAY_GITHUB_WEBHOOK_SECRET",
    "PERSYS_GATEWAY_GITHUB_CLIENT_ID",
    "PERSYS_GATEWAY_GITHUB_CLIENT_SECRET",
    "PERSYS_GATEWAY_FORGERY_GRPC_ADDR",
    "PERSYS_GATEWAY_FORGERY_GRPC_SERVER_NAME",
    "PERSYS_GATEWAY_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_JAEGER_ENDPOINT",
];

/// A variable, a value, further flags it needs, and what of the configuration shows it.
pub(super) type Case = (&'static str, &'static str, &'static str, &'static str);

#[rustfmt::skip]
const SCHEDULER_CASES: &[Case] = &[
    ("PERSYS_GRPC_ADDR", "127.0.0.9", "", "grpc: 127.0.0.9:8085, http: 127.0.0.9:8084"),
    ("GRPC_PORT", "18085", "", "grpc: 0.0.0.0:18085"),
    ("METRICS_PORT", "18084", "", "http: 0.0.0.0:18084"),
    ("SCHEDULER_ADVERTISE_IP", "10.1.2.3", "", "ip: Some(10.1.2.3)"),
    ("SCHEDULER_ADVERTISE_PORT", "9999", "", "port: Some(9999)"),
    ("PERSYS_CLUSTER_ID", "blue", "", "cluster: \"blue\""),
    ("PERSYS_STATE_DIR", "/srv/persys", "", "state_dir: \"/srv/persys\""),
    ("ETCD_ENDPOINTS", "e1:2379,e2:2379", "", "host: \"e2\", port: 2379"),
    ("ETCD_PASSWORD", "geheim", "--store etcd --etcd-user me", "Login { user: \"me\", .. }"),
    ("PERSYS_ETCD_QUOTA_BYTES", "7000", "--store etcd", "quota_bytes: Some(7000)"),
    ("PERSYS_IDENTITY", "/own.pem", "", "Bundle(\"/own.pem\")"),
    ("PERSYS_TLS_NAMES", "/own/names", "", "names: \"/own/names\""),
    ("PERSYS_TLS_CA", "/own/ca.pem", "", "roots: \"/own/ca.pem\""),
    ("PERSYS_TLS_CERT", "/own/s.crt", "", "certificate: \"/own/s.crt\""),
    ("PERSYS_TLS_KEY", "/own/s.key", "", "key: \"/own/s.key\""),
    ("PERSYS_CA_DIR", "/own/ca", "", "authority: \"/own/ca\""),
    ("PERSYS_ENROL_PORT", "9086", "", "enrol: Some(0.0.0.0:9086)"),
    ("PERSYS_ENROL_CERT_TTL", "2h", "", "lifetime: Some(7200s)"),
    ("PERSYS_ENROL_ADDR", "a:8086,b:8086", "", "renew_at: [\"a:8086\", \"b:8086\"]"),
    ("PERSYS_VAULT_ENABLED", "true", "--vault-auth-method token", "vault-token = "),
    ("PERSYS_VAULT_ADDR", "https://v:1", VAULT, "address: \"https://v:1\""),
    ("PERSYS_VAULT_AUTH_METHOD", "kerberos", VAULT, "token or approle"),
    ("PERSYS_VAULT_TOKEN", "t", "", "auth: Token(Secret(..))"),
    ("PERSYS_VAULT_APPROLE_ROLE_ID", "r7", "--vault-approle-secret-id s", "role_id: \"r7\""),
    ("PERSYS_VAULT_APPROLE_SECRET_ID", "s", "--vault-approle-role-id r7", "secret_id: Secret(..)"),
    ("PERSYS_VAULT_PKI_MOUNT", "pki2", VAULT, "mount: \"pki2\""),
    ("PERSYS_VAULT_PKI_ROLE", "r", VAULT, "role: \"r\""),
    ("PERSYS_VAULT_CERT_TTL", "7h", VAULT, "ttl: 25200s"),
    ("PERSYS_VAULT_SERVICE_NAME", "svc", VAULT, "service: \"svc\""),
    ("PERSYS_VAULT_SERVICE_DOMAIN", "d.test", VAULT, "domain: Some(\"d.test\")"),
    ("PERSYS_VAULT_RETRY_INTERVAL", "9s", VAULT, "retry: 9s"),
    ("PERSYS_EXTERNAL_IP", "10.9.8.7", VAULT, "external_ip: Some(10.9.8.7)"),
    ("SCHEDULER_AGENT_TLS_ENABLED", "false", "", "agent-tls-enabled = \"false\""),
    ("SCHEDULER_RECONCILE_INTERVAL", "250ms", "", "look_ms: 250,"),
    ("SCHEDULER_DRIFT_DETECT_INTERVAL", "1m30s", "", "drift_interval_ms: 90000,"),
    ("SCHEDULER_NODE_UNAVAILABLE_GRACE", "7", "", "failover_grace_ms: 7000,"),
    ("SCHEDULER_MISSING_GRACE_PERIOD", "21s", "", "missing_grace_ms: 21000,"),
    ("SCHEDULER_AGENT_DOWN_GRACE", "25s", "", "agent_down_failover_ms: 25000,"),
    ("SCHEDULER_AGENT_STATUS_POLL_INTERVAL", "2s", "", "status_poll_ms: 2000,"),
    ("SCHEDULER_AGENT_APPLY_TIMEOUT", "33s", "", "apply_timeout_ms: 33000,"),
    ("SCHEDULER_AGENT_VM_APPLY_TIMEOUT", "5m", "", "vm_apply_timeout_ms: 300000,"),
    ("SCHEDULER_AGENT_DELETE_TIMEOUT", "90", "", "delete_timeout_ms: 90000,"),
    ("DOMAIN", "own.test", "", "domain: Name(\"test/own\")"),
    ("AGENTS_DISCOVERY_DOMAIN", "own.test", "", "agents_domain: Name(\"test/own\")"),
    ("SCHEDULER_SHARD_KEY", "north", "", "agents: Name(\"cloud/persys/agents/north\")"),
    ("PERSYS_GIT_ALLOW", "https,file", "", "allow: {Https, File}"),
    ("PERSYS_GIT_HOSTS", "git.test", "", "hosts: {\"git.test\"}"),
    ("PERSYS_GIT_CREDENTIALS", "/tokens", "", "credentials: Some(\"/tokens\")"),
    ("PERSYS_GIT_SSH_KEY", "/k", "--git-known-hosts /h", "key: \"/k\""),
    ("PERSYS_GIT_KNOWN_HOSTS", "/h", "--git-ssh-key /k", "known_hosts: \"/h\""),
    ("PERSYS_GIT_TIMEOUT", "9s", "", "deadline: 9s"),
    ("PERSYS_VAULT_SECRETS_ENABLED", "true", VAULT, "refresh: 300s"),
    ("PERSYS_VAULT_SECRETS_REFRESH", "7m", "--vault-secrets-enabled --vault-approle-role-id r --vault-approle-secret-id s", "refresh: 420s"),
    ("PERSYS_SECRETS_KEY_FILE", "/s/key", "", "secrets_key: Some(\"/s/key\")"),
    ("PERSYS_OIDC_ISSUER", "https://id.test", "", "issuer: \"https://id.test\""),
    ("PERSYS_OIDC_AUDIENCE", "blue", "--oidc-issuer https://id.test", "audience: \"blue\""),
    ("PERSYS_OIDC_USER_CLAIM", "email", "--oidc-issuer https://id.test", "user_claim: \"email\""),
    ("PERSYS_OIDC_GROUPS_CLAIM", "teams", "--oidc-issuer https://id.test", "groups_claim: \"teams\""),
    ("PERSYS_OIDC_CA", "/own/ca.pem", "--oidc-issuer https://id.test", "roots: Some(\"/own/ca.pem\")"),
    ("PERSYS_DNS_ENABLED", "false", "", "dns: Off"),
    ("PERSYS_SKYDNS_ENABLED", "false", "", "publish: false"),
    ("PERSYS_DNS_ADDR", "127.0.0.9", "", "dns: At(127.0.0.9:5353)"),
    ("PERSYS_DNS_PORT", "5399", "", "dns: At(127.0.0.1:5399)"),
];

#[rustfmt::skip]
const AGENT_CASES: &[Case] = &[
    ("PERSYS_NODE_ID", "n7", "", "node: Some(\"n7\")"),
    ("PERSYS_CLUSTER_ID", "blue", "", "cluster: \"blue\""),
    ("PERSYS_SCHEDULER_ADDR", "s1:1,s2:1", "", "schedulers: [\"s1:1\", \"s2:1\"]"),
    ("PERSYS_SCHEDULER_INSECURE", "true", "", "scheduler-insecure = \"true\""),
    ("PERSYS_GRPC_ADDR", "127.0.0.9", "", "grpc: 127.0.0.9:50051"),
    ("PERSYS_GRPC_PORT", "15005", "", "grpc: 0.0.0.0:15005"),
    ("PERSYS_AGENT_REACH", "stream", "", "reach: Stream"),
    ("PERSYS_AGENT_GRPC_ENDPOINT", "me:50051", "", "advertise: Some(\"me:50051\")"),
    ("PERSYS_STATE_PATH", "/srv/agent", "", "state_dir: \"/srv/agent\""),
    ("PERSYS_STATE_STORE_PATH", "/srv/state.db", "", "state_dir: \"/srv/agent\""),
    ("PERSYS_TLS_ENABLED", "false", "", "security: Insecure(Loopback)"),
    ("PERSYS_IDENTITY", "/own.pem", "", "Bundle(\"/own.pem\")"),
    ("PERSYS_TLS_NAMES", "/own/names", "", "names: \"/own/names\""),
    ("PERSYS_TLS_CA", "/own/ca.pem", "", "roots: \"/own/ca.pem\""),
    ("PERSYS_TLS_CA_PATH", "/own/ca.pem", "", "roots: \"/own/ca.pem\""),
    ("PERSYS_TLS_CERT", "/own/a.crt", "", "certificate: \"/own/a.crt\""),
    ("PERSYS_TLS_CERT_PATH", "/own/a.crt", "", "certificate: \"/own/a.crt\""),
    ("PERSYS_TLS_KEY", "/own/a.key", "", "key: \"/own/a.key\""),
    ("PERSYS_TLS_KEY_PATH", "/own/a.key", "", "key: \"/own/a.key\""),
    ("PERSYS_ENROL_ADDR", "a:8086,b:8086", "", "renew_at: [\"a:8086\", \"b:8086\"]"),
    ("PERSYS_VAULT_ENABLED", "true", "--vault-auth-method token", "vault-token = "),
    ("PERSYS_VAULT_ADDR", "https://v:1", VAULT, "address: \"https://v:1\""),
    ("PERSYS_VAULT_AUTH_METHOD", "kerberos", VAULT, "token or approle"),
    ("PERSYS_VAULT_TOKEN", "t", "", "auth: Token(Secret(..))"),
    ("PERSYS_VAULT_APPROLE_ROLE_ID", "r7", "--vault-approle-secret-id s", "role_id: \"r7\""),
    ("PERSYS_VAULT_APPROLE_SECRET_ID", "s", "--vault-approle-role-id r7", "secret_id: Secret(..)"),
    ("PERSYS_VAULT_PKI_MOUNT", "pki2", VAULT, "mount: \"pki2\""),
    ("PERSYS_VAULT_PKI_ROLE", "r", VAULT, "role: \"r\""),
    ("PERSYS_VAULT_CERT_TTL", "7h", VAULT, "ttl: 25200s"),
    ("PERSYS_VAULT_SERVICE_NAME", "svc", VAULT, "service: \"svc\""),
    ("PERSYS_VAULT_SERVICE_DOMAIN", "d.test", VAULT, "domain: Some(\"d.test\")"),
    ("PERSYS_VAULT_RETRY_INTERVAL", "9s", VAULT, "retry: 9s"),
    ("PERSYS_EXTERNAL_IP", "10.9.8.7", VAULT, "external_ip: Some(10.9.8.7)"),
    ("PERSYS_DOCKER_ENABLED", "false", "", "docker-enabled = \"false\""),
    ("DOCKER_HOST", "unix:///own.sock", "", "host: Some(\"unix:///own.sock\")"),
    ("PERSYS_COMPOSE_ENABLED", "false", "", "ComposeChoice { enabled: false"),
    ("PERSYS_COMPOSE_BINARY", "/opt/dc", "", "program: Some(\"/opt/dc\")"),
    ("PERSYS_NODE_LABELS", "disk=ssd,rack=2", "", "\"disk\": \"ssd\", \"rack\": \"2\""),
    ("PERSYS_NODE_REGION", "eu", "", "\"region\": \"eu\""),
    ("PERSYS_NODE_ENV", "prod", "", "\"env\": \"prod\""),
    ("PERSYS_RECONCILE_INTERVAL", "11s", "", "observe_ms: 11000,"),
    ("PERSYS_METRICS_PORT", "18089", "", "http: Some(0.0.0.0:18089)"),
    ("PERSYS_STORAGE_LOCAL_ROOT", "/srv/v", "", "root: \"/srv/v\""),
    ("PERSYS_STORAGE_LOCAL_LIMIT", "image", "", "limit: Image"),
    ("PERSYS_STORAGE_NFS_SERVER", "nas", "--storage-nfs-export /e", "server: \"nas\""),
    ("PERSYS_STORAGE_NFS_EXPORT", "/e", "--storage-nfs-server nas", "export: \"/e\""),
    ("PERSYS_STORAGE_NFS_OPTIONS", "vers=4", NFS, "options: \"vers=4\""),
    ("PERSYS_STORAGE_NFS_STAGE_DIR", "/s/n", NFS, "stage: \"/s/n\""),
    ("PERSYS_STORAGE_CEPH_POOL", "p1", "", "pool: \"p1\""),
    ("PERSYS_STORAGE_CEPH_CLUSTER", "c1", CEPH, "cluster: \"c1\""),
    ("PERSYS_STORAGE_CEPH_USER", "u1", CEPH, "user: \"u1\""),
    ("PERSYS_STORAGE_CEPH_KEYRING", "/k", CEPH, "keyring: \"/k\""),
    ("PERSYS_STORAGE_CEPH_STAGE_DIR", "/s/c", CEPH, "stage: \"/s/c\""),
    ("PERSYS_VM_ENABLED", "false", "", "machines: None"),
    ("PERSYS_LIBVIRT_URI", "test:///default", "", "uri: \"test:///default\""),
    ("PERSYS_LIBVIRT_SOCKET", "/own.sock", "", "sockets: [\"/own.sock\"]"),
    ("PERSYS_VM_PATH", "/srv/vms", "", "home: \"/srv/vms\""),
    ("PERSYS_VM_POOLS", "ssd=/ssd,disk=/disk", "", "default_pool: PoolName(\"ssd\")"),
    ("PERSYS_VM_IMAGES", "/srv/images", "", "images: \"/srv/images\""),
    ("PERSYS_VM_ROOTS", "/srv/a,/srv/b", "", "roots: [\"/srv/a\", \"/srv/b\"]"),
    ("PERSYS_REGISTRY_AUTH", "/auth.json", "", "registry_auth: Some(\"/auth.json\")"),
];

/// What the other settings of Vault need to count.
const VAULT: &str = "--vault-token t";
#[rustfmt::skip]
const GATEWAY_CASES: &[Case] = &[
    ("PERSYS_GATEWAY_HTTP_ADDR", "127.0.0.9:1", "", "inner: Some(127.0.0.9:1)"),
    ("PERSYS_GATEWAY_HTTP_ADDR_PUBLIC", ":2", "", "public: 0.0.0.0:2"),
    ("PERSYS_GATEWAY_PUBLIC_PLAIN", "true", "", "public_is_plain: true"),
    ("PERSYS_GATEWAY_CLUSTER_CONFIG", "/nowhere.yaml", "", "cluster-config = \"/nowhere.yaml\""),
    ("PERSYS_CLUSTER_ID", "blue", "", "default: \"blue\""),
    ("PERSYS_SCHEDULER_ADDR", "s1:1", "", "address: \"s1:1\""),
    ("PERSYS_GATEWAY_REQUEST_TIMEOUT", "3s", "", "request_timeout: 3s"),
    ("PERSYS_GATEWAY_HEALTH_CHECK_INTERVAL", "4s", "", "health_interval: 4s"),
    ("PERSYS_GATEWAY_DISCOVERY_SERVER", "127.0.0.9:53", "", "server: 127.0.0.9:53"),
    ("PERSYS_GATEWAY_DISCOVERY_DOMAIN", "own.test", FOUND, "_persys-scheduler.own.test"),
    ("PERSYS_GATEWAY_DISCOVERY_SERVICE", "own", FOUND, "_own.persys.local"),
    ("PERSYS_GATEWAY_DISCOVERY_INTERVAL", "9s", FOUND, "every: 9s"),
    ("PERSYS_STATE_DIR", "/srv/g", GITEA, "folder: \"/srv/g\""),
    ("PERSYS_GATEWAY_GITHUB_WEBHOOK_SECRET", "a,b", "", "{Github: [***, ***]}"),
    ("PERSYS_GATEWAY_GITLAB_WEBHOOK_SECRET", "a", "", "{Gitlab: [***]}"),
    ("PERSYS_GATEWAY_GITEA_WEBHOOK_SECRET", "a", "", "{Gitea: [***]}"),
    ("PERSYS_GATEWAY_WEBHOOK_USER", "robot", GITEA, "\"robot\""),
    ("PERSYS_GATEWAY_WEBHOOK_REPLAY_TTL", "1h", GITEA, "window: 3600s"),
    ("PERSYS_GATEWAY_WEBHOOK_LISTENERS", "/nowhere.yaml", "", "webhook-listeners = \"/nowhere.yaml\""),
    ("PERSYS_GATEWAY_MAX_CONNECTIONS", "77", "", "connections: 77"),
    ("PERSYS_GATEWAY_MAX_CONNECTIONS_PER_SOURCE", "78", "", "connections_per_source: 78"),
    ("PERSYS_GATEWAY_REQUESTS_PER_SECOND", "79", "", "requests_per_second: 79"),
    ("PERSYS_GATEWAY_MAX_BODY_BYTES", "80", "", "body: 80"),
    ("PERSYS_GATEWAY_OTLP_ENDPOINT", "g:4317", "", "endpoint: http://g:4317/"),
    ("PERSYS_IDENTITY", "/own.pem", "", "Bundle(\"/own.pem\")"),
    ("PERSYS_TLS_NAMES", "/own/names", "", "names: \"/own/names\""),
    ("PERSYS_GATEWAY_TLS_CA_PATH", "/own/ca.pem", "", "roots: \"/own/ca.pem\""),
    ("PERSYS_GATEWAY_TLS_CERT_PATH", "/own/g.crt", "", "certificate: \"/own/g.crt\""),
    ("PERSYS_GATEWAY_TLS_KEY_PATH", "/own/g.key", "", "key: \"/own/g.key\""),
    ("PERSYS_ENROL_ADDR", "a:8086,b:8086", "", "renew_at: [\"a:8086\", \"b:8086\"]"),
    ("PERSYS_VAULT_ENABLED", "true", "--vault-auth-method token", "vault-token = "),
    ("PERSYS_GATEWAY_VAULT_ADDR", "https://v:1", VAULT, "address: \"https://v:1\""),
    ("PERSYS_VAULT_ADDR", "https://v:1", VAULT, "address: \"https://v:1\""),
    ("PERSYS_GATEWAY_VAULT_AUTH_METHOD", "kerberos", VAULT, "token or approle"),
    ("PERSYS_VAULT_AUTH_METHOD", "kerberos", VAULT, "token or approle"),
    ("PERSYS_GATEWAY_VAULT_TOKEN", "t", "", "auth: Token(Secret(..))"),
    ("PERSYS_VAULT_TOKEN", "t", "", "auth: Token(Secret(..))"),
    ("PERSYS_GATEWAY_VAULT_ROLE_ID", "r7", "--vault-approle-secret-id s", "role_id: \"r7\""),
    ("PERSYS_VAULT_APPROLE_ROLE_ID", "r7", "--vault-approle-secret-id s", "role_id: \"r7\""),
    ("PERSYS_GATEWAY_VAULT_SECRET_ID", "s", "--vault-approle-role-id r7", "secret_id: Secret(..)"),
    ("PERSYS_VAULT_APPROLE_SECRET_ID", "s", "--vault-approle-role-id r7", "secret_id: Secret(..)"),
    ("PERSYS_VAULT_PKI_MOUNT", "pki2", VAULT, "mount: \"pki2\""),
    ("PERSYS_VAULT_PKI_ROLE", "r", VAULT, "role: \"r\""),
    ("PERSYS_VAULT_CERT_TTL", "7h", VAULT, "ttl: 25200s"),
    ("PERSYS_VAULT_SERVICE_NAME", "svc", VAULT, "service: \"svc\""),
    ("PERSYS_VAULT_SERVICE_DOMAIN", "d.test", VAULT, "domain: Some(\"d.test\")"),
    ("PERSYS_VAULT_RETRY_INTERVAL", "9s", VAULT, "retry: 9s"),
    ("PERSYS_EXTERNAL_IP", "10.9.8.7", VAULT, "external_ip: Some(10.9.8.7)"),
];

/// What other settings of discovery and of webhooks need to count.
const FOUND: &str = "--discovery-server 127.0.0.1:53";
const GITEA: &str = "--gitea-webhook-secret a";

/// What the other settings of a driver need to count.
const NFS: &str = "--storage-nfs-server nas --storage-nfs-export /e";
const CEPH: &str = "--storage-ceph-pool p1";

struct Told {
    name: &'static str,
    about: &'static str,
    table: &'static [Setting],
    unused: &'static [Unused],
    documented: &'static [&'static str],
    cases: &'static [Case],
    make: fn(&Values) -> String,
}

fn all() -> [Told; 3] {
    [
        Told {
            name: "scheduler",
            about: scheduler::ABOUT,
            table: scheduler::TABLE,
            unused: scheduler::UNUSED,
            documented: SCHEDULER,
            cases: SCHEDULER_CASES,
            make: |values| shown(scheduler::config(values)) + &shown(renewal::scheduler(values)),
        },
        Told {
            name: "agent",
            about: agent::ABOUT,
            table: agent::TABLE,
            unused: agent::UNUSED,
            documented: AGENT,
            cases: AGENT_CASES,
            make: |values| shown(agent::config(values)) + &shown(renewal::member(values)),
        },
        Told {
            name: "gateway",
            about: gateway::ABOUT,
            table: gateway::TABLE,
            unused: gateway::UNUSED,
            documented: GATEWAY,
            cases: GATEWAY_CASES,
            make: |values| shown(gateway::config(values)) + &shown(renewal::member(values)),
        },
    ]
}

/// What a component is told, or what is wrong with it, on one line.
fn shown<T: Debug>(made: Result<T, Vec<String>>) -> String {
    match made {
        Ok(config) => format!("{config:?}"),
        Err(faults) => faults.join("; "),
    }
}

impl Told {
    fn with(&self, flags: &str, variable: Option<(&str, &str)>) -> String {
        let words = flags.split_whitespace().map(OsString::from);
        let typed = command(self.name, self.about, self.table).try_get_matches_from(words);
        let set = |name: &str| variable.filter(|(key, _)| *key == name).map(|(_, v)| v.to_owned());
        let values = resolve(self.table, &typed.unwrap(), set, None).unwrap();
        let told = shown(telemetry::traces(&values, "x")) + &shown(telemetry::log(&values));
        (self.make)(&values) + &told
    }

    fn is_setting(&self, name: &str) -> bool {
        name == FILE_VARIABLE || self.table.iter().any(|row| row.variables.contains(&name))
    }
}

#[test]
fn every_documented_variable_is_a_setting_or_is_told_to_mean_nothing() {
    for component in all() {
        for name in component.documented {
            let unused = component.unused.iter().filter(|row| covers(row, name)).count();
            let known = usize::from(component.is_setting(name)) + unused;
            assert_eq!(known, 1, "{}: {name}", component.name);
        }
        for (row, why) in component.unused {
            let about = component.documented.iter().any(|name| covers(&(row, why), name));
            assert!(about, "{}: {row} is documented nowhere", component.name);
        }
    }
}

#[test]
fn every_variable_shows_in_what_a_component_is_told() {
    for component in all() {
        for (name, value, flags, wanted) in component.cases.iter().chain(telemetry::CASES) {
            let (without, with) =
                (component.with(flags, None), component.with(flags, Some((name, value))));
            assert!(with.contains(wanted), "{} {name}={value}: {with}", component.name);
            assert!(!without.contains(wanted), "{} without {name}: {without}", component.name);
        }
        // Each of them has its case.
        for name in component.table.iter().flat_map(|row| row.variables) {
            let mut cases = component.cases.iter().chain(telemetry::CASES);
            assert!(cases.any(|(case, ..)| case == name), "{}: {name}", component.name);
        }
    }
}

#[test]
fn every_variable_that_means_nothing_is_told_with_the_reason() {
    for component in all() {
        for name in component.documented.iter().filter(|name| !component.is_setting(name)) {
            let set = BTreeMap::from([((*name).to_owned(), "x".to_owned())]);
            let told = super::unused(component.unused, &set);
            assert_eq!(told.len(), 1, "{}: {name}", component.name);
            assert!(told[0].starts_with(&format!("{name} has no effect: ")), "{told:?}");
            assert_eq!(component.with("", Some((name, "x"))), component.with("", None));
        }
    }
}

#[test]
fn what_is_done_again_and_again_is_not_done_without_end() {
    let [scheduler, agent, _] = all();
    for (component, name) in [
        (&scheduler, "SCHEDULER_RECONCILE_INTERVAL"),
        (&scheduler, "SCHEDULER_DRIFT_DETECT_INTERVAL"),
        (&agent, "PERSYS_RECONCILE_INTERVAL"),
    ] {
        let told = component.with("", Some((name, "0")));
        assert!(told.contains("= \"0\": at least "), "{told}");
        let told = component.with("", Some((name, "soon")));
        assert_eq!(told.matches("soon").count(), 1, "{told}");
    }
}
