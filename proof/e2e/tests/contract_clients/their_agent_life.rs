//! The whole life of workloads on agents of the field, under our scheduler.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use persys_cluster::input::Ask;
use persys_e2e::stack::{Stack, Wire};
use persys_identity::Role;
use persys_model::drift::DriftKind;
use persys_model::event::Happening;
use persys_model::id::{NodeId, WorkloadId};
use persys_model::phase::Phase;
use tonic::transport::Channel;

use crate::calls::{call, until};
use crate::messages::{agent as agent_wire, control as wire};
use crate::their_agent::{self, TheirAgent, holders};

const NODES: [&str; 4] = ["old-1", "old-2", "old-3", "old-4"];

#[tokio::test(flavor = "multi_thread")]
async fn their_agents_live_under_our_scheduler_without_certificates() {
    Life::begin(Wire::Plain).await.whole().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn their_agents_live_under_our_scheduler_with_certificates() {
    Life::begin(Wire::Mtls).await.whole().await;
}

struct Life {
    stack: Stack,
    agents: Vec<(&'static str, TheirAgent)>,
    operator: Channel,
}

impl Life {
    async fn begin(wire: Wire) -> Self {
        let stack = their_agent::stack(wire).await;
        let mut agents = Vec::new();
        for node in NODES {
            agents.push((node, their_agent::start(&stack, node).await));
        }
        let operator = stack.channel(Role::Operator, "alice").await;
        let life = Self { stack, agents, operator };
        let joined = || async { (life.nodes().await == NODES.len()).then_some(()) };
        until("they join", joined).await;
        life
    }

    async fn whole(self) {
        self.runs_and_changes().await;
        self.failures_and_retry().await;
        self.drain().await;
        self.slow_delete().await;
        self.drifts().await;
        self.loss().await;
        self.end().await;
        self.stack.stop().await;
    }

    async fn nodes(&self) -> usize {
        self.stack.scheduler.handle.read(|world| world.nodes().count()).await.unwrap()
    }

    async fn state(&self, id: &str) -> Option<(Phase, Option<NodeId>, usize)> {
        let id = WorkloadId::new(id).unwrap();
        let look = move |world: &persys_cluster::world::World| {
            let assignment = world.workload(&id)?.assignment;
            let place = assignment.place.as_ref().map(|place| place.node.clone());
            Some((assignment.phase, place, assignment.former.len()))
        };
        self.stack.scheduler.handle.read(look).await.unwrap()
    }

    async fn until_phase(&self, id: &str, wanted: Phase) -> NodeId {
        let look = || async {
            let (phase, place, _) = self.state(id).await?;
            (phase == wanted).then_some(place)
        };
        let place = until(&format!("{id} is {wanted:?}"), look).await;
        place.unwrap_or_else(|| NodeId::new("nowhere").unwrap())
    }

    async fn ask(&self, ask: Ask) {
        self.stack.scheduler.handle.ask(ask).await.unwrap();
    }

    async fn apply(&self, id: &str, revision: &str, desired: &str) {
        let request = wire::ApplyWorkloadRequest {
            workload_id: id.to_owned(),
            revision_id: revision.to_owned(),
            desired_state: desired.to_owned(),
            spec: Some(wire::WorkloadSpec {
                kind: "container".to_owned(),
                resources: Some(wire::ResourceRequirements {
                    cpu_millicores: 100,
                    memory_mb: 128,
                    disk_gb: 0,
                }),
                container: Some(wire::ContainerSpec {
                    image: format!("nginx:{revision}"),
                    restart_policy: "always".to_owned(),
                    ..wire::ContainerSpec::default()
                }),
                ..wire::WorkloadSpec::default()
            }),
        };
        let method = "persys.control.v1.AgentControl/ApplyWorkload";
        let answer: wire::ApplyWorkloadResponse =
            call(&self.operator, method, request).await.unwrap();
        assert!(answer.success, "{answer:?}");
    }

    fn agent(&self, node: &NodeId) -> &TheirAgent {
        let found = self.agents.iter().find(|(name, _)| *name == node.as_str());
        found.map(|(_, agent)| agent).unwrap()
    }

    async fn runs_and_changes(&self) {
        self.apply("web", "r1", "Running").await;
        let node = self.until_phase("web", Phase::Running).await;
        // An update runs only when that revision runs.
        self.agent(&node).inside(|inside| inside.apply_takes = Duration::from_secs(3));
        self.apply("web", "r2", "Running").await;
        let node = self.until_phase("web", Phase::Running).await;
        let has = self.agent(&node).inside(|inside| inside.has["web"].clone());
        assert!(has.revision.starts_with("r2"), "{has:?}");
        self.agent(&node).inside(|inside| inside.apply_takes = Duration::from_millis(300));
        self.apply("web", "r2", "Stopped").await;
        self.until_phase("web", Phase::Stopped).await;
        self.apply("web", "r2", "Running").await;
        self.until_phase("web", Phase::Running).await;
        assert_eq!(holders(&self.agents, "web").len(), 1);
    }

    async fn failures_and_retry(&self) {
        for (_, agent) in &self.agents {
            agent.inside(|inside| inside.refuses = Some("task queue is full"));
        }
        self.apply("odd", "r1", "Running").await;
        self.until_phase("odd", Phase::Backoff).await;
        for (_, agent) in &self.agents {
            agent.inside(|inside| inside.refuses = None);
        }
        self.ask(Ask::Retry(WorkloadId::new("odd").unwrap())).await;
        let node = self.until_phase("odd", Phase::Running).await;
        // Unknown with a reason is a failure, and it is applied again.
        self.agent(&node).inside(|inside| {
            let one = inside.has.get_mut("odd").unwrap();
            one.actual = 0;
            "container not found".clone_into(&mut one.message);
        });
        self.until_phase("odd", Phase::Backoff).await;
        self.until_phase("odd", Phase::Running).await;
    }

    async fn drain(&self) {
        let node = self.until_phase("web", Phase::Running).await;
        self.ask(Ask::Drain(node.clone(), Arc::from("test"))).await;
        let moved = || async {
            let (phase, place, former) = self.state("web").await?;
            let there = place.is_some_and(|place| place != node);
            (phase == Phase::Running && there && former == 0).then_some(())
        };
        until("web moved and its former copy is gone", moved).await;
        assert_eq!(holders(&self.agents, "web").len(), 1, "no second copy");
        let told = || async { self.agent(&node).inside(|inside| inside.drained.then_some(())) };
        until("the agent is told", told).await;
        self.ask(Ask::Undrain(node)).await;
    }

    async fn slow_delete(&self) {
        let node = self.until_phase("odd", Phase::Running).await;
        self.agent(&node).inside(|inside| inside.delete_takes = Duration::from_secs(8));
        self.ask(Ask::Delete(WorkloadId::new("odd").unwrap())).await;
        let gone = || async { self.state("odd").await.is_none().then_some(()) };
        until("odd is gone", gone).await;
        assert!(holders(&self.agents, "odd").is_empty());
        let deletes = self.agent(&node).inside(|inside| {
            inside.delete_takes = Duration::from_millis(300);
            inside.deleted.iter().filter(|id| *id == "odd").count()
        });
        assert_eq!(deletes, 1, "one order is enough");
    }

    async fn drifts(&self) {
        for id in ["lost", "older", "halted"] {
            self.apply(id, "r1", "Running").await;
        }
        let mut events = self.stack.scheduler.handle.events();
        for id in ["lost", "older", "halted"] {
            let node = self.until_phase(id, Phase::Running).await;
            self.agent(&node).inside(|inside| match id {
                "lost" => drop(inside.has.remove(id)),
                "older" => "r0".clone_into(&mut inside.has.get_mut(id).unwrap().revision),
                _ => inside.has.get_mut(id).unwrap().actual = agent_wire::ACTUALLY_STOPPED,
            });
        }
        let node = self.until_phase("web", Phase::Running).await;
        self.agent(&node).inside(|inside| {
            let one = inside.has["web"].clone();
            inside.has.insert("stranger".to_owned(), one);
        });
        self.ask(Ask::CheckDrift(None)).await;
        let mut found = BTreeSet::new();
        let all = [
            DriftKind::OrphanOnAgent,
            DriftKind::MissingOnAgent,
            DriftKind::RevisionMismatch,
            DriftKind::StateMismatch,
        ];
        let listen = async {
            while found.len() < all.len() {
                let event = events.recv().await.unwrap();
                if let Happening::Drift { kind, resolved: false, .. } = &event.what {
                    found.insert(*kind);
                }
            }
        };
        let heard = tokio::time::timeout(Duration::from_secs(20), listen).await;
        assert!(heard.is_ok(), "found only {found:?}");
        for id in ["lost", "older", "halted"] {
            self.until_phase(id, Phase::Running).await;
            let repaired = || async {
                let node = self.state(id).await?.1?;
                self.agent(&node).inside(|inside| {
                    let one = inside.has.get(id)?;
                    let runs = one.actual == agent_wire::ACTUALLY_RUNNING;
                    (runs && one.revision.starts_with("r1")).then_some(())
                })
            };
            until(&format!("{id} is repaired"), repaired).await;
        }
        self.agent(&node).inside(|inside| {
            assert!(inside.has.remove("stranger").is_some(), "an orphan is left alone");
        });
    }

    async fn loss(&self) {
        let node = self.until_phase("web", Phase::Running).await;
        self.agent(&node).inside(|inside| inside.away = true);
        let moved = || async {
            let (phase, place, _) = self.state("web").await?;
            (phase == Phase::Running && place? != node).then_some(())
        };
        until("web runs elsewhere", moved).await;
        self.agent(&node).inside(|inside| inside.away = false);
        let one = || async {
            let former = self.state("web").await?.2;
            (former == 0 && holders(&self.agents, "web").len() == 1).then_some(())
        };
        until("the node that returned gave its copy up", one).await;
    }

    async fn end(&self) {
        let ids = ["web", "lost", "older", "halted"];
        for id in ids {
            self.ask(Ask::Delete(WorkloadId::new(id).unwrap())).await;
        }
        let gone = || async {
            let held = ids.iter().any(|id| !holders(&self.agents, id).is_empty());
            let known = self.stack.scheduler.handle.read(|world| world.workloads().count()).await;
            (!held && known.unwrap() == 0).then_some(())
        };
        until("nothing is left anywhere", gone).await;
    }
}
