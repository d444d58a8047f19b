//! What goes wrong: back to the last good revision, and what died comes back.

use bollard::query_parameters::KillContainerOptions;
use persys_model::failure::FailureReason;
use persys_model::spec::Kind;
use persys_node::input::{Existing, Outcome};
use persys_runtime::{Evidence, Runtime};

use super::bench::{STAYS, bench, service, stack};
use crate::contract::{listed, quiet, start};

fn pair(web: &str) -> Kind {
    let mut file = "services:\n".to_owned();
    file += &service("db", STAYS, "restart: always\nvolumes: ['data:/data']");
    stack(&format!(
        "{file}  web:\n    restart: always\n    depends_on: [db]\n{web}volumes: {{data: {{}}}}\n"
    ))
}

fn good(version: &str) -> Kind {
    let image = crate::support::IMAGE;
    pair(&format!(
        "    image: {image}\n    command: [sh, -c, \"{STAYS}\"]\n    environment: {{V: '{version}'}}\n"
    ))
}

#[tokio::test]
async fn a_bad_image_in_the_middle_touches_nothing() {
    let bench = bench();
    let first = start("shop", "r1", good("1"));
    let id = &first.workload;
    bench.compose.start(&first).await.unwrap();
    bench.say(id, "db", "echo precious > /data/kept").await;
    let before = bench.moments(id).await;
    let bad = start("shop", "r2", pair("    image: localhost:1/none:9\n"));
    for error in [
        bench.compose.prepare(&bad.spec, &quiet).await.unwrap_err(),
        bench.compose.start(&bad).await.unwrap_err(),
    ] {
        assert_eq!(error.reason(), FailureReason::ImagePullFailed, "{error}");
        assert!(error.to_string().contains("service web: image localhost:1/none:9"), "{error}");
        assert_eq!(bench.moments(id).await, before);
        assert_eq!(listed(&bench, id).await.unwrap().revision, first.revision);
    }
    let third = start("shop", "r3", good("3"));
    bench.compose.start(&third).await.unwrap();
    assert_eq!(bench.say(id, "web", "echo $V").await, "3");
    assert_eq!(bench.say(id, "db", "cat /data/kept").await, "precious");
    bench.compose.remove(id, true).await.unwrap();
}

#[tokio::test]
async fn a_version_that_does_not_start_gives_way_to_the_last_good_one() {
    let bench = bench();
    let first = start("shop", "r1", good("1"));
    let id = &first.workload;
    bench.compose.start(&first).await.unwrap();
    bench.say(id, "db", "echo precious > /data/kept").await;
    let before = bench.moments(id).await;
    let image = crate::support::IMAGE;
    let bad = start("shop", "r2", pair(&format!("    image: {image}\n    command: [/nonesuch]\n")));
    let error = bench.compose.start(&bad).await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::InvalidSpec, "{error}");
    assert!(error.to_string().contains("service web"), "{error}");
    let seen = listed(&bench, id).await.unwrap();
    assert_eq!((seen.revision, seen.state), (first.revision.clone(), Existing::Running));
    assert_eq!(bench.say(id, "web", "echo $V").await, "1", "the old one runs again");
    assert_eq!(bench.say(id, "db", "cat /data/kept").await, "precious");
    let after = bench.moments(id).await;
    assert_eq!(after["db"], before["db"], "who had no part in it was not touched");
    bench.compose.start(&first).await.unwrap();
    assert_eq!(bench.moments(id).await, after, "what runs is not started again");
    bench.compose.start(&start("shop", "r3", good("3"))).await.unwrap();
    assert_eq!(bench.say(id, "web", "echo $V").await, "3");
    bench.compose.remove(id, true).await.unwrap();
    let (containers, networks, volumes) = bench.ours().await;
    assert_eq!((containers, networks, volumes.len()), (0, 0, 1), "its data stays");
}

#[tokio::test]
async fn a_first_start_that_fails_leaves_nothing_but_its_data() {
    let bench = bench();
    let image = crate::support::IMAGE;
    let bad = start("shop", "r1", pair(&format!("    image: {image}\n    command: [/nonesuch]\n")));
    let error = bench.compose.start(&bad).await.unwrap_err();
    assert!(matches!(error.outcome(), Outcome::Failed(_)), "{error}");
    let (containers, networks, volumes) = bench.ours().await;
    assert_eq!((containers, networks, volumes.len()), (0, 0, 1));
    assert_eq!(bench.compose.inspect(&bad.workload).await.unwrap(), None);
    bench.compose.remove(&bad.workload, true).await.unwrap();
    let (containers, networks, volumes) = bench.ours().await;
    assert_eq!((containers, networks, volumes.len()), (0, 0, 1), "its data stays");
}

#[tokio::test]
async fn a_killed_service_comes_back_and_the_others_are_not_touched() {
    let bench = bench();
    let order = start("shop", "r1", good("1"));
    let id = &order.workload;
    bench.compose.start(&order).await.unwrap();
    let before = bench.moments(id).await;
    let web = bench.service(id, "web").await;
    bench.raw.kill_container(&web.id, None::<KillContainerOptions>).await.unwrap();
    bench.until(id, &Existing::Exited { code: 137 }).await;
    let end = bench.compose.evidence(id).await.unwrap().expect("it ended");
    assert_eq!((end.service.as_deref(), end.signal), (Some("web"), Some(9)));
    bench.compose.start(&order).await.unwrap();
    let after = bench.moments(id).await;
    assert_eq!(after["db"], before["db"]);
    assert_eq!(after["web"].0, before["web"].0, "the same container");
    assert_ne!(after["web"].1, before["web"].1, "started again");
    assert_eq!(listed(&bench, id).await.unwrap().state, Existing::Running);

    // Somebody removes it altogether.
    let options = bollard::query_parameters::RemoveContainerOptionsBuilder::default();
    bench.raw.remove_container(&web.id, Some(options.force(true).build())).await.unwrap();
    assert_eq!(listed(&bench, id).await.unwrap().state, Existing::Created, "it is not whole");
    bench.compose.start(&order).await.unwrap();
    assert_eq!(listed(&bench, id).await.unwrap().state, Existing::Running);
    assert_eq!(bench.moments(id).await["db"], before["db"]);
    bench.compose.remove(id, true).await.unwrap();
}

#[tokio::test]
async fn an_agent_that_forgot_finds_its_stack_and_touches_nothing() {
    let bench = bench();
    let order = start("shop", "r1", good("1"));
    let id = &order.workload;
    bench.compose.start(&order).await.unwrap();
    let before = bench.moments(id).await;
    let next = bench.reborn();
    assert_eq!(next.list().await.unwrap()[0].revision, order.revision, "its disk remembers");
    std::fs::remove_dir_all(&bench.folder).unwrap();
    let blank = bench.reborn();
    let seen = blank.list().await.unwrap().remove(0);
    assert_ne!(seen.revision, order.revision, "nobody knows its revision");
    assert_eq!(seen.state, Existing::Running);
    blank.start(&order).await.unwrap();
    assert_eq!(blank.list().await.unwrap()[0].revision, order.revision);
    assert_eq!(bench.moments(id).await, before, "it was what was wanted");
    blank.remove(id, true).await.unwrap();
    let (containers, networks, volumes) = bench.ours().await;
    assert_eq!((containers, networks, volumes.len()), (0, 0, 1), "its data stays");
}
