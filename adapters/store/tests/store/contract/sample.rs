//! A small cluster to write down.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_cluster::record::{Head, Snapshot, Unit, Write};
use persys_cluster::store::HighWater;
use persys_model::assignment::{Assignment, Grave, Place, Reason, ReasonCode};
use persys_model::drift::{Drift, DriftKind};
use persys_model::entry::{
    Allowance, Binding, Entry, JoinToken, Namespace, Revocation, Scope, Subject, TokenHash,
    UserRole, UserToken,
};
use persys_model::event::{Event, Happening};
use persys_model::id::{EntryName, NamespaceName, NodeId, RevisionId, SubjectName, WorkloadId};
use persys_model::join::Use;
use persys_model::lease::{Lease, LeaseState};
use persys_model::node::{Condition, Node, NodeFacts};
use persys_model::phase::Phase;
use persys_model::reconciliation::{Action, Reconciliation};
use persys_model::resources::{Compute, Resources};
use persys_model::retry::Retry;
use persys_model::spec::container::ContainerSpec;
use persys_model::spec::volume::{AccessMode, ManagedVolume, VolumeDriver};
use persys_model::spec::{Kind, Placement, Spec, WorkloadType};
use persys_model::time::WallMillis;
use persys_model::token::{CommitSeq, Epoch, EventSeq, Generation, Session};
use persys_model::volume::{Attachment, AttachmentPhase, Volume, VolumeKey};
use persys_model::workload::{Desired, Workload};

/// Numbers units as the scheduler does.
#[derive(Debug, Clone)]
pub struct Pen {
    pub head: Head,
}

impl Pen {
    pub fn new() -> Self {
        Self {
            head: Head {
                cluster: Arc::from("c1"),
                incarnation: 0,
                seq: CommitSeq(0),
                epoch: Epoch(0),
                event: EventSeq(0),
                audit: persys_model::audit::AuditHead::default(),
                rebuilding: false,
                mark_key: Arc::from(""),
            },
        }
    }

    /// Goes on from what was read.
    pub fn after(snapshot: &Snapshot) -> Self {
        snapshot.head.clone().map_or_else(Self::new, |head| Self { head })
    }

    pub fn unit(&mut self, writes: Vec<Write>) -> Unit {
        self.head.seq = self.head.seq.next();
        for write in &writes {
            if let Write::PutEvent(event) = write {
                self.head.event = event.seq;
            }
        }
        Unit { head: self.head.clone(), writes }
    }

    pub fn known(&self) -> HighWater {
        HighWater {
            cluster: Arc::clone(&self.head.cluster),
            incarnation: self.head.incarnation,
            seq: self.head.seq,
        }
    }
}

pub fn node_id(number: u64) -> NodeId {
    NodeId::new(&format!("node-{number:05}")).unwrap()
}

pub fn workload_id(number: u64) -> WorkloadId {
    WorkloadId::new(&format!("work-{number:05}")).unwrap()
}

pub fn node(number: u64) -> Arc<Node> {
    Arc::new(Node {
        facts: NodeFacts {
            id: node_id(number),
            host: Arc::from("machine"),
            incarnation: Arc::from("life"),
            endpoint: Arc::from("10.0.0.1:50051"),
            capacity: Compute::new(4000, 8192),
            pools: Vec::new(),
            types: BTreeSet::from([WorkloadType::Container]),
            drivers: BTreeSet::new(),
            labels: BTreeMap::new(),
            fence: false,
            pauses: true,
            checks_health: true,
            signals: true,
            addresses: true,
            missing: BTreeMap::new(),
        },
        session: Session(number),
        labels: BTreeMap::new(),
        hidden_labels: BTreeSet::new(),
        taints: BTreeSet::new(),
        drain: None,
        condition: Condition::Ready,
        since: WallMillis(1),
    })
}

fn resources() -> Resources {
    Resources { compute: Compute::new(100, 128), ..Resources::default() }
}

pub fn workload(number: u64) -> Arc<Workload> {
    let container = ContainerSpec {
        image: Arc::from("registry.example/team/web:1.2.3"),
        command: vec![Arc::from("serve"), Arc::from("--port=8080")],
        ..ContainerSpec::default()
    };
    Arc::new(Workload {
        history: persys_model::history::History::default(),
        id: workload_id(number),
        spec: Arc::new(Spec {
            kind: Kind::Container(container),
            resources: resources(),
            placement: Placement::default(),
            metadata: BTreeMap::from([(Arc::from("team"), Arc::from("web"))]),
            secrets: Vec::new(),
            stop_grace_ms: None,
            health: persys_model::spec::health::HealthChecks::default(),
        }),
        revision: RevisionId::fixed("r1"),
        generation: Generation(1),
        desired: Desired::Running,
        created_at: WallMillis(1_700_000_000_000),
    })
}

pub fn assignment(number: u64) -> Arc<Assignment> {
    Arc::new(Assignment {
        update: None,
        health: None,
        workload: workload_id(number),
        phase: Phase::Running,
        reason: Reason {
            code: ReasonCode::Running,
            message: Arc::from("the node says it runs"),
            failure: None,
            since: WallMillis(1_700_000_000_000),
        },
        place: Some(Place {
            node: node_id(number % 100),
            epoch: Epoch(number),
            generation: Generation(1),
            paused: false,
            reserved: resources(),
            ports: Vec::new(),
            version: None,
            values: BTreeMap::new(),
            shadow: false,
            restart: None,
        }),
        former: BTreeMap::new(),
        data_on: None,
    })
}

pub fn retry(number: u64) -> Arc<Retry> {
    Arc::new(Retry {
        workload: workload_id(number),
        attempts: 2,
        max_attempts: 5,
        next_at: Some(WallMillis(7)),
        avoid: vec![node_id(1)],
    })
}

pub fn lease(number: u64) -> Arc<Lease> {
    Arc::new(Lease {
        node: node_id(number),
        session: Session(number),
        state: LeaseState::Held,
        length_ms: 6_000,
        since: WallMillis(1),
    })
}

pub fn outcome(number: u64) -> Arc<Reconciliation> {
    Arc::new(Reconciliation {
        workload: workload_id(number),
        node: Some(node_id(number)),
        action: Action::Apply,
        success: true,
        reason: Arc::from("Running"),
        attempted_at: WallMillis(1),
    })
}

pub fn grave(node: u64, workload: u64) -> Arc<Grave> {
    Arc::new(Grave {
        version: None,
        workload: workload_id(workload),
        node: node_id(node),
        epoch: Epoch(9),
        reserved: resources(),
    })
}

pub fn drift(node: u64, workload: u64, kind: DriftKind) -> Arc<Drift> {
    Arc::new(Drift {
        node: node_id(node),
        workload: workload_id(workload),
        kind,
        epoch: Epoch(9),
        since: WallMillis(7),
        ignored: false,
    })
}

/// One record of every kind, in the order they are read back.
pub fn entries(number: u64) -> Vec<Arc<Entry>> {
    let namespace = NamespaceName::new(&format!("space-{number:05}")).unwrap();
    let allowance = Allowance {
        host_network: true,
        host_paths: BTreeSet::from([Arc::from("/srv/data")]),
        ..Allowance::default()
    };
    let scope = Scope::Namespaces(BTreeSet::from([namespace.clone()]));
    let user = SubjectName::new("ada@example.com").unwrap();
    let name = |kind: &str| EntryName::new(&format!("{kind}-{number:05}")).unwrap();
    vec![
        Arc::new(Entry::Namespace(Namespace { name: namespace, allowance, shadow: true })),
        Arc::new(Entry::Binding(Binding {
            name: name("bind"),
            subject: Subject::Group(user.clone()),
            role: UserRole::Operator,
            scope,
        })),
        Arc::new(Entry::UserToken(UserToken {
            id: name("token"),
            user,
            hash: TokenHash([0xa5; 32]),
            role: UserRole::Viewer,
            scope: Scope::Cluster,
            created_at: WallMillis(1),
            expires_at: WallMillis(number),
        })),
        Arc::new(Entry::JoinToken(JoinToken {
            id: name("join"),
            hash: "5e".repeat(32).into(),
            role: "agent".into(),
            name: Some("n1".into()),
            expires: WallMillis(number),
            uses_left: 2,
            uses: vec![Use { key: "aa".into(), name: "n1".into() }],
        })),
        Arc::new(Entry::Revocation(Revocation {
            name: name("agent.n"),
            since: WallMillis(number),
            reason: "stolen".into(),
        })),
    ]
}

pub fn volume_key(number: u64) -> VolumeKey {
    VolumeKey::parse(&format!("local:data-{number:05}")).unwrap().unwrap()
}

pub fn volume(number: u64) -> Arc<Volume> {
    let asked = ManagedVolume {
        name: volume_key(number).name,
        driver: VolumeDriver::Local,
        size_gib: 3,
        access: AccessMode::ReadWriteOnce,
        fs_type: Arc::from(""),
        mount_path: Arc::from("/data"),
        read_only: false,
        retain: true,
    };
    let users = BTreeSet::from([workload_id(number)]);
    Arc::new(Volume { home: Some(node_id(1)), users, ..Volume::new(&asked, WallMillis(7)) })
}

pub fn attachment(node: u64, number: u64) -> Arc<Attachment> {
    Arc::new(Attachment {
        node: node_id(node),
        workload: workload_id(number),
        volume: volume_key(number),
        mount_path: Arc::from("/data"),
        read_only: false,
        phase: AttachmentPhase::Attached,
        last_error: Arc::from(""),
        since: WallMillis(8),
        created_at: WallMillis(7),
    })
}

pub fn event(seq: u64, at: u64) -> Arc<Event> {
    Arc::new(Event {
        seq: EventSeq(seq),
        at: WallMillis(at),
        what: Happening::NodeRegistered { id: node_id(seq) },
        by: None,
    })
}

/// A workload with its assignment and its event, as one unit has them.
pub fn running(number: u64, seq: u64) -> Vec<Write> {
    vec![
        Write::PutWorkload(workload(number)),
        Write::PutAssignment(assignment(number)),
        Write::PutEvent(event(seq, 1_700_000_000_000 + seq)),
    ]
}
