//! Any record that could be written.

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_cluster::record::Head;
use persys_model::assignment::{
    Assignment, FormerCopy, Grave, Place, Reason, ReasonCode, Update, UpdateFailure, Version,
};
use persys_model::audit::{AuditHash, AuditHead};
use persys_model::drift::{Drift, DriftKind};
use persys_model::event::{Author, Event, Happening, NodeChange, NodePart};
use persys_model::failure::{Failure, FailureReason, FailureStage};
use persys_model::health::{Health, HealthRecord, HealthState};
use persys_model::id::{
    DriverName, NamespaceName, NodeId, PoolName, SecretName, VolumeName, WorkloadId,
};
use persys_model::labels::{Taint, TaintEffect};
use persys_model::lease::{Lease, LeaseState};
use persys_model::mode::Mode;
use persys_model::node::{Condition, Node, NodeFacts, Pool};
use persys_model::phase::Phase;
use persys_model::resources::{Compute, Disk, Resources};
use persys_model::retry::Retry;
use persys_model::spec::volume::{AccessMode, VolumeDriver};
use persys_model::spec::{HostPort, Protocol, WorkloadType};
use persys_model::task::{Task, TaskAction, TaskStatus};
use persys_model::time::WallMillis;
use persys_model::token::{CommitSeq, Epoch, EventSeq, Generation, Session, Term};
use persys_model::volume::{Attachment, AttachmentPhase, Volume, VolumeKey, VolumePhase};
use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::draw_spec;
use crate::record::Leader;

/// Any text at all, quotes and control characters included.
pub(super) fn text() -> impl Strategy<Value = Arc<str>> {
    any::<String>().prop_map(Arc::from)
}

pub(super) fn texts() -> impl Strategy<Value = BTreeMap<Arc<str>, Arc<str>>> {
    btree_map(text(), text(), 0..4)
}

pub(super) fn name() -> impl Strategy<Value = String> {
    "[a-z0-9]([a-z0-9_-]{0,20}[a-z0-9])?"
}

pub(super) fn node_id() -> impl Strategy<Value = NodeId> {
    name().prop_map(|text| NodeId::new(&text).unwrap())
}

pub(super) fn workload_id() -> impl Strategy<Value = WorkloadId> {
    name().prop_map(|text| WorkloadId::new(&text).unwrap())
}

pub(super) fn pool() -> impl Strategy<Value = PoolName> {
    name().prop_map(|text| PoolName::new(&text).unwrap())
}

pub(super) fn resources() -> impl Strategy<Value = Resources> {
    let disk = vec((of(pool()), any::<u64>()), 0..3);
    (any::<u64>(), any::<u64>(), disk).prop_map(|(cpu, memory, parts)| {
        let mut disk = Disk::none();
        for (pool, gib) in parts {
            disk.add(pool, gib);
        }
        Resources { compute: Compute::new(cpu, memory), disk }
    })
}

pub(super) fn protocol() -> impl Strategy<Value = Protocol> {
    select(vec![Protocol::Tcp, Protocol::Udp])
}

pub(super) fn host_port() -> impl Strategy<Value = HostPort> {
    (1..=u16::MAX, protocol()).prop_map(|(port, protocol)| HostPort { port, protocol })
}

fn condition() -> impl Strategy<Value = Condition> {
    select(vec![Condition::Ready, Condition::NotReady, Condition::Lost])
}

fn facts() -> impl Strategy<Value = NodeFacts> {
    let said = (node_id(), text(), text(), text(), any::<(u64, u64)>());
    let pools = vec((pool(), any::<u64>()), 0..3);
    let drivers = btree_set(name().prop_map(|text| DriverName::new(&text).unwrap()), 0..3);
    let types = btree_set(select(WorkloadType::ALL.to_vec()), 0..3);
    let missing = btree_map(select(WorkloadType::ALL.to_vec()), text(), 0..3);
    (said, pools, types, drivers, texts(), any::<bool>(), missing).prop_map(
        |(
            (id, host, incarnation, endpoint, (cpu, memory)),
            pools,
            types,
            drivers,
            labels,
            fence,
            missing,
        )| {
            NodeFacts {
                id,
                host,
                incarnation,
                endpoint,
                capacity: Compute::new(cpu, memory),
                pools: pools
                    .into_iter()
                    .map(|(name, total_gib)| {
                        let shares = (total_gib % 2 == 1).then(|| name.clone());
                        Pool { name, total_gib, shares }
                    })
                    .collect(),
                types,
                drivers,
                labels,
                fence,
                pauses: fence,
                checks_health: fence,
                signals: fence,
                addresses: fence,
                missing,
            }
        },
    )
}

pub(super) fn node() -> impl Strategy<Value = Node> {
    let effect = select(vec![TaintEffect::NoSchedule, TaintEffect::PreferNoSchedule]);
    let taint =
        (text(), text(), effect).prop_map(|(key, value, effect)| Taint { key, value, effect });
    (
        facts(),
        any::<u64>(),
        texts(),
        btree_set(text(), 0..3),
        btree_set(taint, 0..3),
        of(text()),
        condition(),
        any::<u64>(),
    )
        .prop_map(
            |(facts, session, labels, hidden_labels, taints, drain, condition, since)| Node {
                facts,
                session: Session(session),
                labels,
                hidden_labels,
                taints,
                drain,
                condition,
                since: WallMillis(since),
            },
        )
}

fn phase() -> impl Strategy<Value = Phase> {
    select(Phase::ALL.to_vec())
}

fn reason() -> impl Strategy<Value = Reason> {
    let failure = (select(FailureReason::ALL.to_vec()), any::<bool>(), any::<String>()).prop_map(
        |(reason, ended, message)| {
            let stage = if ended { FailureStage::Run } else { FailureStage::Start };
            Failure::new(reason, &message).in_stage(stage)
        },
    );
    (select(ReasonCode::ALL.to_vec()), text(), of(failure), any::<u64>()).prop_map(
        |(code, message, failure, since)| Reason {
            code,
            message,
            failure,
            since: WallMillis(since),
        },
    )
}

fn version() -> BoxedStrategy<Version> {
    let drawn = (draw_spec::revision().boxed(), draw_spec::spec().boxed());
    drawn.prop_map(|(revision, spec)| Version { revision, spec: Arc::new(spec) }).boxed()
}

fn update() -> BoxedStrategy<Update> {
    let failed = (any::<String>(), any::<u64>(), any::<bool>()).prop_map(|(why, at, is_final)| {
        let failure = Failure::new(FailureReason::ImagePullFailed, &why);
        UpdateFailure { failure, at: WallMillis(at), is_final }
    });
    (version(), any::<u32>(), of(node_id()), of(failed))
        .prop_map(|(from, number, on, failed)| Update { from, number, on, failed })
        .boxed()
}

fn place() -> impl Strategy<Value = Place> {
    let version = version();
    (node_id(), any::<(u64, u64)>(), resources(), vec(host_port(), 0..3), of(version)).prop_map(
        |(node, (epoch, generation), reserved, ports, version)| Place {
            shadow: epoch % 2 == 1,
            restart: (epoch % 3 == 1).then_some(Generation(generation)),
            values: (0..epoch % 3)
                .map(|n| (SecretName::new(&format!("s{n}")).unwrap(), Arc::from(n.to_string())))
                .collect(),
            node,
            epoch: Epoch(epoch),
            generation: Generation(generation),
            paused: false,
            reserved,
            ports,
            version,
        },
    )
}

pub(super) fn assignment() -> impl Strategy<Value = Assignment> {
    let former = (any::<u64>(), resources()).prop_map(|(epoch, reserved)| FormerCopy {
        epoch: Epoch(epoch),
        reserved,
        restart: epoch % 2 == 1,
    });
    (
        workload_id(),
        phase(),
        reason(),
        of(place()),
        btree_map(node_id(), former, 0..3),
        of(node_id()),
        of(update()),
        of(health()),
    )
        .prop_map(|(workload, phase, reason, place, former, data_on, update, health)| {
            Assignment {
                workload,
                phase,
                reason,
                place,
                former,
                data_on,
                update,
                health: health.map(Box::new),
            }
        })
}

fn health() -> impl Strategy<Value = HealthRecord> {
    (select(HealthState::ALL.to_vec()), text(), any::<(u64, u64, u32)>()).prop_map(
        |(state, detail, (since, epoch, restarts))| HealthRecord {
            health: Health { state, detail },
            since: WallMillis(since),
            epoch: Epoch(epoch),
            restarts,
        },
    )
}

pub(super) fn retry() -> impl Strategy<Value = Retry> {
    (workload_id(), any::<(u32, u32)>(), of(any::<u64>()), vec(node_id(), 0..3)).prop_map(
        |(workload, (attempts, max_attempts), next, avoid)| Retry {
            workload,
            attempts,
            max_attempts,
            next_at: next.map(WallMillis),
            avoid,
        },
    )
}

pub(super) fn grave() -> impl Strategy<Value = Grave> {
    (workload_id(), node_id(), any::<u64>(), resources(), of(version())).prop_map(
        |(workload, node, epoch, reserved, version)| Grave {
            workload,
            node,
            epoch: Epoch(epoch),
            reserved,
            version,
        },
    )
}

fn drift_kind() -> impl Strategy<Value = DriftKind> {
    select(vec![
        DriftKind::OrphanOnAgent,
        DriftKind::StateMismatch,
        DriftKind::RevisionMismatch,
        DriftKind::MissingOnAgent,
    ])
}

pub(super) fn drift() -> impl Strategy<Value = Drift> {
    (node_id(), workload_id(), drift_kind(), any::<(u64, u64, bool)>()).prop_map(
        |(node, workload, kind, (epoch, since, ignored))| Drift {
            node,
            workload,
            kind,
            epoch: Epoch(epoch),
            since: WallMillis(since),
            ignored,
        },
    )
}

pub(super) fn lease() -> impl Strategy<Value = Lease> {
    let state = select(vec![LeaseState::Held, LeaseState::Expired, LeaseState::Ended]);
    (node_id(), state, any::<(u64, u64, u64)>()).prop_map(
        |(node, state, (session, length_ms, since))| Lease {
            node,
            session: Session(session),
            state,
            length_ms,
            since: WallMillis(since),
        },
    )
}

pub(super) fn head() -> impl Strategy<Value = Head> {
    (text(), any::<(u64, u64, u64, u64, bool)>(), any::<(u64, [u8; 32])>()).prop_map(
        |(cluster, (incarnation, seq, epoch, event, rebuilding), (last, hash))| Head {
            cluster,
            incarnation,
            seq: CommitSeq(seq),
            epoch: Epoch(epoch),
            event: EventSeq(event),
            audit: AuditHead { seq: last, hash: AuditHash(hash) },
            rebuilding,
            mark_key: Arc::from(""),
        },
    )
}

pub(super) fn leader() -> impl Strategy<Value = Leader> {
    (text(), any::<u64>()).prop_map(|(candidate, term)| Leader { candidate, term: Term(term) })
}

fn task() -> impl Strategy<Value = Task> {
    let times = (of(any::<u64>()), of(any::<u64>()), of(any::<u64>()));
    let words = (select(TaskAction::ALL.to_vec()), select(TaskStatus::ALL.to_vec()));
    (node_id(), text(), words, of(text()), times).prop_map(|(node, id, words, error, times)| Task {
        node,
        id,
        action: words.0,
        status: words.1,
        error,
        created: times.0.map(WallMillis),
        started: times.1.map(WallMillis),
        ended: times.2.map(WallMillis),
    })
}

fn happening() -> impl Strategy<Value = Happening> {
    let workload = (
        workload_id(),
        of(phase()),
        of(phase()),
        select(ReasonCode::ALL.to_vec()),
        text(),
        of(node_id()),
        of(any::<u64>()),
        of(draw_spec::revision()),
        of(task()),
    )
        .prop_map(|(id, from, to, code, message, node, epoch, revision, task)| {
            let (epoch, task) = (epoch.map(Epoch), task.map(Arc::new));
            Happening::Workload { id, from, to, code, message, node, epoch, revision, task }
        });
    let mode = || select(vec![Mode::Normal, Mode::Degraded, Mode::Recovery]);
    let change = select(vec![
        NodeChange::Draining,
        NodeChange::Undrained,
        NodeChange::Tainted,
        NodeChange::Untainted,
        NodeChange::LabelSet,
        NodeChange::LabelDeleted,
        NodeChange::ConfirmedGone,
        NodeChange::Removed,
    ]);
    prop_oneof![
        workload,
        node_id().prop_map(|id| Happening::NodeRegistered { id }),
        (node_id(), condition(), condition(), text())
            .prop_map(|(id, from, to, why)| Happening::NodeCondition { id, from, to, why }),
        (node_id(), change).prop_map(|(id, what)| Happening::NodeChanged { id, what }),
        (node_id(), of(select(WorkloadType::ALL.to_vec())), of(text())).prop_map(
            |(id, kind, why)| Happening::NodeTrouble {
                id,
                part: kind.map_or(NodePart::Orders, NodePart::Runtime),
                why,
            }
        ),
        (workload_id(), of(node_id()), text())
            .prop_map(|(id, node, message)| Happening::WorkloadDelayed { id, node, message }),
        (workload_id(), node_id(), text())
            .prop_map(|(id, node, message)| Happening::SecretChanged { id, node, message }),
        (workload_id(), node_id(), select(HealthState::ALL.to_vec()), text())
            .prop_map(|(id, node, to, message)| Happening::Health { id, node, to, message }),
        any::<(usize, usize, bool)>()
            .prop_map(|(silent, total, on)| { Happening::MassFailureBrake { silent, total, on } }),
        (node_id(), workload_id(), drift_kind(), any::<bool>())
            .prop_map(|(node, id, kind, resolved)| Happening::Drift { node, id, kind, resolved }),
        (of(name()), any::<bool>(), any::<u16>()).prop_map(|(name, on, workloads)| {
            let namespace = name.and_then(|name| NamespaceName::new(&name).ok());
            Happening::Shadow { namespace, on, workloads: usize::from(workloads) }
        }),
        (text(), of(workload_id()), of(node_id()))
            .prop_map(|(what, workload, node)| Happening::Asked { what, workload, node }),
        (volume_key(), of(select(VOLUME_PHASES.to_vec())), of(node_id()))
            .prop_map(|(key, to, node)| Happening::Volume { key, to, node }),
        (mode(), mode(), text()).prop_map(|(from, to, why)| Happening::ModeChanged {
            from,
            to,
            why
        }),
    ]
}

fn volume_key() -> impl Strategy<Value = VolumeKey> {
    (select(VolumeDriver::ALL.to_vec()), name())
        .prop_map(|(driver, name)| VolumeKey { driver, name: VolumeName::new(&name).unwrap() })
}

const VOLUME_PHASES: [VolumePhase; 8] = [
    VolumePhase::Available,
    VolumePhase::Pending,
    VolumePhase::Provisioning,
    VolumePhase::Attached,
    VolumePhase::Released,
    VolumePhase::Retained,
    VolumePhase::Error,
    VolumePhase::Deleting,
];

pub(super) fn volume() -> impl Strategy<Value = Volume> {
    let access = select(vec![
        AccessMode::ReadWriteOnce,
        AccessMode::ReadOnlyMany,
        AccessMode::ReadWriteMany,
    ]);
    let nodes = btree_set(node_id(), 0..3);
    let users = btree_set(workload_id(), 0..3);
    let words = (text(), text(), text());
    let whole = (volume_key(), access, select(VOLUME_PHASES.to_vec()), words);
    let flags = any::<(u64, bool, bool, bool, u64, u64)>();
    (whole, flags, of(node_id()), nodes, users).prop_map(
        |((key, access, phase, words), flags, home, left_on, users)| Volume {
            key,
            size_gib: flags.0,
            access,
            fs_type: words.0,
            mount_path: words.1,
            retain: flags.1,
            standalone: flags.2,
            namespace: flags.3.then(|| NamespaceName::fixed("web")),
            phase,
            last_error: words.2,
            home,
            left_on,
            used: flags.3,
            users,
            created_at: WallMillis(flags.4),
            updated_at: WallMillis(flags.5),
        },
    )
}

pub(super) fn attachment() -> impl Strategy<Value = Attachment> {
    let phase = select(vec![
        AttachmentPhase::Detaching,
        AttachmentPhase::Resting,
        AttachmentPhase::Attaching,
        AttachmentPhase::Attached,
        AttachmentPhase::Error,
    ]);
    let times = any::<(bool, u64, u64)>();
    (node_id(), workload_id(), volume_key(), (text(), text()), phase, times).prop_map(
        |(node, workload, volume, (mount_path, last_error), phase, times)| Attachment {
            node,
            workload,
            volume,
            mount_path,
            read_only: times.0,
            phase,
            last_error,
            since: WallMillis(times.1),
            created_at: WallMillis(times.2),
        },
    )
}

pub(super) fn event() -> impl Strategy<Value = Event> {
    let author =
        (text(), text()).prop_map(|(who, why)| Arc::new(Author { why, ..Author::new(&who) }));
    (any::<u64>(), any::<u64>(), happening(), of(author)).prop_map(|(seq, at, what, by)| Event {
        seq: EventSeq(seq),
        at: WallMillis(at),
        what,
        by,
    })
}
