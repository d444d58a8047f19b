//! A daemon that is not there, hangs, or talks nonsense: unknown, never "gone".

use std::time::{Duration, Instant};

use persys_model::id::WorkloadId;
use persys_node::input::{Existing, Observation, Outcome};
use persys_runtime::docker::settings::Deadlines;
use persys_runtime::error::outcome;
use persys_runtime::runtime::observation;
use persys_runtime::{Error, Runtime};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixListener;

use super::bench::{DockerBench, bench, bench_with, host};
use crate::contract::{GRACE, quiet, start};

/// How a stand-in for the daemon behaves.
#[derive(Clone)]
enum Stand {
    /// Takes the connection and says nothing.
    Hangs,
    /// Answers everything with a container list of tomorrow.
    Nonsense,
    /// Passes the request on and drops the answer.
    LosesAnswers,
    /// Passes on what is about others than a container with one of these names.
    HangsFor([String; 2]),
}

/// A stand-in for the daemon, gone when it is dropped.
struct StandIn {
    path: std::path::PathBuf,
    task: tokio::task::JoinHandle<()>,
}

impl StandIn {
    fn new(stand: Stand) -> Self {
        let path = std::env::temp_dir().join(format!("{}socket", super::bench::fresh_prefix()));
        let listener = UnixListener::bind(&path).unwrap();
        let real = host().trim_start_matches("unix://").to_owned();
        let task = tokio::spawn(async move {
            loop {
                let (connection, _) = listener.accept().await.unwrap();
                tokio::spawn(serve(stand.clone(), connection, real.clone()));
            }
        });
        Self { path, task }
    }

    fn host(&self) -> String {
        format!("unix://{}", self.path.display())
    }
}

impl Drop for StandIn {
    fn drop(&mut self) {
        self.task.abort();
        std::fs::remove_file(&self.path).unwrap();
    }
}

async fn serve(stand: Stand, mut connection: tokio::net::UnixStream, real: String) {
    let mut request = vec![0; 65536];
    let length = connection.read(&mut request).await.unwrap();
    match stand {
        Stand::Hangs => std::future::pending().await,
        Stand::HangsFor(names) => {
            let text = String::from_utf8_lossy(&request[..length]).into_owned();
            if names.iter().any(|name| text.contains(&format!("/containers/{name}/"))) {
                std::future::pending::<()>().await;
            }
            let mut daemon = tokio::net::UnixStream::connect(real).await.unwrap();
            daemon.write_all(&request[..length]).await.unwrap();
            drop(tokio::io::copy(&mut daemon, &mut connection).await);
        }
        Stand::Nonsense => {
            let body = r#"[{"Id":"x","State":"levitating","Names":["/a"]}]"#;
            let answer = format!(
                "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
                body.len()
            );
            connection.write_all(answer.as_bytes()).await.unwrap();
        }
        Stand::LosesAnswers => {
            let text = String::from_utf8_lossy(&request[..length]).into_owned();
            let mut daemon = tokio::net::UnixStream::connect(real).await.unwrap();
            daemon.write_all(&request[..length]).await.unwrap();
            // Questions are answered; what a change came to is lost on the way.
            let mut answer = vec![0; 65536];
            let length = daemon.read(&mut answer).await.unwrap();
            if text.starts_with("GET") {
                connection.write_all(&answer[..length]).await.unwrap();
                tokio::io::copy(&mut daemon, &mut connection).await.unwrap();
            }
        }
    }
}

fn hasty(host: &str) -> DockerBench {
    bench_with(|settings| {
        host.clone_into(&mut settings.host);
        let short = Duration::from_millis(300);
        settings.deadlines = Deadlines { ask: short, act: short, pull_idle: short, pull: short };
    })
}

#[tokio::test]
async fn no_daemon_is_unknown() {
    let bench = hasty("unix:///no/such/socket");
    let id = WorkloadId::fixed("web");
    assert_eq!(observation(bench.docker.list().await), Observation::Unknown);
    assert_eq!(outcome(&bench.docker.remove(&id, true).await), Outcome::Unknown);
    assert_eq!(outcome(&bench.docker.stop(&id, Some(GRACE)).await), Outcome::Unknown);
    let order = start("web", "r1", bench.runs());
    assert_eq!(outcome(&bench.docker.start(&order).await), Outcome::Unknown);
    let prepared = bench.docker.prepare(&order.spec, &quiet).await;
    assert_eq!(outcome(&prepared), Outcome::Unknown);
    assert!(bench.docker.health().await.unwrap_err().is_unknown());
}

#[tokio::test]
async fn a_daemon_that_hangs_is_unknown_and_soon_so() {
    let daemon = StandIn::new(Stand::Hangs);
    let bench = hasty(&daemon.host());
    let id = WorkloadId::fixed("web");
    let begun = Instant::now();
    let (list, stop, remove, inspect) = tokio::join!(
        bench.docker.list(),
        bench.docker.stop(&id, Some(GRACE)),
        bench.docker.remove(&id, true),
        bench.docker.inspect(&id),
    );
    assert!(begun.elapsed() < Duration::from_secs(3), "one hanging call holds up the others");
    assert_eq!(observation(list), Observation::Unknown);
    assert_eq!(outcome(&stop), Outcome::Unknown);
    assert_eq!(outcome(&remove), Outcome::Unknown);
    assert!(matches!(inspect, Err(Error::NoAnswer { verb: "inspect", .. })));
}

#[tokio::test]
async fn an_answer_of_tomorrow_is_unknown_and_not_empty() {
    let daemon = StandIn::new(Stand::Nonsense);
    let bench = hasty(&daemon.host());
    let error = bench.docker.list().await.unwrap_err();
    assert!(matches!(error, Error::Unreadable { .. }), "{error}");
}

/// A container that was made though the answer was lost is found again by its name.
#[tokio::test]
async fn a_lost_answer_makes_no_second_container() {
    let real = bench();
    let daemon = StandIn::new(Stand::LosesAnswers);
    let settings = persys_runtime::docker::settings::Settings {
        host: daemon.host(),
        ..super::bench::settings(&real.prefix)
    };
    let owner = super::bench::owner(&real.prefix);
    let lossy =
        persys_runtime::docker::Docker::new(owner, settings, persys_runtime::Clock::since_boot());
    let order = start("lost", "r1", real.runs());
    assert_eq!(outcome(&lossy.start(&order).await), Outcome::Unknown, "made, but who knows");
    let made = real.docker.inspect(&order.workload).await.unwrap().expect("it was made");
    assert_eq!(outcome(&lossy.start(&order).await), Outcome::Unknown, "started, but who knows");
    real.docker.start(&order).await.unwrap();
    let found = real.docker.inspect(&order.workload).await.unwrap().unwrap();
    assert_eq!(found.id, made.id, "the same one");
    // It is asked to stop, and then taken away; neither answer comes.
    for _ in 0..2 {
        assert_eq!(outcome(&lossy.remove(&order.workload, true).await), Outcome::Unknown);
    }
    assert_eq!(real.docker.list().await.unwrap(), [], "gone all the same");
}

/// The daemon answers for all but one: that one is stuck, and nothing is concluded about the others.
#[tokio::test]
async fn a_container_the_daemon_does_not_answer_for_is_stuck() {
    let real = bench();
    let (stuck, well) = (start("stuck", "r1", real.runs()), start("well", "r1", real.runs()));
    for order in [&stuck, &well] {
        real.docker.start(order).await.unwrap();
    }
    let id = real.docker.inspect(&stuck.workload).await.unwrap().unwrap().id;
    let daemon = StandIn::new(Stand::HangsFor([id, real.name("stuck")]));
    let settings = persys_runtime::docker::settings::Settings {
        host: daemon.host(),
        deadlines: Deadlines { ask: Duration::from_secs(1), ..Deadlines::default() },
        ..super::bench::settings(&real.prefix)
    };
    let owner = super::bench::owner(&real.prefix);
    let docker =
        persys_runtime::docker::Docker::new(owner, settings, persys_runtime::Clock::since_boot());
    let begun = Instant::now();
    let list = docker.list().await.unwrap();
    let limit = Duration::from_millis(persys_node::settings::PROBE_ANSWER_MS);
    assert!(begun.elapsed() < limit, "{:?}", begun.elapsed());
    let state = |name: &str| list.iter().find(|seen| seen.workload.as_str() == name).unwrap();
    let Existing::Stuck { why } = &state("stuck").state else { panic!("{list:?}") };
    assert!(why.contains("not for this one"), "{why}");
    assert_eq!(state("well").state, Existing::Running);
    assert_eq!(outcome(&docker.stop(&stuck.workload, Some(GRACE)).await), Outcome::Unknown);
    for order in [&stuck, &well] {
        assert_eq!(
            real.docker.inspect(&order.workload).await.unwrap().unwrap().seen.state,
            Existing::Running
        );
        real.docker.remove(&order.workload, true).await.unwrap();
    }
}
