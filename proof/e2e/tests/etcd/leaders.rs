//! Who leads dies, stands still, or loses its lease; the others take over, and nothing is harmed.

use std::time::{Duration, Instant};

use persys_e2e::processes::{PATIENCE, Wish};
use persys_etcd::LeaseId;
use persys_etcd_host::Options;
use persys_proto::control::v1 as api;
use tonic::Code;

use crate::scene::{BACK, Scene, Size, TAKEOVER, in_time};

const PAIR: Size = Size { schedulers: 2, agents: 2, containers: 4 };

impl Scene {
    /// How many leaderships there were.
    async fn term(&self) -> u64 {
        let kv = self.past().get("/meta/term").await.unwrap().unwrap();
        let value: serde_json::Value = serde_json::from_slice(&kv.value).unwrap();
        let term = value["term"].as_u64().or_else(|| value["data"]["term"].as_u64());
        term.unwrap_or_else(|| panic!("{value}"))
    }

    /// Asks these schedulers in turn until one of them takes in a new workload.
    async fn until_written(&self, schedulers: &[String], id: &str) {
        let deadline = Instant::now() + PATIENCE;
        loop {
            for process in schedulers {
                let mut client = self.stack.client_of(process);
                let asked = client.apply_workload(Wish::runs(id).request());
                if let Ok(Ok(answer)) = tokio::time::timeout(Duration::from_secs(1), asked).await {
                    assert!(answer.get_ref().success, "{:?}", answer.get_ref());
                    return;
                }
            }
            assert!(Instant::now() < deadline, "nobody takes {id}\n{}", self.logs());
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }

    /// Exactly one leads.
    async fn one_leads(&self) -> String {
        let mut leaders = Vec::new();
        for process in self.stack.schedulers() {
            if self.health(&process).await.is_some_and(|health| health.leads_well()) {
                leaders.push(process);
            }
        }
        assert_eq!(leaders.len(), 1, "{leaders:?}");
        leaders.remove(0)
    }
}

#[tokio::test]
async fn a_killed_leader_is_followed_by_another() {
    in_time(async || {
        let mut scene = Scene::set("leader killed", Options::new(1), PAIR).await;
        let (leader, term) = (scene.leader().await, scene.term().await);
        let others: Vec<_> =
            scene.stack.schedulers().into_iter().filter(|process| *process != leader).collect();
        scene.stack.front.clone_from(&others[0]);
        let (killed, id) = (Instant::now(), scene.stack.id("next"));
        scene.stack.kill(&leader).await;
        scene.serves_reads(&others[0]).await;
        scene.until_written(&others, &id).await;
        scene.took("writes flow again", killed.elapsed(), TAKEOVER);
        assert!(scene.term().await > term, "a leadership of its own");
        scene.stack.until_status(&id, "Running").await;
        scene.is_untouched(&[&id]).await;
        // Longer than a lease of a node and its grace: who was missed would be known by now.
        tokio::time::sleep(Duration::from_secs(11)).await;
        scene.nobody_was_given_up().await;
        scene.stack.delete(&id).await;
        scene.gone(&id).await;
        // The dead one comes back and follows.
        scene.stack.start_again(&leader).await;
        scene.until_health(&leader, |health| health.code == 200).await;
        assert_eq!(scene.one_leads().await, others[0]);
        scene.stack.front = leader;
        scene.works("through-a-follower").await;
        scene.was_untouched(&[]).await;
        scene
    })
    .await;
}

#[tokio::test]
async fn a_leader_that_stood_still_beyond_its_lease_harms_nothing() {
    in_time(async || {
        let mut scene = Scene::set("leader paused", Options::new(1), PAIR).await;
        let (leader, term) = (scene.leader().await, scene.term().await);
        let others: Vec<_> =
            scene.stack.schedulers().into_iter().filter(|process| *process != leader).collect();
        scene.stack.front.clone_from(&others[0]);
        // What it is asked last it does late, if at all.
        let victim = scene.id(0);
        let mut late = scene.stack.client_of(&leader);
        late.list_nodes(api::ListNodesRequest::default()).await.unwrap();
        let (paused, id) = (Instant::now(), scene.stack.id("next"));
        scene.stack.pause(&leader);
        let request = api::DeleteWorkloadRequest {
            workload_id: victim.clone(),
            volumes: false,
            ..Default::default()
        };
        let asked = tokio::spawn(async move { late.delete_workload(request).await });
        scene.until_written(&others, &id).await;
        scene.took("writes flow again", paused.elapsed(), TAKEOVER);
        scene.stack.until_status(&id, "Running").await;
        scene.is_untouched(&[&id]).await;
        let new_term = scene.term().await;
        assert!(new_term > term);
        while paused.elapsed() < Duration::from_secs(14) {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        scene.stack.delete(&id).await;
        scene.gone(&id).await;
        scene.until_quiet().await;
        let revision = scene.revision().await;

        let resumed = Instant::now();
        scene.stack.resume(&leader);
        let answer = tokio::time::timeout(PATIENCE, asked).await.unwrap().unwrap();
        let at = scene.stack.address_of(&others[0]).to_string();
        scene
            .until_health(&leader, |health| health.code == 200 && health.body["leader"] == at)
            .await;
        scene.took("it follows", resumed.elapsed(), BACK);
        assert_eq!(scene.one_leads().await, others[0]);
        assert_eq!(scene.term().await, new_term, "it did not take its place back");
        match answer {
            // Passed on to the one that leads now: done once, and told.
            Ok(answer) => {
                assert!(answer.get_ref().success, "{answer:?}");
                scene.gone(&victim).await;
                scene.forget(&victim);
            }
            Err(refused) => {
                // It knows that nothing happened, or that its time was over before it knew.
                let honest = [Code::Unavailable, Code::DeadlineExceeded];
                assert!(honest.contains(&refused.code()), "{refused}");
                tokio::time::sleep(Duration::from_secs(3)).await;
                assert_eq!(scene.revision().await, revision, "it wrote late");
            }
        }
        scene.works("after").await;
        scene.was_untouched(&[]).await;
        scene
    })
    .await;
}

#[tokio::test]
async fn a_revoked_lease_costs_a_leadership_and_nothing_else() {
    in_time(async || {
        let mut scene = Scene::set("lease revoked", Options::new(1), PAIR).await;
        let (leader, term) = (scene.leader().await, scene.term().await);
        let records = scene.records().await;
        let key = scene.past().get("/meta/leader").await.unwrap().unwrap();
        let (revoked, id) = (Instant::now(), scene.stack.id("next"));
        scene.past().revoke(LeaseId(key.lease)).await.unwrap();
        // The old leader can write nothing from this moment on, whatever it believes: what is
        // written is written under another leadership.
        scene.until_written(&scene.stack.schedulers(), &id).await;
        scene.took("writes flow again", revoked.elapsed(), BACK);
        assert!(scene.term().await > term, "a new leadership");
        let new = scene.leader().await;
        println!("lease revoked: {leader} led, {new} leads");
        scene.stack.until_status(&id, "Running").await;
        let after = scene.records().await;
        for (key, value) in records.iter().filter(|(key, _)| *key != "/meta/head") {
            assert!(after.contains_key(key), "{key} is gone: {value:?}");
        }
        tokio::time::sleep(Duration::from_secs(7)).await;
        scene.one_leads().await;
        scene.is_untouched(&[&id]).await;
        scene.stack.delete(&id).await;
        scene.gone(&id).await;
        scene.works("after").await;
        scene.was_untouched(&[]).await;
        scene
    })
    .await;
}
