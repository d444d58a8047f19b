//! The indicator of the connection: it says within seconds that the data is old, since when, and comes
//! back by itself.

use std::time::{Duration, Instant};

use persys_browser::looks::assert_sound;
use persys_browser::proxy::{Manner, Proxy};
use persys_browser::tab::{Screen, Tab};
use persys_e2e::gateway;
use persys_e2e::stack::{Stack, Wire};
use serde_json::json;

/// Longest time until a failure is shown, with some room for a busy machine.
const SEEN_WITHIN: Duration = Duration::from_secs(4);
const ALL_WELL: &str = "return document.querySelector('.connection')?.textContent === 'Live' \
    && document.querySelector('.notice.bad') === null";

#[tokio::test(flavor = "multi_thread")]
async fn old_data_is_called_old_within_seconds_and_the_page_recovers_by_itself() {
    let mut stack = Stack::start(Wire::Plain).await;
    stack.add_agent("n1").await;
    let config = gateway::config(&[("east", stack.scheduler.grpc)]);
    let gateway = persys_gateway::app::start(config).await.expect("a gateway");
    let mut proxy = Proxy::before(gateway.public).await;
    let tab = Tab::open().await;
    tab.on(Screen::LAPTOP).await;
    tab.go(&format!("http://{}/", proxy.address)).await;
    tab.until(ALL_WELL, "it is live").await;
    tab.go_within("#/workloads").await;
    tab.run("window.sameAsBefore = true").await;

    for (nth, manner) in
        [Some(Manner::Unavailable), Some(Manner::Hung), None].into_iter().enumerate()
    {
        match manner {
            Some(manner) => proxy.set(manner),
            None => proxy.close(),
        }
        let begun = Instant::now();
        tab.sees(".connection.bad", "Not connected").await;
        assert!(begun.elapsed() < SEEN_WITHIN, "{manner:?}: {:?}", begun.elapsed());
        tab.sees(".connection", "data from ").await;
        tab.sees(".notice.bad", "The data on this page is from ").await;
        tab.sees(".notice.bad", "s old").await;
        for (screen, name) in [(Screen::PHONE, "phone"), (Screen::LAPTOP, "laptop")] {
            tab.on(screen).await;
            assert_sound(&tab, &format!("connection on a {name}")).await;
            tab.keep(&format!("connection-{nth}-{name}")).await;
        }
        let id = format!("meanwhile-{nth}");
        apply(gateway.public, &id).await;
        match manner {
            Some(_) => proxy.set(Manner::Pass),
            None => proxy.open().await,
        }
        let begun = Instant::now();
        tab.until(ALL_WELL, "it is live again").await;
        tab.sees("td .name", &id).await;
        assert!(begun.elapsed() < SEEN_WITHIN * 2, "{manner:?}: {:?}", begun.elapsed());
    }
    loses_the_stream_alone(&tab, &proxy).await;
    let same = tab.run("return window.sameAsBefore").await;
    assert_eq!(same, json!(true), "nobody had to load the page anew");
    tab.close().await;
    gateway.stop().await;
    stack.stop().await;
}

/// Lists are still read then, and the page says what it lacks.
async fn loses_the_stream_alone(tab: &Tab, proxy: &Proxy) {
    proxy.set(Manner::NoStream);
    let begun = Instant::now();
    tab.sees(".connection.warn", "Events interrupted").await;
    assert!(begun.elapsed() < SEEN_WITHIN, "{:?}", begun.elapsed());
    tab.sees(".connection", "since ").await;
    proxy.set(Manner::Pass);
    tab.until(ALL_WELL, "it is live again").await;
}

async fn apply(gateway: std::net::SocketAddr, id: &str) {
    let body = json!({"workload_id": id, "spec": {"container": {"image": "web"}}});
    let url = format!("http://{gateway}/v1/workloads");
    let answer = reqwest::Client::new().post(url).json(&body).send().await.expect("an answer");
    assert!(answer.status().is_success(), "{answer:?}");
}
