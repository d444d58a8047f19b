//! A trace goes through whoever passes a request on.

use std::time::{Duration, Instant};

use persys_cluster::settings::Settings;
use persys_collector::{Collector, Seen};
use persys_telemetry::trace::{self, Exporting, Pairs, Sampling};
use tonic::Request;

use crate::rig::{PATIENCE, Rig, container};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

fn to(collector: &Collector) -> trace::Settings {
    trace::Settings {
        endpoint: trace::Settings::endpoint(&collector.at.to_string(), true).unwrap(),
        roots: None,
        service: "persys-scheduler".to_owned(),
        instance: None,
        attributes: Pairs::default(),
        headers: Pairs::default(),
        sampling: Sampling { ratio: 1.0, follows: true },
    }
}

/// Has somebody at the second scheduler ask for something on this trail.
async fn ask(rig: &Rig, name: &str, flags: &str) {
    let mut request = Request::new(container(name));
    let parent = format!("00-{TRACE}-{CALLER}-{flags}").parse().unwrap();
    request.metadata_mut().insert("traceparent", parent);
    rig.operator(1).await.apply_workload(request).await.unwrap();
}

/// The spans of what was asked, once there are so many. That of the one who passes on ends after its
/// answer has left.
async fn served(exporting: &Exporting, collector: &Collector, count: usize) -> Vec<Seen> {
    let deadline = Instant::now() + PATIENCE;
    let is_served = |span: &Seen| span.trace == TRACE && span.name.ends_with("/ApplyWorkload");
    loop {
        exporting.flush(Duration::from_secs(5)).await;
        let served: Vec<Seen> = collector.spans().into_iter().filter(is_served).collect();
        if served.len() >= count || Instant::now() > deadline {
            return served;
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_passed_on_has_a_span_at_both_schedulers_one_below_the_other() {
    let collector = Collector::start().await.unwrap();
    let exporting = trace::export(&to(&collector)).unwrap();
    let starting = Rig::start(2, true, Settings::default());
    let rig = trace::scope(exporting.home(), starting).await;
    ask(&rig, "unsampled", "00").await;
    ask(&rig, "traced", "01").await;
    let served = served(&exporting, &collector, 2).await;
    let [one, other] = served.as_slice() else { panic!("{served:?}") };
    let (above, below) = if one.parent == CALLER { (one, other) } else { (other, one) };
    assert_eq!((above.parent.as_str(), &below.parent), (CALLER, &above.id), "{served:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_who_writes_nothing_down_passes_the_trace_on_as_it_came() {
    let collector = Collector::start().await.unwrap();
    let exporting = trace::export(&to(&collector)).unwrap();
    let starting = Rig::start(1, true, Settings::default());
    let mut rig = trace::scope(exporting.home(), starting).await;
    rig.add_scheduler().await;
    ask(&rig, "traced", "01").await;
    let served = served(&exporting, &collector, 1).await;
    let [only] = served.as_slice() else { panic!("{served:?}") };
    assert_eq!(only.parent, CALLER);
}
