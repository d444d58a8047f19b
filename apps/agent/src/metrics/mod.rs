//! What is counted, as Prometheus reads it.
//!
//! What is told apart by workload is read from what runs here when somebody looks, and is gone with it:
//! the page is as long as the node is full.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use persys_identity::{Credentials, Report};
use persys_metrics::{
    Amount, Amounts, Answer, CALLS, Certificate, Counter, Counters, Described, Families, Gauge,
    Gauges, Histogram, Histograms, Page, Rpcs, STEPS, Timed, Validity, WORK,
};
use persys_model::failure::FailureReason;
use persys_model::inventory::{Held, State};
use persys_model::spec::WorkloadType;
use persys_node::agent::{Agent, Collected};
use persys_node::input::{Input, Observation, Outcome};
use persys_proto::convert::report::word_of;

use crate::history::History;
use crate::host::Load;
use crate::usage::{Sample, Usages};

/// What can be asked of an agent.
const METHODS: &[&str] = &[
    "/persys.agent.v1.AgentService/ApplyWorkload",
    "/persys.agent.v1.AgentService/DeleteWorkload",
    "/persys.agent.v1.AgentService/GetWorkloadStatus",
    "/persys.agent.v1.AgentService/ListWorkloads",
    "/persys.agent.v1.AgentService/HealthCheck",
    "/persys.agent.v1.AgentService/ListActions",
    "/persys.compute.v1.Inside/Inspect",
    "/persys.compute.v1.Inside/Logs",
    "/persys.compute.v1.Inside/Exec",
    "/persys.compute.v1.Inside/Console",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/Watch",
];
const STATES: [&str; 9] = [
    "Pending",
    "Running",
    "Paused",
    "NotResponding",
    "Restarting",
    "Stopped",
    "Completed",
    "Failed",
    "Unknown",
];
const KINDS: [&str; 4] = ["container", "compose", "vm", "unknown"];
const TASKS: [&str; 2] = ["apply_workload", "delete_workload"];
const STATUSES: [&str; 2] = ["completed", "failed"];
/// What a failure is called where the runtime did not say whether it was one.
const NO_ANSWER: &str = "NO_ANSWER";
/// What nobody ordered is, as far as anybody knows, a workload.
const ORPHAN: &str = "workload";

/// The agent, as it is when somebody looks.
#[derive(Debug)]
pub(crate) struct Present {
    counts: BTreeMap<(&'static str, &'static str), u64>,
    orphans: u64,
    failed: u64,
    collected: Collected,
    open: usize,
    flags: [(&'static str, bool); 3],
}

impl Present {
    pub(crate) fn of(agent: &Agent, history: &History, flags: [(&'static str, bool); 3]) -> Self {
        let held = agent.inventory().held;
        let mut counts: BTreeMap<_, u64> = BTreeMap::new();
        for Held { report, spec, .. } in &held {
            let kind = spec.as_ref().map_or("unknown", |spec| spec.workload_type().word());
            *counts.entry((word_of(&report.state), kind)).or_default() += 1;
        }
        let number = |is: &dyn Fn(&Held) -> bool| {
            u64::try_from(held.iter().filter(|held| is(held)).count()).unwrap_or(u64::MAX)
        };
        Self {
            counts,
            orphans: number(&|held| held.spec.is_none()),
            failed: number(&|held| matches!(held.report.state, State::Failed(_))),
            collected: agent.collected(),
            open: history.open(),
            flags,
        }
    }
}

/// Everything that is counted in this process.
#[derive(Debug)]
pub(crate) struct Metrics {
    page: Page,
    pub(crate) rpcs: Arc<Rpcs>,
    work: Work,
    ledger: Counters<1>,
    ledger_took: Histogram,
    told: Counters<2>,
    told_took: Histograms<1>,
    shown: Shown,
    certificate: Arc<Certificate>,
    usages: Arc<OnceLock<Arc<Usages>>>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut families = Families::new("persys_agent");
        let all = &mut families;
        let rpcs = Arc::new(Rpcs::served(all));
        let work = Work::new(all);
        let ledger = all.counters(
            "ledger_writes_total",
            "Writes to what the agent must not forget",
            ["outcome"],
        );
        let told = all.counters(
            "scheduler_rpc_requests_total",
            "Calls to schedulers, and whether one that leads answered",
            ["rpc", "outcome"],
        );
        let outcomes = ["ok", "failed"];
        let both = |rpc| outcomes.map(|outcome| [rpc, outcome]);
        let (rpc, help) = (["RegisterNode", "Heartbeat"], "How long calls to schedulers took");
        let told_took = all.histograms("scheduler_rpc_duration_seconds", help, ["rpc"], CALLS);
        let ledger_took = all.histogram(
            "ledger_write_duration_seconds",
            "How long it took until what the agent must not forget was on disk",
            CALLS,
        );
        let usages: Arc<OnceLock<Arc<Usages>>> = Arc::default();
        per_workload(all, &usages);
        let shown = Shown::new(all);
        let certificate = Arc::new(Certificate::new(all));
        all.process(env!("CARGO_PKG_VERSION"));
        Self {
            rpcs,
            work,
            ledger: ledger.preset(outcomes.map(|outcome| [outcome])),
            ledger_took,
            told: told.preset(rpc.into_iter().flat_map(both)),
            told_took: told_took.preset(rpc.map(|rpc| [rpc])),
            shown,
            certificate,
            usages,
            page: families.page(),
        }
    }
}

/// All families there are, for people.
#[must_use]
pub fn families() -> Vec<Described> {
    Metrics::default().page.described().to_vec()
}

impl Metrics {
    /// Counts and times what a service is asked.
    pub(crate) fn timed<S>(&self, service: S) -> Timed<S> {
        Timed::new(service, &self.rpcs, METHODS)
    }

    /// Where events of connections go: into the log, and counted.
    pub(crate) fn report(&self, log: Report) -> Report {
        let certificate = Arc::clone(&self.certificate);
        Arc::new(move |event| {
            certificate.event(event.name());
            log(event);
        })
    }

    /// Shows what workloads use, and the certificate, from now on.
    pub(crate) fn shows(&self, usages: &Arc<Usages>, credentials: Option<&Credentials>) {
        self.usages.get_or_init(|| Arc::clone(usages));
        let Some(credentials) = credentials.cloned() else { return };
        self.certificate.follow(move || Validity {
            not_after: credentials.current().certificate().not_after,
            troubled: credentials.trouble(SystemTime::now()).is_some(),
        });
    }

    /// A verb ended; `done` says how.
    pub(crate) fn ran(&self, operation: &'static str, done: &Input, took: Duration) {
        self.work.ran(operation, done, took);
    }

    /// Programs and guests ended that should not have, for these reasons.
    pub(crate) fn ended(&self, ends: &[FailureReason]) {
        for reason in ends {
            self.work.errors.inc([reason.code()]);
            self.work.ends.inc([reason.code()]);
        }
    }

    /// The runtimes were asked what there is.
    pub(crate) fn observed(&self, seen: &Observation, took: Duration) {
        let outcome = match seen {
            Observation::Complete(_) => "completed",
            Observation::Partial { .. } | Observation::Unknown => "failed",
        };
        self.work.operations.took(["observe", outcome], took);
        self.work.collected.observe(took.as_secs_f64());
    }

    /// All that should be was compared with all that is.
    pub(crate) fn reconciled(&self, took: Duration) {
        self.work.reconciles.inc();
        self.work.reconcile.observe(took.as_secs_f64());
    }

    /// The ledger was written, or not.
    pub(crate) fn wrote(&self, went_well: bool, took: Duration) {
        self.ledger.inc([if went_well { "ok" } else { "failed" }]);
        self.ledger_took.observe(took.as_secs_f64());
    }

    /// A scheduler was called.
    pub(crate) fn told(&self, rpc: &'static str, went_well: bool, took: Duration) {
        self.told.inc([rpc, if went_well { "ok" } else { "failed" }]);
        self.told_took.took([rpc], took);
    }

    /// Everything, in the language a scraper prefers.
    pub(crate) fn answer(
        &self,
        present: &Present,
        runtimes: &[(WorkloadType, bool)],
        load: Load,
        accept: Option<&str>,
    ) -> Answer {
        self.shown.show(present, runtimes, load);
        self.page.answer(accept)
    }
}

/// What is done about workloads.
#[derive(Debug)]
struct Work {
    created: Counter,
    deleted: Counter,
    failed: Counter,
    apply: Histogram,
    delete: Histogram,
    operations: Histograms<2>,
    executions: Counters<2>,
    failures: Counters<1>,
    latency: Histograms<2>,
    errors: Counters<1>,
    ends: Counters<1>,
    reconciles: Counter,
    reconcile: Histogram,
    collected: Histogram,
}

impl Work {
    fn new(all: &mut Families) -> Self {
        let executions = all.counters(
            "task_executions_total",
            "What was done about workloads, by how it went",
            ["type", "status"],
        );
        let failures =
            all.counters("task_failures_total", "What could not be done about workloads", ["type"]);
        let latency = all.histograms(
            "task_latency_seconds",
            "How long it took to do something about a workload",
            ["type", "status"],
            WORK,
        );
        let errors = all.counters(
            "errors_total",
            "Failures of what was done, and ends of programs and guests that were started again or given up, by reason; NO_ANSWER where the runtime did not say",
            ["error_code"],
        );
        let ends = all.counters(
            "workload_ends_total",
            "Programs and guests that ended and were started again or given up, by reason",
            ["reason"],
        );
        let both = |task| STATUSES.map(|status| [task, status]);
        let codes = FailureReason::ALL.map(FailureReason::code).into_iter().chain([NO_ANSWER]);
        Self {
            created: all.counter("workload_created_total", "Workloads that were started"),
            deleted: all.counter("workload_deleted_total", "Workloads that were removed"),
            failed: all.counter("workload_failed_total", "Starts, stops and removals that failed"),
            apply: all.histogram(
                "workload_apply_duration_seconds",
                "How long starts and stops took, fetching of images included",
                WORK,
            ),
            delete: all.histogram(
                "workload_delete_duration_seconds",
                "How long removals took",
                WORK,
            ),
            operations: all
                .histograms(
                    "runtime_operation_duration_seconds",
                    "How long runtimes took, by what was asked of them",
                    ["operation", "status"],
                    WORK,
                )
                .preset(["start", "stop", "remove", "observe"].map(|one| [one, "completed"])),
            executions: executions.preset(TASKS.into_iter().flat_map(both)),
            failures: failures.preset(TASKS.map(|task| [task])),
            latency: latency.preset(TASKS.into_iter().flat_map(both)),
            errors: errors.preset(codes.map(|code| [code])),
            ends: ends.preset(FailureReason::ALL.map(|reason| [reason.code()])),
            reconciles: all.counter(
                "workload_reconcile_total",
                "How often all that should be was compared with all that is",
            ),
            reconcile: all.histogram(
                "workload_reconcile_duration_seconds",
                "How long it took to compare and to begin what follows",
                STEPS,
            ),
            collected: all.histogram(
                "garbage_collection_duration_seconds",
                "How long it took to go through all that exists on the runtimes",
                WORK,
            ),
        }
    }

    fn ran(&self, operation: &'static str, done: &Input, took: Duration) {
        let Input::Done { outcome, .. } = done else { return };
        let removes = operation == "remove";
        let task = if removes { "delete_workload" } else { "apply_workload" };
        let status = match outcome {
            Outcome::Done | Outcome::Started(_) => "completed",
            Outcome::Failed(_) | Outcome::Kept(..) | Outcome::Unknown => "failed",
        };
        if removes { &self.delete } else { &self.apply }.observe(took.as_secs_f64());
        self.operations.took([operation, status], took);
        self.executions.inc([task, status]);
        self.latency.took([task, status], took);
        let code = match outcome {
            Outcome::Done | Outcome::Started(_) => {
                match operation {
                    "start" => drop(self.created.inc()),
                    "remove" => drop(self.deleted.inc()),
                    _ => {}
                }
                return;
            }
            Outcome::Failed(failure) | Outcome::Kept(failure, _) => failure.reason.code(),
            Outcome::Unknown => NO_ANSWER,
        };
        self.failed.inc();
        self.failures.inc([task]);
        self.errors.inc([code]);
    }
}

/// What there is at present.
#[derive(Debug)]
struct Shown {
    workloads: Gauges<2>,
    queue: Gauge,
    looks: Counter,
    orphans: Gauges<1>,
    found: Counter,
    old_failed: Gauge,
    cleared: Counters<1>,
    cleared_before: std::sync::atomic::AtomicU64,
    runtimes: Gauges<1>,
    cpu: Amount,
    memory: Amount,
    disk: Amounts<1>,
    flags: Vec<(&'static str, Gauge)>,
}

impl Shown {
    fn new(all: &mut Families) -> Self {
        let flags = [
            ("scheduler_connected", "1 while a scheduler that leads answers"),
            ("fence_available", "1 while a watchdog stops exclusive work when the agent cannot"),
            ("takes_new_work", "1 while the node takes new work"),
        ];
        let cleared = all.counters(
            "garbage_collection_resources_deleted_total",
            "Leftovers of ordered removals that were cleared away",
            ["resource_type"],
        );
        Self {
            workloads: all.gauges(
                "workload_count",
                "Workloads on this node, by state and type",
                ["state", "type"],
            ),
            queue: all.gauge("task_queue_depth", "What is being done about workloads at present"),
            looks: all.counter(
                "garbage_collection_runs_total",
                "How often all that exists on the runtimes was gone through",
            ),
            orphans: all.gauges(
                "garbage_collection_orphaned_resources_found",
                "What is here and nobody ordered: left alone until somebody decides",
                ["resource_type"],
            ),
            found: all.counter(
                "garbage_collection_orphans_adopted_total",
                "What was found that nobody ordered, since the agent began",
            ),
            old_failed: all.gauge(
                "garbage_collection_old_failed_workloads_found",
                "Workloads that failed and are kept so that somebody can look",
            ),
            cleared: cleared.preset([[ORPHAN]]),
            cleared_before: std::sync::atomic::AtomicU64::new(0),
            runtimes: all.gauges(
                "runtime_health_status",
                "1 while what runs workloads of this type is well",
                ["runtime_type"],
            ),
            cpu: all.amount("system_cpu_utilization_percent", "CPU of the machine in use"),
            memory: all.amount("system_memory_utilization_percent", "Memory of the machine in use"),
            disk: all.amounts(
                "system_disk_utilization_percent",
                "Disk of the machine in use",
                ["mount_point"],
            ),
            flags: flags.into_iter().map(|(name, help)| (name, all.gauge(name, help))).collect(),
        }
    }

    fn show(&self, present: &Present, runtimes: &[(WorkloadType, bool)], load: Load) {
        for state in STATES {
            for kind in KINDS {
                let count = present.counts.get(&(state, kind)).copied().unwrap_or(0);
                self.workloads.set([state, kind], count);
            }
        }
        self.queue.set(i64::try_from(present.open).unwrap_or(i64::MAX));
        let Collected { looks, found, cleared } = present.collected;
        // The core counts them for itself, and begins anew with each life, as a counter may.
        self.looks.inner().store(looks, Ordering::Relaxed);
        self.found.inner().store(found, Ordering::Relaxed);
        let before = self.cleared_before.swap(cleared, Ordering::Relaxed);
        self.cleared.add([ORPHAN], cleared.saturating_sub(before));
        self.orphans.set([ORPHAN], present.orphans);
        self.old_failed.set(i64::try_from(present.failed).unwrap_or(i64::MAX));
        for (kind, well) in runtimes {
            self.runtimes.set([kind.word()], u64::from(*well));
        }
        let percent = |permille: u32| f64::from(permille) / 10.0;
        self.cpu.set(percent(load.cpu_permille));
        self.memory.set(percent(load.memory_permille));
        self.disk.set(["/"], percent(load.disk_permille));
        for (name, gauge) in &self.flags {
            let is = present.flags.iter().any(|(flag, is)| flag == name && *is);
            gauge.set(i64::from(is));
        }
    }
}

/// What each workload uses: one series each, as long as it runs here.
fn per_workload(all: &mut Families, usages: &Arc<OnceLock<Arc<Usages>>>) {
    type Tell = fn(&Sample) -> f64;
    let told: [(&str, &'static str, Tell); 6] = [
        ("workload_cpu_percent", "Hundredths of one core a workload uses", |one| one.cpu_percent),
        ("workload_memory_bytes", "Memory a workload uses", |one| amount(one.reading.memory_bytes)),
        ("workload_disk_read_bytes_total", "What a workload has read", |one| {
            amount(one.reading.disk_read_bytes)
        }),
        ("workload_disk_write_bytes_total", "What a workload has written", |one| {
            amount(one.reading.disk_written_bytes)
        }),
        ("workload_network_rx_bytes_total", "What a workload has received", |one| {
            amount(one.reading.network_in_bytes)
        }),
        ("workload_network_tx_bytes_total", "What a workload has sent", |one| {
            amount(one.reading.network_out_bytes)
        }),
    ];
    for (name, help, tell) in told {
        let usages = Arc::clone(usages);
        all.seen(name, help, ["workload_id", "type"], move || {
            let samples = usages.get().map(|usages| usages.samples()).unwrap_or_default();
            let series = samples.into_iter().map(|(workload, sample)| {
                let kind = sample.kind.map_or("unknown", WorkloadType::word);
                ([workload.to_string(), kind.to_owned()], tell(&sample))
            });
            series.collect()
        });
    }
}

#[expect(clippy::cast_precision_loss, clippy::as_conversions, reason = "amounts to be looked at")]
fn amount(of: u64) -> f64 {
    of as f64
}

mod probes;
#[cfg(test)]
mod tests;
