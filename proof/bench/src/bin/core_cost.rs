//! What the scheduler's core costs per workload and per heartbeat, as the cluster grows.
//!
//! CPU time of this thread, read from the kernel; no store, no network. Each point is measured
//! several times in an order that mixes the sizes, and the median is shown beside the worst.

#![expect(clippy::print_stdout, clippy::expect_used, reason = "a benchmark talks and may stop")]

use persys_model::event::Author;
use std::collections::{BTreeMap, BTreeSet};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use persys_bench::cpu::thread_time;
use persys_cluster::effects::Outbound;
use persys_cluster::input::{Ask, Input, RequestId};
use persys_cluster::record::Snapshot;
use persys_cluster::settings::Settings;
use persys_cluster::world::World;
use persys_model::command::Answer;
use persys_model::id::{NodeId, RevisionId, WorkloadId};
use persys_model::inventory::{Inventory, Report, State};
use persys_model::link::{Beat, Registration, Usage};
use persys_model::node::NodeFacts;
use persys_model::resources::{Compute, Disk, Resources};
use persys_model::spec::{ContainerSpec, Kind, Placement, Spec, WorkloadType};
use persys_model::time::{Millis, Now};
use persys_model::token::{Epoch, Session, Term};
use persys_model::workload::Desired;

/// Nodes and workloads of each point.
const SIZES: [(usize, usize); 4] =
    [(100, 1_000), (1_000, 10_000), (5_000, 50_000), (10_000, 100_000)];
/// Workloads submitted per measurement.
const SUBMITTED: usize = 2_000;
/// Heartbeats per measurement.
const BEATS: usize = 20_000;
const ROUNDS: usize = 5;
/// Bars of the core: microseconds of CPU.
const MOST_SUBMIT_US: f64 = 20.0;
const MOST_BEAT_US: f64 = 2.0;

/// The page of metrics: milliseconds, and bytes.
const MOST_PAGE_MS: f64 = 100.0;
const MOST_PAGE_BYTES: usize = 1_000_000;

/// An order as an obedient agent needs it.
type Order = (NodeId, WorkloadId, Session, Epoch);

struct Cluster {
    world: World,
    now: Now,
    requests: u64,
    next_workload: usize,
    nodes: Vec<NodeId>,
    seqs: Vec<u64>,
    spec: Arc<Spec>,
    revision: RevisionId,
}

/// What one round measured of one cluster, in microseconds per operation.
#[derive(Clone, Copy)]
struct Costs {
    submit: f64,
    to_running: f64,
    beat: f64,
}

fn main() -> ExitCode {
    let mut clusters: Vec<_> = SIZES
        .iter()
        .map(|(nodes, workloads)| (Cluster::build(*nodes, *workloads), Vec::new()))
        .collect();
    for _ in 0..ROUNDS {
        for (cluster, costs) in &mut clusters {
            let (submit, to_running) = cluster.measure_submissions();
            costs.push(Costs { submit, to_running, beat: cluster.measure_beats() });
        }
    }
    println!("core cost, CPU microseconds per operation, median (worst) of {ROUNDS} rounds");
    println!("   nodes  workloads      submit+place  submit to running         quiet beat");
    let mut json = Vec::new();
    let mut fine = true;
    for ((nodes, workloads), (_, costs)) in SIZES.iter().zip(&clusters) {
        let submit = spread(costs.iter().map(|cost| cost.submit));
        let life = spread(costs.iter().map(|cost| cost.to_running));
        let beat = spread(costs.iter().map(|cost| cost.beat));
        println!(
            "{nodes:>8} {workloads:>10} {:>9.2} ({:>5.2}) {:>10.2} ({:>5.2}) {:>10.2} ({:>5.2})",
            submit.0, submit.1, life.0, life.1, beat.0, beat.1
        );
        json.push(format!(
            "{{\"nodes\":{nodes},\"workloads\":{workloads},\"submit_us\":{:.3},\
             \"submit_to_running_us\":{:.3},\"beat_us\":{:.3}}}",
            submit.0, life.0, beat.0
        ));
        fine &= submit.0 < MOST_SUBMIT_US && beat.0 < MOST_BEAT_US;
    }
    fine &= pages(&clusters.iter().map(|(cluster, _)| cluster).collect::<Vec<_>>());
    if let Some(path) = std::env::args().nth(1) {
        std::fs::write(&path, format!("[{}]\n", json.join(","))).expect("the result is written");
    }
    let verdict = if fine { "PASS" } else { "FAIL" };
    println!(
        "bars at every size: submit < {MOST_SUBMIT_US} us, quiet beat < {MOST_BEAT_US} us, \
         page < {MOST_PAGE_MS} ms and < {MOST_PAGE_BYTES} bytes: {verdict}"
    );
    if fine { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

/// What it costs to show and to check each cluster; the driver is held up by counting and checking.
fn pages(clusters: &[&Cluster]) -> bool {
    let mut fine = true;
    println!("   nodes  workloads   counted ms   page ms  page bytes   checked ms");
    for ((nodes, workloads), cluster) in SIZES.iter().zip(clusters) {
        let (mut count, mut page, mut check, mut bytes) = (Vec::new(), Vec::new(), Vec::new(), 0);
        for _ in 0..ROUNDS {
            let begin = thread_time();
            std::hint::black_box(cluster.world.tally());
            let counted = thread_time();
            bytes = persys_scheduler::metrics::page_of(&cluster.world).len();
            let shown = thread_time();
            assert!(cluster.world.violations().is_empty(), "the books are right");
            let ms = |from: Duration, to: Duration| to.saturating_sub(from).as_secs_f64() * 1e3;
            count.push(ms(begin, counted));
            page.push(ms(counted, shown));
            check.push(ms(shown, thread_time()));
        }
        let [count, page, check] = [count, page, check].map(|all| spread(all.into_iter()));
        println!(
            "{nodes:>8} {workloads:>10} {:>12.2} {:>9.2} {bytes:>11} {:>12.2}",
            count.0, page.0, check.0
        );
        fine &= page.0 < MOST_PAGE_MS && bytes < MOST_PAGE_BYTES;
    }
    fine
}

impl Cluster {
    fn build(nodes: usize, workloads: usize) -> Self {
        let now = Now::at(1_000_000);
        let (mut world, _) = World::open(
            Settings::default(),
            Term(1),
            Snapshot::default(),
            None,
            Arc::from("bench"),
            now,
        );
        world.set_leads_until(Millis(u64::MAX));
        let image = Arc::from("busybox");
        let spec = Spec {
            kind: Kind::Container(ContainerSpec { image, ..ContainerSpec::default() }),
            resources: Resources { compute: Compute::new(100, 128), disk: Disk::none() },
            placement: Placement::default(),
            metadata: BTreeMap::new(),
            secrets: Vec::new(),
            stop_grace_ms: None,
            health: persys_model::spec::health::HealthChecks::default(),
        };
        let mut cluster = Self {
            world,
            now,
            requests: 0,
            next_workload: 0,
            nodes: Vec::new(),
            seqs: vec![0; nodes],
            spec: Arc::new(spec),
            revision: RevisionId::new("r1").expect("a revision"),
        };
        for n in 0..nodes {
            cluster.join(n);
        }
        for _ in 0..workloads {
            let ask = cluster.next_submission();
            for order in cluster.commit(ask) {
                cluster.obey(order);
            }
        }
        let placed = cluster.world.workloads().filter(|w| w.assignment.place.is_some()).count();
        assert_eq!(placed, workloads, "every workload has its place");
        cluster
    }

    fn join(&mut self, n: usize) {
        let id = NodeId::new(&format!("node-{n:05}")).expect("a name");
        let facts = NodeFacts {
            id: id.clone(),
            host: Arc::from(format!("host-{n}")),
            incarnation: Arc::from("life"),
            endpoint: Arc::from("127.0.0.1:1"),
            capacity: Compute::new(4_000, 8_192),
            pools: Vec::new(),
            types: WorkloadType::ALL.into_iter().collect(),
            drivers: BTreeSet::new(),
            labels: BTreeMap::new(),
            fence: true,
            pauses: true,
            checks_health: true,
            signals: true,
            addresses: true,
            missing: BTreeMap::new(),
        };
        let registration = Registration { facts, inventory: Inventory::default(), term: Term(0) };
        let request = self.request();
        self.commit(Input::Register(request, registration));
        self.nodes.push(id);
    }

    fn request(&mut self) -> RequestId {
        self.requests += 1;
        RequestId(self.requests)
    }

    fn next_submission(&mut self) -> Input {
        self.next_workload += 1;
        let name = format!("workload-{:07}", self.next_workload);
        let ask = Ask::Apply {
            workload: WorkloadId::new(&name).expect("a name"),
            spec: Some(Arc::clone(&self.spec)),
            revision: Some(self.revision.clone()),
            desired: Desired::Running,
        };
        Input::Ask(self.request(), Arc::new(Author::new("operator bench")), ask)
    }

    /// One input and the confirmation of what it wrote; gives the orders that came of it.
    fn commit(&mut self, input: Input) -> Vec<Order> {
        let mut effects = self.world.step(input, self.now);
        let mut out = std::mem::take(&mut effects.out);
        if let Some(last) = effects.units.last() {
            out.extend(self.world.step(Input::Committed(last.head.seq), self.now).out);
        }
        out.into_iter()
            .filter_map(|message| match message {
                Outbound::Command(node, command) => {
                    Some((node, command.workload, command.session, command.epoch))
                }
                Outbound::Actions { .. }
                | Outbound::Probe(..)
                | Outbound::Registered(..)
                | Outbound::Beat(..)
                | Outbound::Reply(..)
                | Outbound::Publish(_)
                | Outbound::Entries(_) => None,
            })
            .collect()
    }

    /// The node takes an order in and says that the workload runs.
    fn obey(&mut self, (node, workload, session, epoch): Order) {
        let at = self.nodes.binary_search(&node).expect("a known node");
        let report = Report {
            workload: workload.clone(),
            epoch,
            state: State::Running,
            restarts: 0,
            confirmed: true,
            progress: 0,
            fetched: None,
            trouble: None,
            runs: None,
            health: None,
        };
        let answer = Answer::Accepted;
        self.commit(Input::Answered { node, session, workload, epoch, answer, task: None });
        let beat = self.beat_of(at, session, vec![report]);
        self.commit(beat);
    }

    fn beat_of(&mut self, at: usize, session: Session, reports: Vec<Report>) -> Input {
        let seq = self.seqs.get_mut(at).expect("a known node");
        *seq += 1;
        let beat = Beat {
            node: self.nodes.get(at).expect("a known node").clone(),
            session,
            seq: *seq,
            reports,
            removed: Vec::new(),
            inventory: None,
            tasks: Vec::new(),
            usage: Usage::default(),
            limits: BTreeMap::new(),
            busy: None,
            down: BTreeMap::new(),
            takes_removals: false,
        };
        Input::Beat(self.request(), beat)
    }

    /// CPU per submission with its placement, and per submission up to running.
    fn measure_submissions(&mut self) -> (f64, f64) {
        let asks: Vec<_> = (0..SUBMITTED).map(|_| self.next_submission()).collect();
        let mut orders = Vec::with_capacity(SUBMITTED);
        let start = thread_time();
        for ask in asks {
            orders.extend(self.commit(ask));
        }
        let placed = thread_time();
        assert_eq!(orders.len(), SUBMITTED, "every workload was placed and ordered");
        let ids: Vec<_> = orders.iter().map(|order| order.1.clone()).collect();
        let before_obeying = thread_time();
        for order in orders {
            self.obey(order);
        }
        let running = thread_time();
        // Room for the next round, so that every round meets the same cluster.
        for id in ids {
            let request = self.request();
            for (node, workload, session, epoch) in self.commit(Input::Ask(
                request,
                Arc::new(Author::new("operator bench")),
                Ask::Delete(id),
            )) {
                let answer = Answer::Removed { epoch };
                self.commit(Input::Answered { node, session, workload, epoch, answer, task: None });
            }
        }
        let submit = per_op(start, placed, SUBMITTED);
        (submit, submit + per_op(before_obeying, running, SUBMITTED))
    }

    fn measure_beats(&mut self) -> f64 {
        let count = self.nodes.len();
        let inputs: Vec<_> = (0..BEATS)
            .map(|n| {
                let at = (n * 7_919) % count;
                let id = self.nodes.get(at).expect("a known node");
                let session = self.world.node(id).expect("registered").node.session;
                self.beat_of(at, session, Vec::new())
            })
            .collect();
        let start = thread_time();
        for input in inputs {
            let effects = self.world.step(input, self.now);
            assert!(effects.units.is_empty(), "a quiet beat writes nothing");
        }
        per_op(start, thread_time(), BEATS)
    }
}

/// Microseconds that each of `ops` took.
#[expect(clippy::as_conversions, clippy::cast_precision_loss, reason = "shown to people")]
fn per_op(from: Duration, to: Duration, ops: usize) -> f64 {
    to.saturating_sub(from).as_secs_f64() * 1e6 / ops as f64
}

/// Median and worst.
fn spread(values: impl Iterator<Item = f64>) -> (f64, f64) {
    let mut sorted: Vec<_> = values.collect();
    sorted.sort_by(f64::total_cmp);
    let median = sorted.get(sorted.len() / 2).copied().unwrap_or_default();
    (median, sorted.last().copied().unwrap_or_default())
}
