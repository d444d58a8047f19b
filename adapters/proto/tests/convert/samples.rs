//! Values from a seed, for round trips and as a start for mutations.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_model::command::{Answer, Apply, Command, Order, Refusal};
use persys_model::failure::{Failure, FailureReason, FailureStage};
use persys_model::fetched::Fetched;
use persys_model::health::Health;
use persys_model::id::{DriverName, NodeId, PoolName, RevisionId, SecretName, WorkloadId};
use persys_model::inventory::{Held, Inventory, Report, State, Tombstone};
use persys_model::link::{Beat, Registration, Usage};
use persys_model::node::{NodeFacts, Pool};
use persys_model::resources::Compute;
use persys_model::secret::{Redacted, SecretValue, SecretValues};
use persys_model::spec::check::check;
use persys_model::spec::{Spec, WorkloadType};
use persys_model::store_mark::{Marked, StoreMark};
use persys_model::task::{Task, TaskAction, TaskStatus, WorkloadTask};
use persys_model::time::WallMillis;
use persys_model::token::{CommitSeq, Epoch, Session, Term};

use crate::generator::draft;
use crate::random::Random;

pub(crate) fn report(r: &mut Random, nth: usize) -> Report {
    let reasons = FailureReason::ALL;
    let failure = |r: &mut Random| Failure::new(r.pick(&reasons), "why\nit failed");
    let ended = |r: &mut Random| {
        let stage = r.pick(&[FailureStage::Start, FailureStage::Run]);
        failure(r).in_stage(stage)
    };
    let state = match r.below(7) {
        0 => State::Pending,
        1 => State::Running,
        2 => State::Restarting(ended(r)),
        3 => State::Stopped,
        4 => State::Completed,
        5 => State::Failed(ended(r)),
        _ => State::Unknown,
    };
    Report {
        workload: WorkloadId::new(&format!("w{nth}")).unwrap(),
        epoch: Epoch(r.next() | 1),
        state,
        restarts: r.pick(&[0, 7, u32::MAX]),
        confirmed: r.one_in(2),
        progress: r.next(),
        fetched: r.one_in(3).then(|| Fetched {
            parts: 1,
            of_parts: 3,
            bytes: r.next(),
            of_bytes: 9,
        }),
        trouble: r.one_in(2).then(|| failure(r)),
        runs: r.one_in(2).then(|| RevisionId::fixed("r-before")),
        health: match r.below(4) {
            0 => None,
            1 => Some(Health::starting()),
            2 => Some(Health::healthy()),
            _ => Some(Health::unhealthy("GET /: status 503")),
        },
    }
}

pub(crate) fn spec(r: &mut Random) -> Arc<Spec> {
    loop {
        if let Ok(spec) = check(&draft(r)) {
            return Arc::new(spec);
        }
    }
}

pub(crate) fn inventory(r: &mut Random) -> Inventory {
    Inventory {
        held: r.list(3, |r, nth| Held {
            report: report(r, nth),
            revision: RevisionId::fixed("sha256:ab/cd@1"),
            run: true,
            pause: r.one_in(2),
            spec: if r.one_in(4) { None } else { Some(spec(r)) },
        }),
        tombstones: tombstones(r),
        mark: r.one_in(2).then(|| mark(r)),
    }
}

pub(crate) fn mark(r: &mut Random) -> StoreMark {
    let (incarnation, seq) = (r.next(), CommitSeq(r.next()));
    Marked { incarnation, seq, term: Term(r.next()), epoch: Epoch(r.next()) }.seal("key", "cluster")
}

pub(crate) fn tombstones(r: &mut Random) -> Vec<Tombstone> {
    r.list(3, |r, nth| Tombstone {
        workload: WorkloadId::new(&format!("t{nth}")).unwrap(),
        epoch: Epoch(r.next() | 1),
        purged: r.one_in(2),
    })
}

pub(crate) fn registration(r: &mut Random) -> Registration {
    let pools = r.list(2, |r, nth| Pool {
        name: PoolName::new(&format!("p{nth}")).unwrap(),
        total_gib: r.pick(&[0, 1, 1 << 30]),
        shares: (nth > 0 && r.one_in(2)).then(|| PoolName::fixed("p0")),
    });
    let facts = NodeFacts {
        id: NodeId::fixed("n1"),
        host: Arc::from("machine-7"),
        incarnation: Arc::from("life-3"),
        endpoint: Arc::from(r.pick(&["10.0.0.7:50051", "[::1]:1", "n1.lan:65535"])),
        capacity: Compute::new(r.pick(&[1, 8_000]), r.pick(&[1, 32_000])),
        pools,
        // A node that can run nothing at all says why; one that does not is refused.
        types: WorkloadType::ALL
            .into_iter()
            .filter(|kind| *kind == WorkloadType::Container || r.one_in(2))
            .collect(),
        drivers: [DriverName::fixed("local"), DriverName::fixed("ceph-rbd")].into(),
        labels: [(Arc::from("zone"), Arc::from("é b"))].into(),
        fence: r.one_in(2),
        pauses: r.one_in(2),
        checks_health: r.one_in(2),
        signals: r.one_in(2),
        addresses: r.one_in(2),
        missing: WorkloadType::ALL
            .into_iter()
            .filter(|_| r.one_in(2))
            .map(|kind| (kind, Arc::from("no runtime; install one")))
            .collect(),
    };
    Registration { facts, inventory: inventory(r), term: Term(r.pick(&[0, 5])) }
}

fn task(r: &mut Random, _nth: usize) -> WorkloadTask {
    let status = r.pick(&TaskStatus::ALL);
    let time = |r: &mut Random| r.one_in(2).then_some(WallMillis(1_700_000_000_123));
    let task = Task {
        node: NodeId::fixed("n1"),
        id: Arc::from("task-1700000000000-7"),
        action: r.pick(&TaskAction::ALL),
        status,
        error: (status == TaskStatus::Failed).then(|| Arc::from("no such image")),
        created: time(r),
        started: time(r),
        ended: time(r),
    };
    WorkloadTask { workload: WorkloadId::fixed("web"), epoch: Epoch(7), task: Arc::new(task) }
}

pub(crate) fn beat(r: &mut Random) -> Beat {
    Beat {
        node: NodeId::fixed("n1"),
        session: Session(r.next() | 1),
        seq: r.next(),
        reports: r.list(3, report),
        removed: tombstones(r),
        inventory: if r.one_in(2) { Some(inventory(r)) } else { None },
        tasks: r.list(2, task),
        usage: Usage {
            allocated: Compute::new(r.pick(&[0, 700]), r.pick(&[0, 256])),
            allocated_disk_gib: r.pick(&[0, 40]),
            used: Compute::new(r.pick(&[0, 900]), r.pick(&[0, 512])),
            used_disk_gib: r.pick(&[0, 7]),
        },
        limits: r
            .list(2, |r, nth| (PoolName::new(&format!("p{nth}")).unwrap(), r.pick(&[0, 54])))
            .into_iter()
            .collect(),
        busy: r.one_in(2).then(|| Arc::from("90 % of its CPU")),
        down: if r.one_in(2) {
            BTreeMap::from([(WorkloadType::Vm, Arc::from("libvirt does not answer"))])
        } else {
            BTreeMap::new()
        },
        takes_removals: r.one_in(2),
    }
}

fn secrets(r: &mut Random) -> Arc<SecretValues> {
    let mut values = SecretValues::new();
    if r.one_in(2) {
        let value = SecretValue { version: r.next(), value: Redacted::new(b"\x00hunter2\xff") };
        values.insert(SecretName::fixed("db"), Ok(value));
        values.insert(SecretName::fixed("gone"), Err(Arc::from("it is not set")));
    }
    Arc::new(values)
}

pub(crate) fn command(r: &mut Random) -> Command {
    let order = if r.one_in(3) {
        Order::Remove { purge: r.one_in(2) }
    } else {
        let revision = RevisionId::fixed("r7");
        let run = r.one_in(2);
        let pause = run && r.one_in(2);
        Order::Apply(Apply { revision, run, pause, spec: spec(r), secrets: secrets(r) })
    };
    Command {
        term: Term(r.next() | 1),
        session: Session(r.next() | 1),
        epoch: Epoch(r.next() | 1),
        workload: WorkloadId::fixed("web"),
        order,
    }
}

/// Every kind of answer.
pub(crate) fn answers() -> Vec<Answer> {
    vec![
        Answer::Accepted,
        Answer::Removed { epoch: Epoch(9) },
        Answer::Refused(Refusal::OldTerm { seen: Term(4) }),
        Answer::Refused(Refusal::OtherSession { present: Some(Session(3)) }),
        Answer::Refused(Refusal::OtherSession { present: None }),
        Answer::Refused(Refusal::OldEpoch { held: Epoch(8) }),
        Answer::Refused(Refusal::Buried { tombstone: Epoch(8) }),
        Answer::Refused(Refusal::Holding),
        Answer::Refused(Refusal::Draining),
    ]
}
