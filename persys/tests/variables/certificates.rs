//! Certificates as the real programs keep them: renewed by themselves where they were told to, and
//! worth nothing once an authority that serves alone says so.

use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use persys_identity::Source;

use crate::program::{Folder, Program, ends, free_port, page, types, until};

/// How soon nobody listens to who was revoked.
const PROMISED: Duration = Duration::from_secs(5);

struct Site {
    folder: Folder,
    enrol: String,
    _authority: Program,
    scheduler: Program,
    grpc: SocketAddr,
}

fn ca(folder: &Folder, line: &str) {
    let mut words: Vec<_> = std::iter::once("ca").chain(line.split_whitespace()).collect();
    let ca = folder.at("ca");
    words.extend(["--folder", &ca]);
    let (code, out, err) = ends(&words, &[]);
    assert_eq!(code, 0, "{line}: {out}{err}");
}

impl Site {
    /// An authority that serves alone, and a scheduler that has its certificate from it.
    fn start() -> Self {
        let folder = Folder::new();
        ca(&folder, "init --cluster blue");
        for line in ["scheduler s1 --host 127.0.0.1", "operator ann", "operator bob"] {
            let name = line.split_whitespace().nth(1).unwrap();
            let out = folder.at(&format!("{name}.pem"));
            ca(&folder, &format!("issue {line} --out {out}"));
        }
        let enrol = format!("127.0.0.1:{}", free_port());
        let at = folder.at("ca");
        let words = [
            "ca",
            "serve",
            "--listen",
            &enrol,
            "--http-addr",
            "127.0.0.1:0",
            "--cert-ttl",
            "10s",
            "--folder",
            &at,
        ];
        let authority = Program::start(folder.path(), &words, &[]);
        until("an authority", || TcpStream::connect(&enrol).ok());
        let (state, identity) = (folder.at("state"), folder.at("s1.pem"));
        let variables = [
            ("PERSYS_STATE_DIR", state.as_str()),
            ("PERSYS_GRPC_ADDR", "127.0.0.1"),
            ("GRPC_PORT", "0"),
            ("METRICS_PORT", "0"),
            ("PERSYS_DNS_ENABLED", "false"),
            ("PERSYS_CLUSTER_ID", "blue"),
            ("PERSYS_IDENTITY", &identity),
            ("PERSYS_ENROL_ADDR", &enrol),
        ];
        let mut scheduler = Program::start(folder.path(), &["scheduler"], &variables);
        let grpc = scheduler.at("grpc");
        Self { folder, enrol, _authority: authority, scheduler, grpc }
    }

    fn nodes_as(&self, name: &str) -> (i32, String) {
        let identity = self.folder.at(&format!("{name}.pem"));
        let line = format!("nodes --endpoint {} --identity {identity}", self.grpc);
        let (code, out, err) = types(&self.folder, &line);
        (code, out + &err)
    }
}

#[test]
fn an_authority_that_serves_alone_is_heard_by_schedulers() {
    let site = Site::start();
    for name in ["ann", "bob"] {
        until(name, || (site.nodes_as(name).0 == 0).then_some(()));
    }
    ca(&site.folder, "deny operator/bob --reason stolen");
    let begun = Instant::now();
    let told = until("bob is refused", || {
        let (code, told) = site.nodes_as("bob");
        (code != 0).then_some(told)
    });
    assert!(begun.elapsed() < PROMISED, "{:?}: {told}", begun.elapsed());
    assert_eq!(site.nodes_as("ann").0, 0);
    assert!(site.scheduler.log().contains("operator/bob"), "{}", site.scheduler.log());
}

#[test]
fn a_gateway_renews_its_certificate_by_itself() {
    let site = Site::start();
    let identity = site.folder.at("g1.pem");
    ca(&site.folder, &format!("issue gateway g1 --ttl 10s --host 127.0.0.1 --out {identity}"));
    let begun = Instant::now();
    let (state, scheduler) = (site.folder.at("gateway"), site.grpc.to_string());
    let variables = [
        ("PERSYS_STATE_DIR", state.as_str()),
        ("PERSYS_GATEWAY_HTTP_ADDR", "127.0.0.1:0"),
        ("PERSYS_GATEWAY_HTTP_ADDR_PUBLIC", "127.0.0.1:0"),
        ("PERSYS_GATEWAY_PUBLIC_PLAIN", "true"),
        ("PERSYS_GATEWAY_HEALTH_CHECK_INTERVAL", "200ms"),
        ("PERSYS_CLUSTER_ID", "blue"),
        ("PERSYS_SCHEDULER_ADDR", &scheduler),
        ("PERSYS_IDENTITY", &identity),
        ("PERSYS_ENROL_ADDR", &site.enrol),
    ];
    let mut gateway = Program::start(site.folder.path(), &["gateway"], &variables);
    let public = gateway.at("public");
    let healthy = || page(public, "/health").is_some_and(|told| told.contains("\"healthy\""));
    until("healthy", || healthy().then_some(()));
    let source = Source::Bundle(PathBuf::from(&identity));
    let serial = || source.load_ended().unwrap().certificate().serial.clone();
    let first = serial();
    gateway.says("tls_renewed");
    until("the next certificate", || (serial() != first).then_some(()));
    gateway.says("tls_reloaded");
    // Well after the first one has ended, schedulers still take it for a gateway.
    until("the first one has ended", || (begun.elapsed() > Duration::from_secs(11)).then_some(()));
    until("healthy", || healthy().then_some(()));
    assert!(!gateway.log().contains("does not answer"), "{}", gateway.log());
}
