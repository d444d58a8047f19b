//! Answers of a process that does not lead.

use std::sync::Arc;

use persys_cluster::input::Probe;
use persys_cluster::replica::Replica;
use persys_cluster::store::HighWater;
use persys_model::command::Command;
use persys_model::id::WorkloadId;
use persys_store::Memory as MemoryStore;
use tonic::Code;

use super::*;
use crate::clock::HostClock;
use crate::driver::{Driver, Memory, Parts};
use crate::links::{Links, OrderAnswer, Target, Unreachable};

struct Nobody;

#[async_trait::async_trait]
impl Links for Nobody {
    async fn order(&self, _: &Target, _: Command) -> Result<OrderAnswer, Unreachable> {
        Err(Unreachable::never_sent("nobody is there"))
    }

    async fn actions(&self, _: &Target, _: &WorkloadId) -> Result<String, Unreachable> {
        Err(Unreachable::never_sent("nobody is there"))
    }

    async fn probe(&self, _: &Target) -> Probe {
        Probe::Silent
    }
}

impl Memory for Nobody {
    fn remember(&self, _: &HighWater) {}
}

#[tokio::test]
async fn who_does_not_lead_answers_from_a_copy_and_changes_nothing() {
    let theirs = MemoryStore::new(persys_store::Settings::default()).unwrap();
    theirs.campaign(&Arc::from("other:1#1"), 60_000).await.unwrap();
    let store: Arc<dyn Store> = Arc::new(theirs.another());
    let clock: Arc<dyn Clock> = Arc::new(HostClock::start());
    let (candidate, fresh) = (Arc::from("this:1#1"), Arc::from("c"));
    let settings = Settings::default();
    let replica = Replica::start(candidate, fresh, None, settings.clone(), clock.now());
    let (driver, handle) = Driver::new(Parts {
        replica,
        clock: Arc::clone(&clock),
        store: Arc::clone(&store),
        links: Arc::new(Nobody),
        memory: Arc::new(Nobody),
    });
    let driving = tokio::spawn(driver.run());
    let (_stop, stopping) = watch::channel(false);
    let folder = tempfile::tempdir().unwrap();
    let git = persys_git::Settings::default().within(folder.path().join("git"));
    let fetcher = Fetcher::new(git).unwrap();
    let control = Control::new(
        handle.clone(),
        store,
        clock,
        settings,
        (Arc::new(Contract::new(1_000)), Arc::default(), fetcher, Arc::default()),
        stopping,
    );
    let mut standing = handle.standing();
    assert_eq!(standing.borrow().word(), "standby");
    assert!(!standing.borrow().is_well());
    let follows = standing.wait_for(|standing| standing.leader.is_some()).await.unwrap().clone();
    assert_eq!((follows.leader.as_deref(), follows.word()), (Some("other:1"), "normal"));
    assert_eq!(follows.role(), Role::Follower);
    assert!(follows.is_well() && !follows.is_normal());

    let request = wire::DeleteWorkloadRequest { workload_id: "web".to_owned(), volumes: false };
    let refused = control.delete_workload(Request::new(request)).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unavailable);
    assert!(refused.metadata().contains_key("retry-after"));

    // What can be read is read from a copy, which says so and how old it is.
    let request = wire::ListNodesRequest::default();
    let list = control.list_nodes(Request::new(request)).await.unwrap();
    assert_eq!(list.metadata().get(ROLE).unwrap(), "follower");
    let age: u64 = list.metadata().get(AGE).unwrap().to_str().unwrap().parse().unwrap();
    assert!(age < 2_000, "{age}");
    assert_eq!(list.into_inner().nodes, []);
    drop((handle, control));
    driving.await.unwrap();
}
