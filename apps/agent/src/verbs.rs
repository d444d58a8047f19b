//! Carrying out one verb on a runtime.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use persys_model::id::WorkloadId;
use persys_node::effects::{Run, Verb};
use persys_node::input::{Input, Outcome};
use persys_runtime::runtime::Fetched;
use persys_runtime::{Error, Runtime, Start};

/// How long a workload may take to end by itself before it is ended.
const STOP_GRACE: Duration = Duration::from_secs(10);

/// Carries out a verb and tells how it went.
pub(crate) async fn run(runtime: Arc<dyn Runtime>, run: Run) -> (Input, Result<(), String>) {
    let Run { id, workload, verb } = run;
    let result = carry_out(runtime.as_ref(), &workload, verb).await;
    let told = result.as_ref().copied().map_err(ToString::to_string);
    let outcome = match result {
        Ok(()) => Outcome::Done,
        Err(error) => error.outcome(),
    };
    (Input::Done { verb: id, workload, outcome }, told)
}

async fn carry_out(runtime: &dyn Runtime, workload: &WorkloadId, verb: Verb) -> Result<(), Error> {
    match verb {
        Verb::Start { epoch, revision, spec, not_after } => {
            let named = workload.clone();
            let progress = move |fetched: Fetched| {
                tracing::debug!(workload = %named, parts = fetched.parts, of = fetched.of_parts, "fetching");
            };
            runtime.prepare(&spec, &progress).await?;
            let volumes = BTreeMap::new();
            let workload = workload.clone();
            runtime.start(&Start { workload, revision, epoch, spec, volumes, not_after }).await
        }
        Verb::Stop => runtime.stop(workload, STOP_GRACE).await,
        Verb::Remove { purge } => runtime.remove(workload, purge).await,
    }
}
