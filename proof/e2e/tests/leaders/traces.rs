//! A trace goes through whoever passes a request on.

use std::time::{Duration, Instant};

use persys_cluster::settings::Settings;
use persys_collector::{Collector, Seen};
use persys_telemetry::trace::{self, Pairs, Sampling};
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_request_that_is_passed_on_has_a_span_at_both_schedulers_one_below_the_other() {
    let collector = Collector::start().await.unwrap();
    let exporting = trace::export(&to(&collector)).unwrap();
    let starting = Rig::start(2, true, Settings::default());
    let rig = trace::scope(exporting.home(), starting).await;
    let mut request = Request::new(container("traced"));
    let parent = format!("00-{TRACE}-{CALLER}-01").parse().unwrap();
    request.metadata_mut().insert("traceparent", parent);
    rig.operator(1).await.apply_workload(request).await.unwrap();

    // The span of the one who passes on ends after its answer has left.
    let deadline = Instant::now() + PATIENCE;
    let is_served = |span: &Seen| span.trace == TRACE && span.name.ends_with("/ApplyWorkload");
    let served = loop {
        exporting.flush(Duration::from_secs(5)).await;
        let served: Vec<Seen> = collector.spans().into_iter().filter(is_served).collect();
        if served.len() >= 2 || Instant::now() > deadline {
            break served;
        }
    };
    let [one, other] = served.as_slice() else { panic!("{served:?}") };
    let (above, below) = if one.parent == CALLER { (one, other) } else { (other, one) };
    assert_eq!((above.parent.as_str(), &below.parent), (CALLER, &above.id), "{served:?}");
}
