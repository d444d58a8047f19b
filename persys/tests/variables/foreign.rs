//! A cluster on certificates made with `openssl` alone: scheduler, agent, gateway and operator know each
//! other by the mapping that `PERSYS_TLS_NAMES` names, and by nothing else.

use std::io::{Seek as _, Write as _};
use std::process::Command;

use crate::openssl::{Files, OpenSsl};
use crate::program::{Folder, Program, ends, page, ready_node, types, until};

const NAMES: &str = "\
cluster blue
dns:persys-scheduler.persys.local  scheduler  s1
dns:node1.nodes.example.org        agent      node1
dns:gw.example.org                 gateway    gw
cn:ann                             operator   ann
cn:bob                             user       bob
";
const BOTH: &str = "extendedKeyUsage = serverAuth,clientAuth";

struct Site {
    folder: Folder,
    openssl: OpenSsl,
}

impl Site {
    fn new() -> Self {
        let folder = Folder::new();
        let openssl = OpenSsl::at(&folder.path().join("openssl"));
        std::fs::write(folder.at("names"), NAMES).unwrap();
        Self { folder, openssl }
    }

    /// The variables that name the files of a certificate.
    fn certify(&self, name: &str, subject: &str, names: &str) -> [String; 3] {
        let Files { certificate, key, roots } = self.openssl.issue(name, subject, &[names, BOTH]);
        [certificate, key, roots].map(|path| path.display().to_string())
    }

    fn scheduler(&self, more: &[(&str, &str)]) -> (Vec<(String, String)>, Program) {
        let names = "subjectAltName = DNS:persys-scheduler.persys.local,IP:10.1.2.3";
        let [certificate, key, roots] = self.certify("s1", "/CN=persys-scheduler", names);
        let state = self.folder.at("scheduler");
        let mut variables = vec![
            ("PERSYS_STATE_DIR", state.as_str()),
            ("PERSYS_GRPC_ADDR", "127.0.0.1"),
            ("GRPC_PORT", "0"),
            ("METRICS_PORT", "0"),
            ("PERSYS_DNS_ENABLED", "false"),
            ("PERSYS_CLUSTER_ID", "blue"),
            ("PERSYS_TLS_CERT", certificate.as_str()),
            ("PERSYS_TLS_KEY", key.as_str()),
            ("PERSYS_TLS_CA", roots.as_str()),
        ];
        variables.extend(more);
        let program = Program::start(self.folder.path(), &["scheduler"], &variables);
        let owned = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        (owned.collect(), program)
    }

    fn way(&self, at: &str, who: &str) -> String {
        let file = |end: &str| self.folder.at(&format!("openssl/{who}.{end}"));
        let (cert, key, ca) = (file("crt"), file("key"), self.folder.at("openssl/ca.pem"));
        let names = self.folder.at("names");
        format!("--endpoint {at} --cert {cert} --key {key} --ca {ca} --cert-names {names}")
    }
}

#[test]
#[expect(clippy::too_many_lines, reason = "one story, told in its order")]
fn a_cluster_runs_on_certificates_of_openssl_and_a_mapping() {
    let site = Site::new();
    let names = site.folder.at("names");
    let mapped = [("PERSYS_TLS_NAMES", names.as_str())];
    let (variables, mut scheduler) = site.scheduler(&mapped);
    let at = scheduler.at("grpc").to_string();

    let [certificate, key, roots] = site.certify(
        "node1",
        "/CN=agent",
        "subjectAltName = DNS:node1.nodes.example.org,IP:10.0.0.5",
    );
    let state = site.folder.at("agent");
    let mut agent = Program::start(
        site.folder.path(),
        &["agent", "--runtime", "sim"],
        &[
            ("PERSYS_STATE_PATH", state.as_str()),
            ("PERSYS_GRPC_PORT", "0"),
            ("PERSYS_METRICS_PORT", "0"),
            ("PERSYS_NODE_ID", "node1"),
            ("PERSYS_CLUSTER_ID", "blue"),
            ("PERSYS_SCHEDULER_ADDR", &at),
            ("PERSYS_TLS_CERT", &certificate),
            ("PERSYS_TLS_KEY", &key),
            ("PERSYS_TLS_CA", &roots),
            mapped[0],
        ],
    );
    agent.at("at");
    site.certify("ann", "/O=Example/CN=ann", "keyUsage = digitalSignature");
    let way = site.way(&at, "ann");
    ready_node(&site.folder, &way);
    // The scheduler dials the agent with an order, and takes it for node1 by its mapped name.
    let (code, out, err) = types(&site.folder, &format!("run nginx --name web {way}"));
    assert_eq!(code, 0, "{out}{err}");

    let [certificate, key, roots] =
        site.certify("gw", "/CN=gw", "subjectAltName = DNS:gw.example.org,DNS:localhost");
    let state = site.folder.at("gateway");
    let mut gateway = Program::start(
        site.folder.path(),
        &["gateway"],
        &[
            ("PERSYS_STATE_DIR", state.as_str()),
            ("PERSYS_GATEWAY_HTTP_ADDR", "127.0.0.1:0"),
            ("PERSYS_GATEWAY_HTTP_ADDR_PUBLIC", "127.0.0.1:0"),
            ("PERSYS_GATEWAY_PUBLIC_PLAIN", "true"),
            ("PERSYS_GATEWAY_HEALTH_CHECK_INTERVAL", "200ms"),
            ("PERSYS_CLUSTER_ID", "blue"),
            ("PERSYS_SCHEDULER_ADDR", &at),
            ("PERSYS_GATEWAY_TLS_CERT_PATH", &certificate),
            ("PERSYS_GATEWAY_TLS_KEY_PATH", &key),
            ("PERSYS_GATEWAY_TLS_CA_PATH", &roots),
            mapped[0],
        ],
    );
    let (public, inner) = (gateway.at("public"), gateway.at("inner"));
    until("a gateway that is answered", || {
        page(public, "/health").filter(|told| told.contains("\"healthy\""))
    });
    // Bob, with a role, reads through the gateway with his certificate; Eve does not get in.
    let bind = format!("access bind --user bob --role viewer --cluster {way}");
    let (code, out, err) = types(&site.folder, &bind);
    assert_eq!(code, 0, "{out}{err}");
    for (who, wanted) in [("bob", Some("\"web\"")), ("eve", None)] {
        site.certify(who, &format!("/CN={who}"), "keyUsage = digitalSignature");
        let file = |end: &str| site.folder.at(&format!("openssl/{who}.{end}"));
        let asked = Command::new("openssl")
            .args(["s_client", "-quiet", "-verify_quiet", "-connect"])
            .args([&inner.to_string(), "-cert", &file("crt"), "-key", &file("key")])
            .args(["-CAfile", &roots, "-alpn", "http/1.1"])
            .stdin(request())
            .output()
            .unwrap();
        let told = String::from_utf8_lossy(&asked.stdout).into_owned();
        match wanted {
            Some(wanted) => assert!(told.contains("200 OK") && told.contains(wanted), "{told}"),
            None => assert!(!told.contains("200 OK"), "{told}"),
        }
    }
    let refused = gateway.says("cn:eve");
    assert!(refused.contains("PERSYS_TLS_NAMES"), "{refused}");
    let refused = types(&site.folder, &format!("nodes {}", site.way(&at, "eve")));
    assert!(refused.0 != 0 && refused.2.contains("cn:eve"), "{refused:?}");

    // `config` shows the setting, and a row that is gone counts while the scheduler runs.
    let pairs: Vec<_> = variables.iter().map(|(n, v)| (n.as_str(), v.as_str())).collect();
    let (_, shown, _) = ends(&["scheduler", "config"], &pairs);
    assert!(shown.contains("tls-names") && shown.contains(&names), "{shown}");
    std::fs::write(&names, NAMES.replace("cn:ann ", "cn:amy ")).unwrap();
    scheduler.says("tls_names_reloaded");
    // Ann still has the mapping of before at hand: it is the scheduler that refuses her.
    std::fs::write(site.folder.at("before"), NAMES).unwrap();
    let (code, _, err) =
        types(&site.folder, &format!("nodes {}", way.replace(&names, &site.folder.at("before"))));
    assert_ne!(code, 0, "{err}");
    scheduler.says("cn:ann");
}

fn request() -> std::process::Stdio {
    let mut file = tempfile::tempfile().unwrap();
    write!(file, "GET /workloads HTTP/1.1\r\nhost: gw\r\nconnection: close\r\n\r\n").unwrap();
    file.rewind().unwrap();
    file.into()
}

#[test]
fn without_the_mapping_nothing_starts_and_a_faulty_one_names_its_lines() {
    let site = Site::new();
    let (_, mut scheduler) = site.scheduler(&[]);
    let said = until("an end", || {
        let log = scheduler.log();
        (log.contains("PERSYS_TLS_NAMES") && log.contains("dns:persys-scheduler")).then_some(log)
    });
    assert!(said.contains("cn:persys-scheduler"), "{said}");
    assert!(!scheduler.stops());
    let bad = site.folder.at("bad");
    std::fs::write(&bad, "cluster blue\ndns:*.com agent *\ncn:ann boss ann\n").unwrap();
    let (_, mut scheduler) = site.scheduler(&[("PERSYS_TLS_NAMES", &bad)]);
    until("its faults", || {
        let log = scheduler.log();
        (log.contains("line 2: ") && log.contains("line 3: ")).then_some(())
    });
    assert!(!scheduler.stops());
}
