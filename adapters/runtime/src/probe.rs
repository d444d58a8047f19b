//! Health checks from outside: a connection or a request to a port of a workload.
//!
//! A check asks the workload's own addresses, not its published ports, so that it needs none. Nothing is
//! followed: not a redirect, not a proxy of the environment.

use std::net::{IpAddr, SocketAddr};
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use persys_model::health::Health;
use persys_model::spec::health::{Check, Probe};
use persys_node::input::{Existing, ProbeOutcome};
use tokio::net::TcpStream;
use tokio::time::timeout;

use crate::error::Error;
use crate::runtime::Thing;

/// Bytes of an answer that are quoted when it is a refusal.
const QUOTED: usize = 200;

/// Each request has a connection of its own: a workload that takes no new ones is not well.
static CLIENT: LazyLock<Option<reqwest::Client>> = LazyLock::new(|| {
    let client = reqwest::Client::builder()
        .no_proxy()
        .redirect(reqwest::redirect::Policy::none())
        .pool_max_idle_per_host(0)
        .http1_only()
        .user_agent(concat!("persys-agent/", env!("CARGO_PKG_VERSION")));
    client.build().ok()
});

/// Asks what was found of a workload.
pub(crate) async fn ask(found: Result<Option<Thing>, Error>, check: &Check) -> ProbeOutcome {
    let thing = match found {
        Ok(Some(thing)) if thing.seen.state == Existing::Running => thing,
        // What does not run is told otherwise; this says nothing of it.
        Ok(_) => return ProbeOutcome::Unknown,
        Err(error) => {
            tracing::debug!(%error, "a health check could not be run");
            return ProbeOutcome::Unknown;
        }
    };
    let limit = Duration::from_millis(check.timeout_ms);
    let answer = match timeout(limit, ask_any(&thing.addresses, &check.probe)).await {
        Ok(answer) => answer,
        Err(_) => Err(format!("no answer within {} ms", check.timeout_ms)),
    };
    match answer {
        Ok(()) => ProbeOutcome::Passed,
        Err(why) => {
            let told = format!("{}: {why}", question(&check.probe));
            ProbeOutcome::Failed(Health::unhealthy(&told).detail)
        }
    }
}

/// The question, as people read it.
fn question(probe: &Probe) -> String {
    match probe {
        Probe::Http { port, path } => format!("GET {path} on port {port}"),
        Probe::Tcp { port } => format!("connection to port {port}"),
        Probe::Exec(words) => words.join(" "),
    }
}

/// One address that says yes is enough: a program may serve one family only.
async fn ask_any(addresses: &[IpAddr], probe: &Probe) -> Result<(), String> {
    let mut last = Err("it has no address".to_owned());
    for address in addresses {
        last = match probe {
            Probe::Http { port, path } => get(SocketAddr::new(*address, *port), path).await,
            Probe::Tcp { port } => connect(SocketAddr::new(*address, *port)).await,
            Probe::Exec(_) => Err("a command is not a check from outside".to_owned()),
        };
        if last.is_ok() {
            return last;
        }
    }
    last
}

async fn connect(to: SocketAddr) -> Result<(), String> {
    TcpStream::connect(to).await.map(drop).map_err(|error| error.to_string())
}

async fn get(to: SocketAddr, path: &Arc<str>) -> Result<(), String> {
    let Some(client) = &*CLIENT else { return Err("no HTTP client could be made".to_owned()) };
    let answer = client.get(format!("http://{to}{path}")).send().await;
    let mut answer = answer.map_err(|error| innermost(&error))?;
    let status = answer.status();
    if status.is_success() || status.is_redirection() {
        return Ok(());
    }
    let part = answer.chunk().await.ok().flatten().unwrap_or_default();
    let said = String::from_utf8_lossy(part.get(..QUOTED).unwrap_or(&part)).trim().to_owned();
    let quote = if said.is_empty() { String::new() } else { format!(", {said}") };
    Err(format!("status {}{quote}", status.as_u16()))
}

/// The cause at the bottom of an error: the layers above only say that a request failed.
fn innermost(error: &reqwest::Error) -> String {
    let mut cause: &dyn std::error::Error = error;
    while let Some(below) = cause.source() {
        cause = below;
    }
    cause.to_string()
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use persys_model::id::{RevisionId, WorkloadId};
    use persys_model::token::Epoch;
    use persys_node::input::{Seen, ServiceEnds};
    use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
    use tokio::net::TcpListener;

    use super::*;

    fn runs(state: Existing) -> Thing {
        Thing {
            seen: Seen {
                workload: WorkloadId::fixed("web"),
                epoch: Epoch(1),
                revision: RevisionId::fixed("r1"),
                state,
                services: ServiceEnds::default(),
                health: None,
            },
            id: String::new(),
            started_at: None,
            finished_at: None,
            addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
            ports: Vec::new(),
            services: Vec::new(),
        }
    }

    fn check(probe: Probe) -> Check {
        Check { probe, interval_ms: 1_000, timeout_ms: 300, start_period_ms: 0, retries: 1 }
    }

    fn http(port: u16) -> Check {
        check(Probe::Http { port, path: Arc::from("/up?a=1") })
    }

    /// Answers every request so; an empty answer is none at all.
    async fn serving(answer: &'static str) -> (u16, tokio::task::JoinHandle<()>) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let task = tokio::spawn(async move {
            let mut open = Vec::new();
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                let mut request = [0; 1024];
                let read = stream.read(&mut request).await.unwrap();
                if read > 0 {
                    let text = String::from_utf8_lossy(&request[..read]).into_owned();
                    assert!(text.starts_with("GET /up?a=1 HTTP/1.1\r\n"), "{text}");
                    stream.write_all(answer.as_bytes()).await.unwrap();
                }
                if answer.is_empty() {
                    open.push(stream);
                }
            }
        });
        (port, task)
    }

    async fn told(check: &Check) -> String {
        match ask(Ok(Some(runs(Existing::Running))), check).await {
            ProbeOutcome::Passed => "passed".to_owned(),
            ProbeOutcome::Failed(why) => why.to_string(),
            ProbeOutcome::Unknown => "unknown".to_owned(),
        }
    }

    #[tokio::test]
    async fn a_request_is_answered_well_badly_or_not_at_all() {
        let (port, _task) = serving("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
        assert_eq!(told(&http(port)).await, "passed");
        let (port, _task) = serving(
            "HTTP/1.1 302 Found\r\nlocation: http://10.0.0.1/\r\ncontent-length: 0\r\n\r\n",
        )
        .await;
        assert_eq!(told(&http(port)).await, "passed", "a redirect is an answer, and not followed");
        let (port, _task) = serving("HTTP/1.1 503 No\r\ncontent-length: 7\r\n\r\nno disk").await;
        let wanted = format!("GET /up?a=1 on port {port}: status 503, no disk");
        assert_eq!(told(&http(port)).await, wanted);
        let (port, _task) = serving("").await;
        let wanted = format!("GET /up?a=1 on port {port}: no answer within 300 ms");
        assert_eq!(told(&http(port)).await, wanted);
        let (port, _task) = serving("HTTP/1.1 200 OK\r\n").await;
        assert_ne!(told(&http(port)).await, "passed", "half an answer is none");
    }

    #[tokio::test]
    async fn a_connection_is_accepted_or_not() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        assert_eq!(told(&check(Probe::Tcp { port })).await, "passed");
        drop(listener);
        let why = told(&check(Probe::Tcp { port })).await;
        assert!(
            why.starts_with(&format!("connection to port {port}: Connection refused")),
            "{why}"
        );
    }

    #[tokio::test]
    async fn only_what_runs_is_judged() {
        let check = check(Probe::Tcp { port: 1 });
        for state in [Existing::PAUSED, Existing::Exited { code: 1 }, Existing::Created] {
            assert_eq!(ask(Ok(Some(runs(state))), &check).await, ProbeOutcome::Unknown);
        }
        assert_eq!(ask(Ok(None), &check).await, ProbeOutcome::Unknown);
        let silent = Error::Unreachable { detail: "no".to_owned() };
        assert_eq!(ask(Err(silent), &check).await, ProbeOutcome::Unknown);
        let mut lost = runs(Existing::Running);
        lost.addresses.clear();
        let outcome = ask(Ok(Some(lost)), &check).await;
        let why = "connection to port 1: it has no address";
        assert_eq!(outcome, ProbeOutcome::Failed(Arc::from(why)));
    }
}
