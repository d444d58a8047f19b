//! A server with a PKI, and ways to log in.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::{Value, json};
use tempfile::TempDir;

use crate::program::{free_port, until};

/// The roles of the PKI, one for each kind of caller, as the settings name them.
const ROLES: [&str; 3] = ["persys-scheduler", "compute-agent", "persys-operator"];
/// Longest wait for an answer; making keys takes a moment.
const ANSWER: Duration = Duration::from_secs(20);

/// One server. It ends with the test.
pub(crate) struct Server {
    folder: TempDir,
    port: String,
    process: Option<Child>,
    /// What opens its seal, and who may do everything.
    key: String,
    root: String,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.kill();
    }
}

impl Server {
    /// One that is open, with a PKI whose root it made itself.
    pub(crate) fn start() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let (key, root) = (String::new(), String::new());
        let mut server = Self { folder, port: free_port(), process: None, key, root };
        server.run();
        let shares = json!({"secret_shares": 1, "secret_threshold": 1});
        let made = server.asks("PUT", "sys/init", &shares);
        server.key = text(&made["keys"][0]);
        server.root = text(&made["root_token"]);
        server.unseal();
        server.asks("POST", "sys/mounts/pki", &json!({"type": "pki"}));
        let root = json!({"common_name": "root", "ttl": "8760h", "key_type": "rsa"});
        server.asks("POST", "pki/root/generate/internal", &root);
        for role in ROLES {
            let allows = json!({
                "allow_any_name": true,
                "enforce_hostnames": false,
                "allowed_uri_sans": "spiffe://*",
                "key_type": "rsa",
                "key_bits": 2048,
                "max_ttl": "24h",
            });
            server.asks("POST", &format!("pki/roles/{role}"), &allows);
        }
        server.asks("POST", "sys/auth/approle", &json!({"type": "approle"}));
        server.asks("POST", "auth/approle/role/persys", &json!({"token_ttl": "1h"}));
        server
    }

    pub(crate) fn url(&self) -> String {
        format!("http://127.0.0.1:{}", self.port)
    }

    /// A token that somebody was given.
    pub(crate) fn token(&self) -> String {
        // One of the root would be root, which this server makes only once.
        let wanted = json!({"ttl": "1h", "policies": ["persys"]});
        let made = self.asks("POST", "auth/token/create", &wanted);
        text(&made["auth"]["client_token"])
    }

    /// The name and the password of an application.
    pub(crate) fn application(&self) -> (String, String) {
        let role = self.asks("GET", "auth/approle/role/persys/role-id", &Value::Null);
        let secret = self.asks("POST", "auth/approle/role/persys/secret-id", &json!({}));
        (text(&role["data"]["role_id"]), text(&secret["data"]["secret_id"]))
    }

    /// Ends it without a word.
    pub(crate) fn kill(&mut self) {
        if let Some(mut process) = self.process.take() {
            // One that has ended by itself is fine too.
            drop(process.kill());
            drop(process.wait());
        }
    }

    /// Starts it, on what it had stored, if it had. It is sealed.
    pub(crate) fn run(&mut self) {
        let at = self.folder.path();
        let lines = [
            "storage \"file\" {".to_owned(),
            format!("  path = \"{}\"", at.join("data").display()),
            "}".to_owned(),
            "listener \"tcp\" {".to_owned(),
            format!("  address = \"127.0.0.1:{}\"", self.port),
            "  tls_disable = \"true\"".to_owned(),
            "}".to_owned(),
            format!("work_dir = \"{}\"", at.display()),
        ];
        let config: PathBuf = at.join("config.hcl");
        std::fs::write(&config, lines.join("\n") + "\n").unwrap();
        let log = File::create(at.join("log")).unwrap();
        let process = Command::new("rvault")
            .args(["server", "--config"])
            .arg(&config)
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log)
            .spawn()
            .expect("rvault: `make vault` builds it and knows where it is");
        self.process = Some(process);
        until("a server", || TcpStream::connect(format!("127.0.0.1:{}", self.port)).ok());
    }

    pub(crate) fn unseal(&self) {
        self.asks("PUT", "sys/unseal", &json!({"key": self.key}));
    }

    /// What an administrator is answered.
    pub(crate) fn asks(&self, verb: &str, path: &str, body: &Value) -> Value {
        let body = if body.is_null() { String::new() } else { body.to_string() };
        let mut stream = TcpStream::connect(format!("127.0.0.1:{}", self.port)).unwrap();
        stream.set_read_timeout(Some(ANSWER)).unwrap();
        let head = [
            format!("{verb} /v1/{path} HTTP/1.1"),
            "host: vault".to_owned(),
            "connection: close".to_owned(),
            "content-type: application/json".to_owned(),
            format!("content-length: {}", body.len()),
            format!("x-vault-token: {}", self.root),
        ];
        write!(stream, "{}\r\n\r\n{body}", head.join("\r\n")).unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap_or((&answer, ""));
        let status = head.split_whitespace().nth(1).unwrap_or_default();
        assert!(status.starts_with('2'), "{verb} {path}: {answer}");
        serde_json::from_str(body).unwrap_or_default()
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_else(|| panic!("no text: {value}")).to_owned()
}
