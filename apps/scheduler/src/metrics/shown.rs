//! How many there are of what at present: counted when somebody looks.

use persys_cluster::world::{Tally, World};
use persys_metrics::{Amounts, Families, Gauge, Gauges};
use persys_model::assignment::{ReasonCode, UpdateState};
use persys_model::drift::DriftKind;
use persys_model::failure::FailureReason;
use persys_model::health::HealthState;
use persys_model::mode::Mode;
use persys_model::node::Condition;
use persys_model::phase::Phase;
use persys_model::time::WallMillis;
use persys_model::workload::Desired;
use persys_store::etcd::Health;

use super::lives::condition_word;
use crate::place::Seen;
use crate::standing::{Role, Standing};

/// Words dashboards expect even where nothing is ever in that state.
const EXPECTED: [&str; 3] = ["deleted", "updating", "unknown"];
const PHASES: [Phase; 12] = [
    Phase::Pending,
    Phase::Starting,
    Phase::Running,
    Phase::Paused,
    Phase::Unresponsive,
    Phase::Restarting,
    Phase::Stopping,
    Phase::Stopped,
    Phase::Completed,
    Phase::Backoff,
    Phase::Failed,
    Phase::Deleting,
];
const DRIFTS: [DriftKind; 4] = [
    DriftKind::OrphanOnAgent,
    DriftKind::StateMismatch,
    DriftKind::RevisionMismatch,
    DriftKind::MissingOnAgent,
];

/// The cluster and this process, as they are when somebody looks.
#[derive(Debug, Clone)]
pub(crate) struct Present {
    /// The cluster, counted; nothing of it in a process that does not lead, so that two of them
    /// never add up to twice the cluster.
    pub(crate) cluster: Option<(Tally, Led)>,
    pub(crate) standing: Standing,
    /// How old the copy is that is read from, where there is one, in milliseconds.
    pub(crate) copy_age: Option<u64>,
    /// Requests that wait for the driver.
    pub(crate) requests: usize,
    pub(crate) now: WallMillis,
}

/// What only the leader knows of its leadership.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Led {
    term: u64,
    brake: bool,
}

impl Led {
    pub(crate) fn of(world: &World) -> Self {
        Self { term: world.term().0, brake: world.brake() }
    }
}

/// The gauges.
#[derive(Debug)]
pub(super) struct Shown {
    nodes: Gauges<1>,
    leases: Gauges<1>,
    busy: Gauge,
    unreachable: Gauge,
    runtimes_down: Gauge,
    workloads: Gauges<1>,
    desired: Gauges<1>,
    updates: Gauges<1>,
    health: Gauges<1>,
    pending: Gauges<1>,
    pending_for: Gauge,
    failed: Gauges<1>,
    drifts: Gauges<1>,
    cpu: Amounts<1>,
    memory: Gauges<1>,
    disk: Gauges<1>,
    left_behind: Gauge,
    orphans: Gauge,
    orders: Gauge,
    dirty: Gauge,
    waiting: Gauge,
    volumes: Gauge,
    shadow: Gauge,
    mode: Gauges<1>,
    mode_since: Gauge,
    leads: Gauge,
    leader_known: Gauge,
    term: Gauge,
    brake: Gauge,
    requests: Gauge,
    copy_age: Gauge,
}

fn updates(all: &mut Families) -> Gauges<1> {
    let help = "Workloads whose update is under way or failed, or that were rolled back, by state";
    all.gauges("workloads_update_state", help, ["state"])
}

fn health(all: &mut Families) -> Gauges<1> {
    let help = "Running workloads with a health check, by its verdict";
    all.gauges("workloads_health", help, ["health"])
}

impl Shown {
    #[expect(clippy::too_many_lines, reason = "one entry for each family")]
    pub(super) fn new(all: &mut Families, etcd: &Seen) -> Self {
        etcd_gauges(all, etcd);
        Self {
            nodes: all.gauges("nodes_status", "Nodes, by status", ["status"]),
            leases: all.gauges(
                "node_leases",
                "Leases of nodes: ready is kept, notready ran out, lost ran out long ago",
                ["state"],
            ),
            busy: all.gauge("nodes_busy", "Nodes that take nothing new because they are busy"),
            unreachable: all.gauge(
                "nodes_unreachable",
                "Ready nodes to which orders cannot be delivered",
            ),
            runtimes_down: all.gauge(
                "nodes_runtime_down",
                "Ready nodes with a runtime that does not answer",
            ),
            workloads: all.gauges("workloads_status", "Workloads, by status", ["status"]),
            desired: all.gauges(
                "workloads_desired_state",
                "Workloads, by what should become of them",
                ["desired_state"],
            ),
            updates: updates(all),
            health: health(all),
            pending: all.gauges("workloads_pending", "Workloads that wait, by why", ["reason"]),
            pending_for: all.gauge(
                "workloads_pending_oldest_seconds",
                "Longest time a workload has been pending or starting, for the same reason; 0 when none is",
            ),
            failed: all.gauges(
                "workloads_failed",
                "Workloads that failed, whether they are tried again or not, by why",
                ["reason"],
            ),
            drifts: all.gauges("drifts_open", "Differences between record and nodes", ["kind"]),
            cpu: all.amounts("cpu_cores", "CPU of nodes that are ready", ["state"]),
            memory: all.gauges("memory_bytes", "Memory of nodes that are ready", ["state"]),
            disk: all.gauges("disk_bytes", "Disk of nodes that are ready", ["state"]),
            left_behind: all
                .gauge("copies_left_behind", "Copies that were left and are not known to be gone"),
            orphans: all.gauge("orphans", "Workloads on nodes that nobody knows"),
            orders: all.gauge("orders_under_way", "Orders that agents have not carried out yet"),
            dirty: all.gauge(
                "dirty_workloads",
                "Workloads still to be looked at; 0 between steps unless the cluster is frozen",
            ),
            waiting: all.gauge("waiting_workloads", "Workloads that want room on a node"),
            volumes: all.gauge("volumes", "Managed volumes"),
            shadow: all.gauge(
                "workloads_shadow",
                "Workloads in shadow: placed, ordered and reported, without ports and names",
            ),
            mode: all.gauges("mode", "1 for the mode this process is in", ["mode"]),
            mode_since: all.gauge(
                "mode_changed_timestamp_seconds",
                "Since when it is in that mode, in seconds since 1970",
            ),
            leads: all.gauge("leader", "1 while this process leads"),
            leader_known: all.gauge("leader_known", "1 while this process leads or knows who does"),
            term: all.gauge("leader_term", "The number of the leadership; 0 while another leads"),
            brake: all.gauge(
                "mass_failure_brake",
                "1 while so many nodes are silent that nothing is moved until somebody looks",
            ),
            requests: all.gauge("requests_waiting", "Requests that wait for the core"),
            copy_age: all.gauge(
                "copy_age_seconds",
                "How old the copy is that a process reads from which does not lead",
            ),
        }
    }

    pub(super) fn show(&self, present: &Present) {
        let (tally, led) = match &present.cluster {
            Some((tally, led)) => (tally.clone(), Some(*led)),
            None => (Tally::default(), None),
        };
        self.nodes(&tally);
        self.workloads(&tally, present.now);
        self.amounts(&tally);
        for (gauge, amount) in [
            (&self.left_behind, tally.left_behind),
            (&self.orphans, tally.orphans),
            (&self.orders, tally.orders),
            (&self.dirty, tally.dirty),
            (&self.waiting, tally.waiting),
            (&self.volumes, tally.volumes),
            (&self.shadow, tally.shadow),
            (&self.busy, tally.busy),
            (&self.unreachable, tally.unreachable),
            (&self.runtimes_down, tally.runtimes_down),
            (&self.term, led.map_or(0, |led| led.term)),
            (&self.brake, u64::from(led.is_some_and(|led| led.brake))),
            (&self.requests, u64::try_from(present.requests).unwrap_or(u64::MAX)),
            (&self.copy_age, present.copy_age.unwrap_or(0) / 1000),
        ] {
            set(gauge, amount);
        }
        self.standing(&present.standing);
    }

    fn nodes(&self, tally: &Tally) {
        let of = |condition| tally.nodes.get(&condition).copied().unwrap_or(0);
        for condition in [Condition::Ready, Condition::NotReady, Condition::Lost] {
            self.leases.set([condition_word(condition)], of(condition));
        }
        let silent = of(Condition::NotReady).saturating_add(of(Condition::Lost));
        self.nodes.set(["ready"], of(Condition::Ready).saturating_sub(tally.draining));
        self.nodes.set(["draining"], tally.draining);
        self.nodes.set(["notready"], silent);
        for word in ["active", "unknown"] {
            self.nodes.set([word], 0);
        }
    }

    fn workloads(&self, tally: &Tally, now: WallMillis) {
        for word in EXPECTED {
            self.workloads.set([word], 0);
        }
        for phase in PHASES {
            let count = tally.phases.get(&phase).copied().unwrap_or(0);
            self.workloads.set([phase_word(phase)], count);
        }
        self.desired.set(["unknown"], 0);
        for desired in [Desired::Running, Desired::Paused, Desired::Stopped, Desired::Deleted] {
            let count = tally.desired.get(&desired).copied().unwrap_or(0);
            self.desired.set([desired_word(desired)], count);
        }
        for state in UpdateState::ALL {
            self.updates.set([state.word()], tally.updates.get(&state).copied().unwrap_or(0));
        }
        for state in HealthState::ALL {
            self.health.set([state.word()], tally.health.get(&state).copied().unwrap_or(0));
        }
        for code in ReasonCode::ALL {
            self.pending.set([code.word()], tally.pending.get(&code).copied().unwrap_or(0));
        }
        let waited = tally.pending_since.map_or(0, |since| now.0.saturating_sub(since.0));
        set(&self.pending_for, waited / 1000);
        for reason in FailureReason::ALL {
            self.failed.set([reason.code()], tally.failed.get(&reason).copied().unwrap_or(0));
        }
        for kind in DRIFTS {
            self.drifts.set([kind.word()], tally.drifts.get(&kind).copied().unwrap_or(0));
        }
    }

    fn amounts(&self, tally: &Tally) {
        let amounts =
            [("capacity", tally.capacity), ("reserved", tally.reserved), ("used", tally.used)];
        for (state, amount) in amounts {
            let millicores = u32::try_from(amount.cpu_millicores).unwrap_or(u32::MAX);
            self.cpu.set([state], f64::from(millicores) / 1000.0);
            self.memory.set([state], amount.memory_mib.saturating_mul(1 << 20));
        }
        let gib = |amount: u64| amount.saturating_mul(1 << 30);
        self.disk.set(["capacity"], gib(tally.disk_gib));
        self.disk.set(["reserved"], gib(tally.disk_gib.saturating_sub(tally.free_disk_gib)));
    }

    fn standing(&self, standing: &Standing) {
        let modes = [Mode::Normal, Mode::Degraded, Mode::Recovery].map(Mode::word);
        for mode in modes.into_iter().chain(["standby"]) {
            self.mode.set([mode], u64::from(standing.word() == mode));
        }
        set(&self.mode_since, standing.since.0 / 1000);
        let leads = standing.role() == Role::Leader;
        set(&self.leads, u64::from(leads));
        set(&self.leader_known, u64::from(leads || standing.leader.is_some()));
    }
}

fn set(gauge: &Gauge, amount: u64) {
    gauge.set(i64::try_from(amount).unwrap_or(i64::MAX));
}

/// How the etcd is, where there is one.
fn etcd_gauges(all: &mut Families, etcd: &Seen) {
    type Tell = fn(&Health) -> Option<f64>;
    let told: [(&str, &'static str, Tell); 7] = [
        ("etcd_up", "1 while etcd answers", |health| Some(is(health.reachable))),
        ("etcd_out_of_space", "1 while etcd takes nothing because it is full", |health| {
            Some(is(health.is_full()))
        }),
        ("etcd_complaints", "What etcd complains about, counted", |health| {
            Some(amount(u64::try_from(health.complaints.len()).unwrap_or(u64::MAX)))
        }),
        ("etcd_size_bytes", "The size of etcd's file", |health| Some(amount(health.size_bytes))),
        ("etcd_used_bytes", "How much of that is in use", |health| Some(amount(health.used_bytes))),
        ("etcd_revision", "The revision of etcd", |health| {
            Some(amount(u64::try_from(health.revision).unwrap_or(0)))
        }),
        ("etcd_quota_bytes", "How much etcd may store, if that is known", |health| {
            health.quota_bytes.map(amount)
        }),
    ];
    for (name, help, tell) in told {
        let etcd = etcd.clone();
        all.seen(name, help, [], move || {
            let told = etcd.as_ref().and_then(|health| tell(&health.borrow()));
            told.map(|amount| ([], amount)).into_iter().collect()
        });
    }
}

fn is(so: bool) -> f64 {
    f64::from(u8::from(so))
}

#[expect(clippy::cast_precision_loss, clippy::as_conversions, reason = "amounts to be looked at")]
fn amount(of: u64) -> f64 {
    of as f64
}

fn phase_word(phase: Phase) -> &'static str {
    match phase {
        Phase::Pending => "pending",
        Phase::Starting => "scheduled",
        Phase::Running => "running",
        Phase::Paused => "paused",
        Phase::Unresponsive => "notresponding",
        Phase::Restarting => "restarting",
        Phase::Stopping => "stopping",
        Phase::Stopped => "stopped",
        Phase::Completed => "completed",
        Phase::Backoff => "retrypending",
        Phase::Failed => "failed",
        Phase::Deleting => "deleting",
    }
}

fn desired_word(desired: Desired) -> &'static str {
    match desired {
        Desired::Running => "running",
        Desired::Paused => "paused",
        Desired::Stopped => "stopped",
        Desired::Deleted => "deleted",
    }
}
