//! Effects of documented variables on runtimes and on Vault, each of which is played here.

use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use persys_identity::authority::Validity;
use persys_identity::{Authority, ClusterName, Grant, Name, Role, Source, TrustDomain};
use serde_json::Value;

use crate::engine::Engine;
use crate::program::{Folder, Program, ends, free_port, page, ready_node, types, until};

/// An agent on a Docker at this socket, without libvirt unless a variable says where it is.
struct Node {
    folder: Folder,
    engine: Engine,
    http: SocketAddr,
    program: Program,
}

impl Node {
    fn start(variables: &[(&str, &str)]) -> Self {
        Self::begin(Folder::new(), variables)
    }

    fn begin(folder: Folder, variables: &[(&str, &str)]) -> Self {
        let socket = folder.at("docker.sock");
        let engine = Engine::listen(Path::new(&socket));
        let (host, state, http) = (format!("unix://{socket}"), folder.at("agent"), free_port());
        let libvirt = folder.at("no-libvirt");
        let mut all = vec![
            ("DOCKER_HOST", host.as_str()),
            ("PERSYS_TLS_ENABLED", "false"),
            ("PERSYS_STATE_PATH", &state),
            ("PERSYS_GRPC_PORT", "0"),
            ("PERSYS_METRICS_PORT", &http),
            ("PERSYS_SCHEDULER_ADDR", "none"),
            ("PERSYS_LIBVIRT_SOCKET", &libvirt),
        ];
        all.retain(|(name, _)| variables.iter().all(|(given, _)| given != name));
        all.extend_from_slice(variables);
        let program = Program::start(folder.path(), &["agent", "--watchdog=false"], &all);
        let http = format!("127.0.0.1:{http}").parse().unwrap();
        Self { folder, engine, http, program }
    }

    fn health(&self) -> Value {
        until("a page", || serde_json::from_str(&page(self.http, "/health")?).ok())
    }
}

#[test]
fn containers_are_off_when_that_was_said() {
    let mut node = Node::start(&[("PERSYS_DOCKER_ENABLED", "false")]);
    node.program.says("the agent serves");
    let health = node.health();
    for kind in ["container", "compose"] {
        let told = health["runtimes"][kind].as_str().unwrap();
        assert!(told.contains("PERSYS_DOCKER_ENABLED"), "{health}");
    }
    // What Docker ran before is not given up.
    until("Docker is looked at", || (node.engine.asked() > 0).then_some(()));
    let both = [("PERSYS_DOCKER_ENABLED", "false"), ("PERSYS_VM_ENABLED", "false")];
    let (code, _, err) = ends(&["agent"], &both);
    assert_eq!(code, 64);
    assert!(err.contains("nothing is left to run"), "{err}");
}

#[test]
fn stacks_are_off_when_that_was_said() {
    let node = Node::start(&[("PERSYS_COMPOSE_ENABLED", "false")]);
    let health = node.health();
    let told = health["runtimes"]["compose"].as_str().unwrap();
    assert!(told.contains("PERSYS_COMPOSE_ENABLED"), "{health}");
    assert_eq!(health["runtimes"]["container"], "healthy");
}

#[test]
fn the_compose_program_is_the_one_that_was_said() {
    let folder = Folder::new();
    let (program, called) = (folder.at("docker-compose"), folder.at("called"));
    let script = format!("#!/bin/sh\necho \"$@\" >{called}\necho 9.8.7\n");
    std::fs::write(&program, script).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
    let node = Node::begin(folder, &[("PERSYS_COMPOSE_BINARY", &program)]);
    until("it is asked for its version", || std::fs::read_to_string(node.folder.at("called")).ok());
    until("stacks are offered", || {
        (node.health()["runtimes"]["compose"] == "healthy").then_some(())
    });
    // A name is looked for in the usual folders, and is told when it is not there.
    let node = Node::start(&[("PERSYS_COMPOSE_BINARY", "no-such-compose")]);
    let health = node.health();
    let told = health["runtimes"]["compose"].as_str().unwrap();
    assert!(told.contains("no-such-compose is not in /usr/local/sbin"), "{health}");
}

/// Two agents, one of which is told not to look by itself: while the other looks twenty times, it does not once.
#[test]
fn the_runtime_is_not_asked_periodically_when_that_was_said() {
    let common = [("PERSYS_RECONCILE_INTERVAL", "200ms"), ("PERSYS_VM_ENABLED", "false")];
    let on = Node::start(&common);
    let mut off = Node::start(&[&common[..], &[("PERSYS_RECONCILE_ENABLED", "false")]].concat());
    off.program.says("the agent serves");
    let looks = |node: &Node, more: u64| {
        let before = node.engine.asked();
        until("looks", || (node.engine.asked() >= before + more).then_some(()));
    };
    // What it looks at because it starts comes first.
    until("it has looked", || (off.engine.asked() > 0).then_some(()));
    looks(&on, 10);
    let before = off.engine.asked();
    looks(&on, 20);
    assert_eq!(off.engine.asked(), before);
}

#[test]
fn the_version_is_the_one_that_was_said() {
    let folder = Folder::new();
    let state = folder.at("scheduler");
    let variables = [
        ("PERSYS_STATE_DIR", state.as_str()),
        ("GRPC_PORT", "0"),
        ("METRICS_PORT", "0"),
        ("PERSYS_DNS_PORT", "0"),
    ];
    let mut scheduler = Program::start(folder.path(), &["scheduler", "-insecure"], &variables);
    let at = scheduler.at("grpc").to_string();
    let named = [("PERSYS_VERSION", "dev"), ("PERSYS_SCHEDULER_ADDR", at.as_str())];
    let node = Node::start(&[&named[..], &[("PERSYS_NODE_ID", "n1")]].concat());
    let health = node.health();
    assert_eq!(health["version"], "dev");
    let program = env!("CARGO_PKG_VERSION");
    assert_eq!(health["programVersion"], program);
    let way = format!("--insecure --endpoint {at}");
    let shown = ready_node(&folder, &way);
    assert_eq!(shown["agent_version"], format!("dev({program})"), "{shown}");
    let (code, out, err) = types(&folder, &format!("upgrade-check {way}"));
    assert!(out.contains("agents      all on"), "{code} {out}{err}");
}

/// A libvirt that lets everybody in, and keeps what it was opened with.
fn libvirt(socket: &str) -> Arc<Mutex<Vec<u8>>> {
    let (opened, listener) =
        (Arc::<Mutex<Vec<u8>>>::default(), UnixListener::bind(socket).unwrap());
    let kept = Arc::clone(&opened);
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            // One that goes away is no matter.
            drop(answer_opening(stream, &kept));
        }
    });
    opened
}

fn answer_opening(mut stream: UnixStream, opened: &Mutex<Vec<u8>>) -> std::io::Result<()> {
    loop {
        let mut length = [0; 4];
        stream.read_exact(&mut length)?;
        let mut call = vec![0; usize::try_from(u32::from_be_bytes(length)).unwrap() - 4];
        stream.read_exact(&mut call)?;
        let procedure = u32::from_be_bytes(call[8..12].try_into().unwrap());
        let empty_list: &[u8] = &[0; 4];
        let body = match procedure {
            // How to log in: not at all.
            66 => empty_list,
            1 => {
                opened.lock().unwrap().extend_from_slice(&call[24..]);
                &[]
            }
            _ => return Ok(()),
        };
        // The head of the call, as a reply that is well.
        let mut reply = call[..24].to_vec();
        reply[12..16].copy_from_slice(&1_u32.to_be_bytes());
        reply[20..24].copy_from_slice(&0_u32.to_be_bytes());
        reply.extend_from_slice(body);
        stream.write_all(&u32::try_from(reply.len() + 4).unwrap().to_be_bytes())?;
        stream.write_all(&reply)?;
    }
}

#[test]
fn libvirt_is_opened_with_the_uri_that_was_said() {
    for uri in ["qemu:///system", "test:///default"] {
        let folder = Folder::new();
        let socket = folder.at("libvirt-sock");
        let opened = libvirt(&socket);
        let variables = [("PERSYS_LIBVIRT_SOCKET", socket.as_str()), ("PERSYS_LIBVIRT_URI", uri)];
        let node = Node::begin(folder, &variables);
        until(uri, || {
            let bytes = opened.lock().unwrap();
            bytes.windows(uri.len()).any(|part| part == uri.as_bytes()).then_some(())
        });
        drop(node);
    }
}

/// A Vault that takes every login, signs nothing, and keeps what it was asked.
#[derive(Clone, Default)]
struct Vault {
    asked: Arc<Mutex<Vec<(String, String)>>>,
}

impl Vault {
    fn listen() -> (Self, String) {
        let (vault, listener) = (Self::default(), TcpListener::bind("127.0.0.1:0").unwrap());
        let url = format!("http://{}", listener.local_addr().unwrap());
        let answering = vault.clone();
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                drop(answering.answer(&stream));
            }
        });
        (vault, url)
    }

    fn answer(&self, stream: &TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream);
        let (mut request, mut length) = (String::new(), 0);
        reader.read_line(&mut request)?;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            if line.trim().is_empty() {
                break;
            }
            if let Some(value) = line.to_lowercase().strip_prefix("content-length:") {
                length = value.trim().parse().unwrap();
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let path = request.split_whitespace().nth(1).unwrap_or_default().to_owned();
        let login = path.ends_with("lookup-self");
        let text = String::from_utf8(body).unwrap();
        self.asked.lock().unwrap().push((path, text));
        let (status, body) = if login {
            ("200 OK", r#"{"data":{"ttl":3600,"renewable":false}}"#)
        } else {
            ("503 Service Unavailable", r#"{"errors":["away"]}"#)
        };
        let (mut out, length) = (stream, body.len());
        write!(
            out,
            "HTTP/1.1 {status}\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )
    }

    /// Requests for a certificate.
    fn wanted(&self) -> Vec<(String, Value)> {
        let asked = self.asked.lock().unwrap();
        let signs = asked.iter().filter(|(path, _)| path.contains("/sign/"));
        signs.map(|(path, body)| (path.clone(), serde_json::from_str(body).unwrap())).collect()
    }
}

/// A scheduler whose certificate should have been renewed a while ago.
fn overdue(folder: &Folder, variables: &[(&str, &str)]) -> Program {
    let (domain, cluster) =
        (TrustDomain::new("persys.local").unwrap(), ClusterName::new("persys").unwrap());
    let past = SystemTime::now() - Duration::from_mins(55);
    let ca = folder.path().join("authority");
    let authority = Authority::open_or_create(&ca, &domain, &cluster, past).unwrap();
    let grant = Grant::new(Role::Scheduler, Name::new("s1").unwrap()).on_loopback();
    let lifetime = Duration::from_hours(1);
    let issued = authority.issue(&grant, Validity { now: past, lifetime }).unwrap();
    let own = folder.path().join("s1.pem");
    Source::Bundle(own.clone()).save(&issued).unwrap();
    let (own, state) = (own.display().to_string(), folder.at("scheduler"));
    let mut all = vec![
        ("PERSYS_STATE_DIR", state.as_str()),
        ("GRPC_PORT", "0"),
        ("METRICS_PORT", "0"),
        ("PERSYS_DNS_PORT", "0"),
        ("PERSYS_IDENTITY", &own),
        ("PERSYS_VAULT_TOKEN", "t"),
    ];
    all.extend_from_slice(variables);
    let mut program = Program::start(folder.path(), &["scheduler"], &all);
    program.says("the scheduler serves");
    program
}

#[test]
fn vault_is_asked_where_for_what_and_as_often_as_was_said() {
    let (vault, url) = Vault::listen();
    let folder = Folder::new();
    let variables = [
        ("PERSYS_VAULT_ENABLED", "true"),
        ("PERSYS_VAULT_ADDR", url.as_str()),
        ("PERSYS_VAULT_PKI_MOUNT", "pki2"),
        ("PERSYS_VAULT_PKI_ROLE", "own-role"),
        ("PERSYS_VAULT_CERT_TTL", "7h"),
        ("PERSYS_VAULT_RETRY_INTERVAL", "200ms"),
        ("PERSYS_VAULT_SERVICE_NAME", "svc"),
        ("PERSYS_VAULT_SERVICE_DOMAIN", "example.org"),
        ("PERSYS_EXTERNAL_IP", "10.9.8.7"),
    ];
    let _running = overdue(&folder, &variables);
    // Every minute is usual: so often that would take ten.
    let wanted = until("ten tries", || Some(vault.wanted()).filter(|all| all.len() >= 10));
    let (path, body) = &wanted[0];
    assert_eq!(path, "/v1/pki2/sign/own-role");
    assert_eq!((&body["ttl"], &body["common_name"]), (&"25200s".into(), &"svc.example.org".into()));
    assert_eq!(body["ip_sans"], "10.9.8.7");
    let uri = body["uri_sans"].as_str().unwrap();
    assert!(uri.starts_with("spiffe://example.org/persys/scheduler/"), "{uri}");

    // With what there is to log in with, it is asked without being told to; and not, when that was said.
    let (asked, at) = Vault::listen();
    let auto = Folder::new();
    let _other = overdue(&auto, &[("PERSYS_VAULT_ADDR", &at)]);
    let (left, elsewhere) = Vault::listen();
    let off = Folder::new();
    let said = [("PERSYS_VAULT_ADDR", elsewhere.as_str()), ("PERSYS_VAULT_ENABLED", "false")];
    let _third = overdue(&off, &said);
    until("it is asked", || (!asked.wanted().is_empty()).then_some(()));
    assert!(left.asked.lock().unwrap().is_empty());
}
