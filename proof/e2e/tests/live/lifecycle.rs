//! From a wish to something that runs, through every change, to nothing at all.

use std::time::{Duration, Instant};

use persys_e2e::engine::{Container, Engine};
use persys_e2e::part::Pace;
use persys_e2e::processes::{Stack, Wish, free_port};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use crate::program;

async fn stack() -> Stack {
    Stack::on_docker(program(), Pace::Product).await
}

/// The one container of a workload.
pub(crate) async fn only(stack: &Stack, id: &str) -> Container {
    let all = Engine::shared().containers(&stack.cluster).await;
    let ours: Vec<_> = all.into_iter().filter(|container| container.workload == id).collect();
    assert_eq!(ours.len(), 1, "{ours:?}");
    ours.into_iter().next().unwrap()
}

async fn page(port: u16) -> Option<String> {
    let mut connection = TcpStream::connect(("127.0.0.1", port)).await.ok()?;
    connection.write_all(b"GET /word HTTP/1.0\r\n\r\n").await.ok()?;
    let mut text = String::new();
    connection.read_to_string(&mut text).await.ok()?;
    Some(text)
}

#[tokio::test]
async fn the_whole_life_of_a_workload() {
    let mut stack = stack().await;
    let (id, port) = (stack.id("web"), free_port());
    let serve = |word: &str| {
        let script = format!(
            "trap 'exit 0' TERM; mkdir /www; echo {word} > /www/word; httpd -f -p 80 -h /www & wait"
        );
        let mut wish = Wish::shell(&id, &script);
        wish.container.ports = vec![persys_proto::control::v1::Port {
            host_port: i32::from(port),
            container_port: 80,
            protocol: "tcp".to_owned(),
            host_ip: String::new(),
        }];
        wish
    };
    let answers = async |word: &str| {
        let begun = Instant::now();
        while !page(port).await.is_some_and(|text| text.contains(word)) {
            assert!(begun.elapsed() < Duration::from_secs(20), "no answer with {word:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    };
    stack.apply(&serve("first").request()).await;
    let view = stack.until_status(&id, "Running").await;
    assert_eq!(view.assigned_node_id, "n1");
    let first = only(&stack, &id).await;
    assert_eq!((first.running, &*first.revision, &first.ports), (true, "r1", &vec![port]));
    answers("first").await;

    stack.apply(&serve("second").revised("r2").request()).await;
    stack.until(&id, |view| view.status == "Running" && view.revision_id == "r2").await;
    answers("second").await;

    stack.wish(&id, "Stopped").await;
    stack.until_status(&id, "Stopped").await;
    assert!(!only(&stack, &id).await.running);
    assert_eq!(page(port).await, None, "it is stopped");
    stack.wish(&id, "Running").await;
    stack.until_status(&id, "Running").await;
    answers("second").await;

    stack.delete(&id).await;
    assert_eq!(Engine::shared().containers(&stack.cluster).await, []);
    assert_eq!(page(port).await, None, "it is gone");
}

#[tokio::test]
async fn the_same_revision_is_skipped() {
    let mut stack = stack().await;
    let id = stack.id("web");
    let wish = Wish::runs(&id);
    stack.apply(&wish.request()).await;
    let before_view = stack.until_status(&id, "Running").await;
    let before = only(&stack, &id).await;
    let begun = Engine::shared().started(&before.id).await;
    for _ in 0..3 {
        stack.apply(&wish.request()).await;
    }
    // The next order goes the same way and comes to an end: whatever the others led to is over.
    let mark = stack.id("mark");
    stack.apply(&Wish::runs(&mark).request()).await;
    stack.until_status(&mark, "Running").await;
    assert_eq!(only(&stack, &id).await, before);
    assert_eq!(Engine::shared().started(&before.id).await, begun, "it was not started again");
    let view = stack.look(&id).await.unwrap().unwrap();
    assert_eq!((view.epoch, view.restarts), (before_view.epoch, 0), "nothing was decided anew");
}

#[tokio::test]
async fn a_changed_revision_is_rolled_out_at_once() {
    let mut stack = stack().await;
    let id = stack.id("web");
    stack.apply(&Wish::runs(&id).request()).await;
    stack.until_status(&id, "Running").await;
    let before = only(&stack, &id).await;
    let begun = Instant::now();
    stack.apply(&Wish::runs(&id).revised("r2").request()).await;
    stack.until(&id, |view| view.status == "Running" && view.revision_id == "r2").await;
    // Its program does not hear that it is to end, and has ten seconds for it.
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
    let after = only(&stack, &id).await;
    assert_eq!((&*after.revision, after.running), ("r2", true));
    assert_ne!(after.id, before.id, "a new version is a new container");
}

#[tokio::test]
async fn stop_and_start_keep_the_container() {
    let mut stack = stack().await;
    let id = stack.id("web");
    stack.apply(&Wish::runs(&id).request()).await;
    stack.until_status(&id, "Running").await;
    let before = only(&stack, &id).await;
    for _ in 0..2 {
        stack.wish(&id, "Stopped").await;
        stack.until_status(&id, "Stopped").await;
        let stopped = only(&stack, &id).await;
        assert_eq!((&stopped.id, stopped.running), (&before.id, false));
        stack.wish(&id, "Running").await;
        stack.until_status(&id, "Running").await;
        assert_eq!(only(&stack, &id).await, before);
    }
}

#[tokio::test]
async fn delete_leaves_nothing() {
    let mut stack = stack().await;
    // Volumes of other tests come and go on the shared daemon; one of ours carries our name.
    let names = [stack.id("web"), stack.id("job"), stack.id("lost")];
    stack.apply(&Wish::runs(&names[0]).request()).await;
    let mut job = Wish::shell(&names[1], "exit 0");
    job.container.restart_policy = "no".to_owned();
    stack.apply(&job.request()).await;
    let mut lost = Wish::runs(&names[2]);
    lost.container.image = format!("127.0.0.1:{}/none:1", free_port());
    stack.apply(&lost.request()).await;
    stack.until_status(&names[0], "Running").await;
    stack.until_status(&names[1], "Completed").await;
    stack.until_status(&names[2], "RetryPending").await;
    for id in &names {
        stack.delete(id).await;
    }
    assert_eq!(Engine::shared().containers(&stack.cluster).await, []);
    let furniture = Engine::shared().furniture().await;
    assert!(!furniture.iter().any(|name| name.contains(&stack.cluster)), "{furniture:?}");
    stack.stop("n1").await;
    stack.stop("scheduler").await;
    let keys: Vec<_> = stack.records().into_keys().collect();
    let left: Vec<_> = keys.iter().filter(|key| key.contains(&stack.cluster)).collect();
    assert!(left.is_empty(), "{left:?}");
    assert!(keys.contains(&"/nodes/n1".to_owned()), "these are the keys: {keys:?}");
}
