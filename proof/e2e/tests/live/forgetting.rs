//! An agent that lost what it knew finds its containers by their labels, and makes no second copy.

use persys_e2e::engine::Engine;
use persys_e2e::part::Pace;
use persys_e2e::processes::{Stack, Wish, now_seconds};

use crate::lifecycle::only;
use crate::program;

/// Has the agent come back after `harm` was done to its state, and looks at what became of its work.
async fn adopted_after(harm: impl FnOnce(&std::path::Path)) -> Stack {
    let mut stack = Stack::on_docker(program(), Pace::Product).await;
    let mut recorder = Engine::shared().record(&stack.cluster, now_seconds());
    let [id, job, rests] = ["web", "job", "rests"].map(|name| stack.id(name));
    for id in [&id, &rests] {
        stack.apply(&Wish::runs(id).request()).await;
    }
    let mut wish = Wish::shell(&job, "exit 0");
    wish.container.restart_policy = "no".to_owned();
    stack.apply(&wish.request()).await;
    stack.until_status(&id, "Running").await;
    stack.until_status(&job, "Completed").await;
    stack.until_status(&rests, "Running").await;
    stack.wish(&rests, "Stopped").await;
    stack.until_status(&rests, "Stopped").await;
    let before = Engine::shared().containers(&stack.cluster).await;
    let started = Engine::shared().started(&only(&stack, &id).await.id).await;

    stack.kill("n1").await;
    harm(&stack.folder_of("n1"));
    stack.start_again("n1").await;
    stack.until(&id, |view| view.status == "Running" && !view.uncertain).await;
    // What it holds again it obeys again.
    let mark = stack.id("mark");
    stack.apply(&Wish::runs(&mark).request()).await;
    stack.until_status(&mark, "Running").await;
    stack.delete(&mark).await;
    assert_eq!(Engine::shared().containers(&stack.cluster).await, before);
    assert_eq!(Engine::shared().started(&only(&stack, &id).await.id).await, started);
    assert_eq!(stack.look(&job).await.unwrap().unwrap().status, "Completed");
    assert_eq!(stack.look(&rests).await.unwrap().unwrap().status, "Stopped");
    let history = recorder.history().await;
    for id in [&id, &job, &rests] {
        assert_eq!(history.get(id).unwrap(), &["create", "start"], "{id}");
    }
    stack.wish(&rests, "Running").await;
    stack.until_status(&rests, "Running").await;
    for id in [&id, &job, &rests] {
        stack.delete(id).await;
    }
    assert_eq!(Engine::shared().containers(&stack.cluster).await, []);
    stack
}

#[tokio::test]
async fn a_deleted_ledger_costs_nothing() {
    adopted_after(|folder| std::fs::remove_dir_all(folder).unwrap()).await;
}

#[tokio::test]
async fn a_damaged_ledger_costs_nothing_and_is_kept() {
    let stack = adopted_after(|folder| {
        let path = folder.join("agent.redb");
        let mut bytes = std::fs::read(&path).unwrap();
        let third = bytes.len() / 3;
        for byte in bytes.iter_mut().take(third * 2).skip(64) {
            *byte ^= 0x5a;
        }
        std::fs::write(&path, bytes).unwrap();
    })
    .await;
    let names = std::fs::read_dir(stack.folder_of("n1")).unwrap();
    let names: Vec<_> = names.map(|entry| entry.unwrap().file_name()).collect();
    let kept = names.iter().any(|name| name.to_string_lossy().contains("damaged"));
    assert!(kept, "{names:?}");
}
