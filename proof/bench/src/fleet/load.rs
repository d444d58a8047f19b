//! Those who submit, and the one who watches.

use std::net::SocketAddr;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use persys_identity::{Connector, Expected, Role};
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use tokio::sync::watch;
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval, sleep, timeout};
use tonic::transport::{Channel, Endpoint};

use super::Fault;
use super::names::Names;

/// What each workload asks for: millicores and MiB.
pub(crate) const REQUEST: (i64, i64) = (100, 64);
/// Connections that submissions share.
const CONNECTIONS: usize = 4;
/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_mins(5);

type Client = AgentControlClient<Channel>;

/// Counters of both processes at one moment.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sample {
    pub(crate) at: Instant,
    pub(crate) scheduler: Duration,
    pub(crate) others: Duration,
    pub(crate) machine: Duration,
    pub(crate) transactions: u64,
    pub(crate) records: u64,
    pub(crate) events: u64,
    pub(crate) etcd: Duration,
    /// What changes with every write to the store.
    pub(crate) touched: u128,
    pub(crate) memory_kib: u32,
}

/// One submission.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Submitted {
    pub(crate) nth: usize,
    /// When it was due: what waited for its turn waited for the system.
    pub(crate) due: Instant,
    pub(crate) called: Instant,
    pub(crate) answered: Instant,
}

/// Connections of one operator.
pub(crate) struct Clients(Vec<Client>);

impl Clients {
    pub(crate) async fn connect(names: &Names, scheduler: SocketAddr) -> Result<Self, Fault> {
        let credentials = names.credentials(Role::Operator, "alice")?;
        let mut clients = Vec::new();
        for _ in 0..=CONNECTIONS {
            let connector = Connector::tls(&credentials, Expected::Scheduler)?;
            let endpoint = Endpoint::from_shared(format!("http://{scheduler}"))?;
            let channel = endpoint.connect_with_connector(connector).await?;
            clients.push(AgentControlClient::new(channel).max_decoding_message_size(usize::MAX));
        }
        Ok(Self(clients))
    }

    /// The connection of one of many who submit; the last one is for looking.
    fn nth(&self, nth: usize) -> Result<Client, Fault> {
        self.0.get(nth % CONNECTIONS).cloned().ok_or_else(|| "no connection".into())
    }

    fn looking(&mut self) -> Result<&mut Client, Fault> {
        self.0.last_mut().ok_or_else(|| "no connection".into())
    }

    /// Waits until so many nodes are ready.
    pub(crate) async fn nodes_ready(&mut self, count: usize) -> Result<(), Fault> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let summary = self.looking()?.get_cluster_summary(wire::GetClusterSummaryRequest {});
            let ready = summary.await?.into_inner().ready_nodes;
            if usize::try_from(ready)? >= count {
                return Ok(());
            }
            if Instant::now() > deadline {
                return Err(format!("only {ready} of {count} nodes are ready").into());
            }
            sleep(Duration::from_millis(100)).await;
        }
    }

    /// Submits all, so many at a time, as fast as they are answered.
    pub(crate) async fn burst(
        &self,
        which: Range<usize>,
        concurrency: usize,
    ) -> Result<Vec<Submitted>, Fault> {
        let next = Arc::new(AtomicUsize::new(which.start));
        let mut tasks = JoinSet::new();
        for nth in 0..concurrency {
            let (mut client, next, end) = (self.nth(nth)?, Arc::clone(&next), which.end);
            tasks.spawn(async move {
                let mut done = Vec::new();
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    if nth >= end {
                        return Ok(done);
                    }
                    done.push(submit(&mut client, nth, Instant::now()).await?);
                }
            });
        }
        let mut all = Vec::new();
        while let Some(done) = tasks.join_next().await {
            let done: Result<Vec<Submitted>, Fault> = done?;
            all.extend(done?);
        }
        Ok(all)
    }

    /// Submits at a steady rate, whether or not earlier ones are answered.
    pub(crate) async fn paced(
        &self,
        which: Range<usize>,
        per_second: u32,
    ) -> Result<Vec<Submitted>, Fault> {
        let mut every = interval(Duration::from_secs(1) / per_second);
        every.set_missed_tick_behavior(MissedTickBehavior::Burst);
        let mut tasks = JoinSet::new();
        for nth in which {
            let due = every.tick().await.into_std();
            let mut client = self.nth(nth)?;
            tasks.spawn(async move { submit(&mut client, nth, due).await });
        }
        let mut all = Vec::new();
        while let Some(done) = tasks.join_next().await {
            all.push(done??);
        }
        Ok(all)
    }

    /// Notes when each workload runs, as the events of the scheduler tell.
    pub(crate) async fn watch(&mut self, workloads: usize) -> Result<Watch, Fault> {
        let request = wire::WatchEventsRequest {
            r#type: "WorkloadRunning".to_owned(),
            ..wire::WatchEventsRequest::default()
        };
        let mut events = self.looking()?.watch_events(request).await?.into_inner();
        let running = Arc::new(Mutex::new(vec![None; workloads]));
        let (to_count, count) = watch::channel(0);
        let mut task = JoinSet::new();
        let noted = Arc::clone(&running);
        task.spawn(async move {
            while let Ok(Some(event)) = events.message().await {
                let now = Instant::now();
                let mut running = noted.lock().unwrap_or_else(PoisonError::into_inner);
                let slot = index(&event.workload_id).and_then(|nth| running.get_mut(nth));
                if let Some(slot @ None) = slot {
                    *slot = Some(now);
                    to_count.send_modify(|count| *count += 1);
                }
            }
        });
        Ok(Watch { running, count, _task: task })
    }

    /// The scheduler says of each that it runs.
    pub(crate) async fn check(&mut self, workloads: usize) -> Result<(), Fault> {
        let all = wire::ListWorkloadsRequest::default();
        let listed = self.looking()?.list_workloads(all).await?.into_inner().workloads;
        let running = listed.iter().filter(|one| one.status == "Running").count();
        if listed.len() != workloads || running != workloads {
            return Err(format!("{running} of {} run, not {workloads}", listed.len()).into());
        }
        Ok(())
    }
}

/// When each workload was seen running.
pub(crate) struct Watch {
    running: Arc<Mutex<Vec<Option<Instant>>>>,
    count: watch::Receiver<usize>,
    _task: JoinSet<()>,
}

impl Watch {
    /// Waits until so many run.
    pub(crate) async fn wait(&mut self, count: usize) -> Result<(), Fault> {
        match timeout(PATIENCE, self.count.wait_for(|seen| *seen >= count)).await {
            Ok(Ok(_)) => Ok(()),
            Ok(Err(_)) => Err("the stream of events ended".into()),
            Err(_) => Err("not all run in time".into()),
        }
    }

    pub(crate) fn running(&self) -> Vec<Option<Instant>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

fn index(id: &str) -> Option<usize> {
    id.strip_prefix('w')?.parse().ok()
}

async fn submit(client: &mut Client, nth: usize, due: Instant) -> Result<Submitted, Fault> {
    let (cpu_millicores, memory_mb) = REQUEST;
    let container = wire::ContainerSpec {
        image: "registry.example.org/team/app:1.27".to_owned(),
        env: [("PORT".to_owned(), "8080".to_owned())].into(),
        ..wire::ContainerSpec::default()
    };
    let request = wire::ApplyWorkloadRequest {
        workload_id: format!("w{nth:06}"),
        spec: Some(wire::WorkloadSpec {
            r#type: "container".to_owned(),
            resources: Some(wire::ResourceRequirements { cpu_millicores, memory_mb, disk_gb: 0 }),
            workload: Some(wire::workload_spec::Workload::Container(container)),
            ..wire::WorkloadSpec::default()
        }),
        ..wire::ApplyWorkloadRequest::default()
    };
    let called = Instant::now();
    let answer = client.apply_workload(request).await?.into_inner();
    if !answer.success {
        return Err(answer.error_message.into());
    }
    Ok(Submitted { nth, due, called, answered: Instant::now() })
}
