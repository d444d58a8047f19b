//! A scheduler and an agent that know each other by certificates of the server alone: by one way to
//! log in each, over renewals, and over a time without the server.

use std::path::PathBuf;
use std::time::{Instant, SystemTime};

use persys_identity::{Serial, Source};

use crate::client::{by_application, renewer};
use crate::program::{Folder, Program, ready_node, types, until};
use crate::server::Server;

/// Short enough that renewals come while a test waits, long enough for an outage in between.
const LASTS: &str = "35s";

struct Cluster {
    folder: Folder,
    address: String,
    token: String,
    at: String,
    scheduler: Program,
}

impl Cluster {
    /// A scheduler that logs in as an application, and the certificate of an operator.
    fn start(server: &Server) -> Self {
        let folder = Folder::new();
        let (role_id, secret_id) = server.application();
        let (address, state, token) = (server.url(), folder.at("scheduler"), server.token());
        let variables = [
            ("PERSYS_STATE_DIR", state.as_str()),
            ("PERSYS_GRPC_ADDR", "127.0.0.1"),
            ("GRPC_PORT", "0"),
            ("METRICS_PORT", "0"),
            ("PERSYS_DNS_ENABLED", "false"),
            ("PERSYS_CLUSTER_ID", "east"),
            ("PERSYS_VAULT_ADDR", &address),
            ("PERSYS_VAULT_AUTH_METHOD", "approle"),
            ("PERSYS_VAULT_APPROLE_ROLE_ID", &role_id),
            ("PERSYS_VAULT_APPROLE_SECRET_ID", &secret_id),
            ("PERSYS_VAULT_CERT_TTL", LASTS),
            ("PERSYS_VAULT_RETRY_INTERVAL", "300ms"),
        ];
        let mut scheduler = Program::start(folder.path(), &["scheduler"], &variables);
        let at = scheduler.at("grpc").to_string();
        Self { folder, address, token, at, scheduler }
    }

    /// An agent that logs in with a token; what it runs is simulated.
    fn agent(&self) -> Program {
        let (state, identity) = (self.folder.at("agent"), self.folder.at("agent.pem"));
        let variables = [
            ("PERSYS_STATE_PATH", state.as_str()),
            ("PERSYS_GRPC_PORT", "0"),
            ("PERSYS_METRICS_PORT", "0"),
            ("PERSYS_NODE_ID", "n1"),
            ("PERSYS_CLUSTER_ID", "east"),
            ("PERSYS_SCHEDULER_ADDR", &self.at),
            ("PERSYS_IDENTITY", &identity),
            ("PERSYS_VAULT_ADDR", &self.address),
            ("PERSYS_VAULT_AUTH_METHOD", "token"),
            ("PERSYS_VAULT_TOKEN", &self.token),
            ("PERSYS_VAULT_CERT_TTL", LASTS),
            ("PERSYS_VAULT_RETRY_INTERVAL", "300ms"),
        ];
        Program::start(self.folder.path(), &["agent", "--runtime", "sim"], &variables)
    }

    fn way(&self) -> String {
        format!("--endpoint {} --identity {}", self.at, self.folder.at("ann.pem"))
    }

    /// The operator asks, and is answered; the node is there.
    fn is_well(&self) {
        let (code, out, err) = types(&self.folder, &format!("nodes -o json {}", self.way()));
        assert_eq!(code, 0, "{out}{err}");
        let nodes: serde_json::Value = serde_json::from_str(&out).unwrap();
        assert_eq!((&nodes[0]["node_id"], &nodes[0]["status"]), (&"n1".into(), &"Ready".into()));
    }

    /// The certificates of the scheduler and of the agent.
    fn serials(&self) -> [Serial; 2] {
        let state = PathBuf::from(self.folder.at("scheduler"));
        [state.join("identity.pem"), PathBuf::from(self.folder.at("agent.pem"))]
            .map(|file| Source::Bundle(file).load_ended().unwrap().certificate().serial.clone())
    }

    /// Waits until both have other certificates, while everything goes on.
    fn until_renewed(&self) {
        let before = self.serials();
        for (nth, who) in ["the scheduler", "the agent"].into_iter().enumerate() {
            until(who, || {
                self.is_well();
                (self.serials()[nth] != before[nth]).then_some(())
            });
        }
    }
}

fn failures(program: &Program) -> usize {
    program.log().matches("tls_renewal_failed").count()
}

#[test]
fn a_cluster_lives_on_certificates_of_vault_and_outlives_vault_for_a_while() {
    let mut server = Server::start();
    let cluster = Cluster::start(&server);
    let operator = ("persys-operator", "spiffe://persys.local/east/operator/ann");
    let file = PathBuf::from(cluster.folder.at("ann.pem"));
    let (_, asking) = renewer(&server, by_application(&server.application()), operator, &file);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(asking.renew(None, SystemTime::now())).unwrap();

    let mut agent = cluster.agent();
    agent.at("at");
    ready_node(&cluster.folder, &cluster.way());
    cluster.until_renewed();

    // Without the server whoever's turn it is tries and fails, and goes on with what there is.
    let (before, begun) = (cluster.serials(), Instant::now());
    server.kill();
    until("a certificate that is not to be had", || {
        cluster.is_well();
        (failures(&agent) + failures(&cluster.scheduler) > 0).then_some(())
    });
    // An agent that starts now takes what is in its file.
    assert!(agent.stops(), "{}", agent.log());
    let mut agent = cluster.agent();
    agent.at("at");
    ready_node(&cluster.folder, &cluster.way());
    assert_eq!(cluster.serials(), before, "after {:?}", begun.elapsed());

    // It comes back, sealed at first, and both have new certificates soon after.
    server.run();
    server.unseal();
    cluster.until_renewed();
    let refused = cluster.scheduler.log().matches("tls_handshake_failed").count();
    assert_eq!(refused, 0, "{}", cluster.scheduler.log());
}
