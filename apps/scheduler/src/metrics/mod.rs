//! What is counted, as Prometheus reads it.
//!
//! | question | file |
//! |---|---|
//! | what happens to workloads and nodes | `lives.rs` |
//! | how many there are of what at present | `shown.rs` |
//! | what goes into the store | `stored.rs` |
//!
//! All labels come from closed sets, and nothing is told apart by workload or node: the page of a large
//! cluster is as long as that of a small one.

mod lives;
mod shown;
mod stored;
mod vault;

use std::sync::Arc;
use std::time::{Duration, SystemTime};

use persys_cluster::input::Input;
use persys_cluster::replica::ReplicaInput;
use persys_cluster::world::World;
use persys_identity::{Credentials, Report};
use persys_metrics::{
    Answer, Certificate, Counter, Counters, Described, Families, Histogram, Histograms, Named,
    Page, Rpcs, STEPS, Validity,
};
use persys_model::command::{Answer as Obeyed, Order};
use persys_model::time::WallMillis;

use crate::place::Seen;
use crate::standing::Standing;

pub(crate) use lives::Lives;
use shown::Shown;
pub(crate) use shown::{Led, Present};
pub(crate) use stored::Batch;
use stored::Stored;
pub(crate) use vault::VaultReads;

/// What is called of agents.
const CALLED: Named = Named {
    count: ("agent_rpc_requests_total", "Calls to agents that came back or were given up"),
    took: ("agent_rpc_duration_seconds", "How long calls to agents took"),
    method: "rpc",
};

/// Everything that is counted in this process.
#[derive(Debug)]
pub(crate) struct Metrics {
    page: Page,
    pub(crate) served: Rpcs,
    pub(crate) called: Rpcs,
    pub(crate) stored: Stored,
    pub(crate) lives: Lives,
    pub(crate) vault: Arc<VaultReads>,
    reconciled: Counters<2>,
    cycles: Counters<1>,
    cycle: Histogram,
    steps: Histograms<1>,
    checks: Counter,
    violations: Counters<1>,
    certificate: Arc<Certificate>,
    shown: Shown,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new(&None)
    }
}

/// All families there are, for people.
#[must_use]
pub fn families() -> Vec<Described> {
    Metrics::default().page.described().to_vec()
}

/// The page of a leader of this cluster that has just begun, for proofs.
#[must_use]
pub fn page_of(world: &World) -> String {
    let now = WallMillis(0);
    let cluster = Some((world.tally(), Led::of(world)));
    let present =
        Present { cluster, standing: Standing::new(now), copy_age: None, requests: 0, now };
    Metrics::default().answer(&present, None).text
}

impl Metrics {
    /// Nothing counted yet. `etcd` tells how the etcd is, if there is one.
    pub(crate) fn new(etcd: &Seen) -> Self {
        let mut families = Families::new("persys_scheduler");
        let all = &mut families;
        let served = Rpcs::served(all);
        let called = Rpcs::new(all, &CALLED);
        let reconciled = all.counters(
            "reconciliation_results_total",
            "Orders to agents, by what they order and whether the agent took them",
            ["action", "success"],
        );
        let actions = ["apply", "delete"];
        let outcomes = ["true", "false"];
        let both = |action| outcomes.map(|outcome| [action, outcome]);
        let cycles = all.counters(
            "reconciliation_cycles_total",
            "How often it was looked what is due; skipped by a process that does not lead",
            ["result"],
        );
        let cycle = all.histogram(
            "reconciliation_cycle_duration_seconds",
            "How long a look at what is due took",
            STEPS,
        );
        let steps = all.histograms(
            "step_duration_seconds",
            "How long the core took to decide, by what happened",
            ["input"],
            STEPS,
        );
        let checks = all.counter(
            "invariant_checks_total",
            "How often the leader checked that what must always hold does",
        );
        let violations = all.counters(
            "invariant_violations_total",
            "What must always hold and did not, by what was checked; anything but 0 is a bug",
            ["name"],
        );
        let stored = Stored::new(all);
        let lives = Lives::new(all);
        let vault = Arc::new(VaultReads::new(all));
        let shown = Shown::new(all, etcd);
        let certificate = Arc::new(Certificate::new(all));
        all.process(env!("CARGO_PKG_VERSION"));
        Self {
            served,
            called,
            stored,
            lives,
            vault,
            reconciled: reconciled.preset(actions.into_iter().flat_map(both)),
            cycles: cycles.preset([["success"], ["skipped"]]),
            cycle,
            steps,
            checks,
            violations: violations.preset(World::checks().map(|name| [name])),
            certificate,
            shown,
            page: families.page(),
        }
    }

    /// An order was taken by its agent, or not.
    pub(crate) fn ordered(&self, action: &'static str, answer: Option<&Obeyed>) {
        let taken = match answer {
            Some(Obeyed::Accepted | Obeyed::Removed { .. }) => "true",
            Some(Obeyed::Refused(_)) | None => "false",
        };
        self.reconciled.inc([action, taken]);
    }

    /// It was looked what is due.
    pub(crate) fn looked(&self, leads: bool, took: Duration) {
        self.cycles.inc([if leads { "success" } else { "skipped" }]);
        self.cycle.observe(took.as_secs_f64());
    }

    /// The core decided about something.
    pub(crate) fn stepped(&self, input: &'static str, took: Duration) {
        self.steps.took([input], took);
    }

    /// The leader checked itself.
    pub(crate) fn checked(&self, violations: &[(&'static str, String)]) {
        self.checks.inc();
        for (name, what) in violations {
            tracing::error!(name, what, "something that must always hold does not; this is a bug");
            self.violations.inc([name]);
        }
    }

    /// Shows this certificate from now on.
    pub(crate) fn certified(&self, credentials: Option<Credentials>) -> Option<Credentials> {
        let shown = credentials.clone()?;
        self.certificate.follow(move || Validity {
            not_after: shown.current().certificate().not_after,
            troubled: shown.trouble(SystemTime::now()).is_some(),
        });
        credentials
    }

    /// Where events of connections go: into the log, and counted.
    pub(crate) fn report(&self, log: Report) -> Report {
        let certificate = Arc::clone(&self.certificate);
        Arc::new(move |event| {
            certificate.event(event.name());
            log(event);
        })
    }

    /// Everything, in the language a scraper prefers.
    pub(crate) fn answer(&self, present: &Present, accept: Option<&str>) -> Answer {
        self.shown.show(present);
        self.page.answer(accept)
    }
}

/// The word for what is ordered.
pub(crate) fn action(order: &Order) -> &'static str {
    match order {
        Order::Apply(_) => "apply",
        Order::Remove { .. } => "delete",
    }
}

/// The word for what happened.
pub(crate) fn input_word(input: &ReplicaInput) -> &'static str {
    match input {
        ReplicaInput::Tick => "tick",
        ReplicaInput::Store(..) => "store",
        ReplicaInput::LeaderSilent => "leader_silent",
        ReplicaInput::Cluster(input) => match **input {
            Input::Register(..) => "register",
            Input::Beat(..) => "beat",
            Input::Answered { .. } | Input::Undelivered(_) | Input::Actions { .. } => "answer",
            Input::Probed { .. } => "probe",
            Input::Ask(..) => "request",
            Input::Committed(_) | Input::StoreLost { .. } | Input::Loaded(_) => "store",
            Input::Tick => "tick",
        },
    }
}

#[cfg(test)]
mod tests;
