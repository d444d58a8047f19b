//! Carrying out one verb on a runtime.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use persys_model::id::WorkloadId;
use persys_node::effects::{Run, Verb};
use persys_node::input::{ImageHealth, Input, Outcome, Seen};
use persys_runtime::runtime::Fetched;
use persys_runtime::{Error, Refresh, Runtime, Start};

use crate::operations::part;
use crate::progress::ProgressReports;

/// The word for a verb.
pub(crate) fn word(verb: &Verb) -> &'static str {
    match verb {
        Verb::Start { .. } => "start",
        Verb::Prepare { .. } => "prepare",
        Verb::Refresh { .. } => "signal",
        Verb::Pause => "pause",
        Verb::Stop { .. } => "stop",
        Verb::Remove { .. } => "remove",
    }
}

/// Carries out a verb and tells how it went.
/// `progress` hears of signs that it goes on.
pub(crate) async fn run(
    runtime: Arc<dyn Runtime>,
    run: Run,
    progress: &ProgressReports,
) -> (Input, Result<(), String>) {
    let Run { id, workload, verb } = run;
    let mut found = Found::default();
    let result = carry_out(runtime.as_ref(), &workload, verb, (progress, &mut found)).await;
    let told = result.as_ref().copied().map_err(ToString::to_string);
    let outcome = match (result, found.kept) {
        (Ok(()), _) if found.started => Outcome::Started(found.health),
        (Ok(()), _) => Outcome::Done,
        (Err(error), Some(seen)) => match error.outcome() {
            Outcome::Failed(failure) => Outcome::Kept(failure, Box::new(seen)),
            outcome @ (Outcome::Done
            | Outcome::Started(_)
            | Outcome::Kept(..)
            | Outcome::Unknown) => outcome,
        },
        (Err(error), None) => error.outcome(),
    };
    (Input::Done { verb: id, workload, outcome }, told)
}

/// Facts about a workload that were found while a verb ran.
#[derive(Default)]
struct Found {
    /// The other revision that an update in place left running.
    kept: Option<Seen>,
    /// True if it was started.
    started: bool,
    /// Verdict of the checks that its runtime runs, right after its start.
    health: Option<ImageHealth>,
}

async fn carry_out(
    runtime: &dyn Runtime,
    workload: &WorkloadId,
    verb: Verb,
    (reports, found): (&ProgressReports, &mut Found),
) -> Result<(), Error> {
    let named = workload.clone();
    let progress = move |fetched: Fetched| {
        tracing::debug!(workload = %named, parts = fetched.parts, of = fetched.of_parts, "fetching");
        reports.moved(&named, fetched);
    };
    match verb {
        Verb::Start { epoch, revision, spec, secrets, not_after, resume } => {
            let volumes = BTreeMap::new();
            let workload = workload.clone();
            let start = Start {
                workload,
                revision,
                epoch,
                spec,
                volumes,
                secrets,
                secrets_at: None,
                not_after,
                resume,
            };
            let started = match part("prepare", runtime.prepare(&start.spec, &progress)).await {
                Ok(()) => part("run", runtime.start(&start)).await,
                Err(error) => Err(error),
            };
            match started {
                Err(error) if start.spec.kind.updates_in_place() && !error.is_unknown() => {
                    found.kept = what_runs(runtime, &start).await;
                    Err(error)
                }
                Ok(()) => {
                    found.started = true;
                    found.health = runtime.fresh_health(&start).await;
                    Ok(())
                }
                Err(error) => Err(error),
            }
        }
        Verb::Prepare { spec } => part("prepare", runtime.prepare(&spec, &progress)).await,
        Verb::Refresh { spec, secrets, changed } => {
            let workload = workload.clone();
            runtime.signal(&Refresh { workload, spec, secrets, changed }).await
        }
        Verb::Pause => runtime.pause(workload).await,
        Verb::Stop { within_ms } => runtime.stop(workload, within(within_ms)).await,
        Verb::Remove { purge, within_ms } => {
            if let Some(most) = within(within_ms) {
                runtime.stop(workload, Some(most)).await?;
            }
            runtime.remove(workload, purge).await
        }
    }
}

fn within(most_ms: Option<u64>) -> Option<Duration> {
    most_ms.map(Duration::from_millis)
}

/// What an update in place that failed left running in another revision.
async fn what_runs(runtime: &dyn Runtime, start: &Start) -> Option<Seen> {
    let seen = runtime.inspect(&start.workload).await.ok()??.seen;
    (seen.state.is_alive() && seen.revision != start.revision).then_some(seen)
}

#[cfg(test)]
mod tests {
    use persys_model::id::RevisionId;
    use persys_model::resources::Resources;
    use persys_model::spec::vm::CloudInit;
    use persys_model::spec::{Placement, Spec, VmSpec};
    use persys_model::token::Epoch;
    use persys_node::input::VerbId;
    use persys_runtime::Clock;
    use persys_runtime::sim::{Settings, Sim};

    use super::*;

    fn start(revision: &'static str, image: &str) -> Run {
        let machine = VmSpec {
            name: None,
            vcpus: 1,
            memory_mib: 32,
            disks: Vec::new(),
            networks: Vec::new(),
            cloud_init: CloudInit::default(),
            os_image: Some(Arc::from(image)),
            managed_volumes: Vec::new(),
            metadata: BTreeMap::new(),
        };
        let spec = Spec {
            kind: machine.into(),
            resources: Resources::default(),
            placement: Placement::default(),
            metadata: BTreeMap::new(),
            secrets: Vec::new(),
            stop_grace_ms: None,
            health: persys_model::spec::health::HealthChecks::default(),
        };
        let verb = Verb::Start {
            epoch: Epoch(1),
            revision: RevisionId::fixed(revision),
            spec: Arc::new(spec),
            secrets: Arc::default(),
            not_after: None,
            resume: false,
        };
        Run { id: VerbId(1), workload: WorkloadId::fixed("web"), verb }
    }

    #[tokio::test]
    async fn a_failed_update_in_place_says_what_runs() {
        let sim = Sim::new(Settings::default(), Clock::since_boot());
        let told = |revision, image| {
            let runtime: Arc<dyn Runtime> = Arc::new(sim.clone());
            async move {
                let (progress, _heard) = ProgressReports::new();
                let (done, _) = run(runtime, start(revision, image), &progress).await;
                let Input::Done { outcome, .. } = done else { panic!("{done:?}") };
                outcome
            }
        };
        let failed = told("r0", "fail:IMAGE_NOT_FOUND").await;
        assert!(matches!(failed, Outcome::Failed(_)), "nothing runs: {failed:?}");
        assert_eq!(told("r1", "web:1").await, Outcome::Started(None));
        // The first fails while it is prepared, the second while it is started.
        for image in ["fail:IMAGE_NOT_FOUND", "fail:RUNTIME_ERROR"] {
            let failed = told("r2", image).await;
            let Outcome::Kept(_, seen) = failed else { panic!("{failed:?}") };
            assert_eq!((seen.revision.as_str(), seen.state.is_alive()), ("r1", true));
        }
        assert_eq!(told("r3", "web:1").await, Outcome::Started(None));
    }
}
