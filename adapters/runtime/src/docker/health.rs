//! Health checks that Docker runs: the one of an image, and a command of the spec.

use std::sync::{Arc, PoisonError};

use bollard::models::{
    ContainerInspectResponse, ContainerSummary, Health as DockerHealth, HealthConfig,
    HealthStatusEnum, ImageInspect,
};
use persys_model::health::{Health, HealthState};
use persys_model::spec::Spec;
use persys_model::spec::health::{Check, Probe};
use persys_node::input::ImageHealth;

use crate::error::Error;
use crate::runtime::Start;

use super::Docker;
use super::image::with_tag;

/// Images that are remembered; whoever starts more looks at some again.
const MOST_IMAGES: usize = 256;

/// The check a container is made with; `None` leaves it to its image.
pub(super) fn config(spec: &Spec) -> Option<HealthConfig> {
    if spec.health.silences_runtime() {
        let test = Some(vec!["NONE".to_owned()]);
        return Some(HealthConfig { test, ..HealthConfig::default() });
    }
    let check = spec.health.check()?;
    let Probe::Exec(words) = &check.probe else { return None };
    let Check { interval_ms, timeout_ms, start_period_ms, retries, .. } = &**check;
    let test = std::iter::once("CMD".to_owned()).chain(words.iter().map(ToString::to_string));
    Some(HealthConfig {
        test: Some(test.collect()),
        interval: Some(nanos(*interval_ms)),
        timeout: Some(nanos(*timeout_ms)),
        start_period: Some(nanos(*start_period_ms)),
        retries: Some(i64::from(*retries)),
        ..HealthConfig::default()
    })
}

fn nanos(ms: u64) -> i64 {
    i64::try_from(ms.saturating_mul(1_000_000)).unwrap_or(i64::MAX)
}

/// The verdict in a list, which tells it in the words after the time.
pub(crate) fn summary_state(summary: &ContainerSummary) -> Option<HealthState> {
    let words = summary.status.as_deref()?;
    if words.ends_with("(healthy)") {
        Some(HealthState::Healthy)
    } else if words.ends_with("(unhealthy)") {
        Some(HealthState::Unhealthy)
    } else if words.ends_with("(health: starting)") {
        Some(HealthState::Starting)
    } else {
        None
    }
}

/// The verdict of an inspection.
pub(crate) fn inspected(raw: &ContainerInspectResponse) -> Option<ImageHealth> {
    let health = raw.state.as_ref()?.health.as_ref()?;
    let state = match health.status? {
        HealthStatusEnum::STARTING => HealthState::Starting,
        HealthStatusEnum::HEALTHY => HealthState::Healthy,
        HealthStatusEnum::UNHEALTHY => HealthState::Unhealthy,
        HealthStatusEnum::EMPTY | HealthStatusEnum::NONE => return None,
    };
    let detail = if state == HealthState::Unhealthy { last_failure(health) } else { String::new() };
    Some(ImageHealth { state, blamed: Arc::from(""), detail: Health::unhealthy(&detail).detail })
}

/// The last check that failed, and its output.
fn last_failure(health: &DockerHealth) -> String {
    let log = health.log.iter().flatten();
    let failed = |code: Option<i64>| code.is_some_and(|code| code != 0);
    let Some(last) = log.rev().find(|result| failed(result.exit_code)) else {
        return "its checks failed".to_owned();
    };
    let output = last.output.as_deref().unwrap_or_default().trim();
    match (last.exit_code.unwrap_or_default(), output) {
        // Docker's own words: the check took too long, or could not be run.
        (-1, words) if !words.is_empty() => words.to_owned(),
        (code, "") => format!("its check ended with exit code {code}"),
        (code, output) => format!("its check ended with exit code {code}: {output}"),
    }
}

impl Docker {
    /// The verdict on one container of a list. What failed is told only by the container itself.
    pub(crate) async fn listed_health(
        &self,
        summary: &ContainerSummary,
    ) -> Result<Option<ImageHealth>, Error> {
        let Some(state) = summary_state(summary) else { return Ok(None) };
        if state != HealthState::Unhealthy {
            return Ok(Some(ImageHealth::of_one(state, "")));
        }
        let raw = match &summary.id {
            Some(id) => self.inspect_raw(id).await?,
            None => None,
        };
        Ok(raw.as_ref().and_then(inspected).or_else(|| Some(ImageHealth::of_one(state, ""))))
    }

    /// The verdict on a container that was just started: no check has run, if there is one.
    pub(super) async fn first_verdict(&self, start: &Start, image: &str) -> Option<ImageHealth> {
        let health = &start.spec.health;
        let is_checked = match (health.silences_runtime(), health.check()) {
            (true, _) => false,
            (false, Some(_)) => true,
            (false, None) => self.is_checked(image).await,
        };
        is_checked.then(|| ImageHealth::of_one(HealthState::Starting, ""))
    }

    /// True if an image has a check of its own. Each start looks at its image first, so this is known.
    async fn is_checked(&self, image: &str) -> bool {
        let name = with_tag(image);
        let known = |name: &str| {
            self.checked.lock().unwrap_or_else(PoisonError::into_inner).get(name).copied()
        };
        match known(&name) {
            Some(checked) => checked,
            None => self.has(image).await.is_ok() && known(&name) == Some(true),
        }
    }

    /// Remembers whether an image has a check.
    pub(super) fn note_image(&self, name: &str, found: &ImageInspect) {
        let check = found.config.as_ref().and_then(|config| config.healthcheck.as_ref());
        let first = check.and_then(|check| check.test.as_ref()).and_then(|test| test.first());
        let checked = first.is_some_and(|word| word != "NONE");
        let mut images = self.checked.lock().unwrap_or_else(PoisonError::into_inner);
        if images.len() >= MOST_IMAGES {
            images.clear();
        }
        images.insert(name.to_owned(), checked);
    }
}

#[cfg(test)]
mod tests {
    use bollard::models::{ContainerState, HealthcheckResult};

    use super::*;

    fn raw(status: HealthStatusEnum, results: &[(i64, &str)]) -> ContainerInspectResponse {
        let result = |(code, output): &(i64, &str)| HealthcheckResult {
            exit_code: Some(*code),
            output: Some((*output).to_owned()),
            ..HealthcheckResult::default()
        };
        let log = Some(results.iter().map(result).collect());
        let health = DockerHealth { status: Some(status), log, ..DockerHealth::default() };
        let state = ContainerState { health: Some(health), ..ContainerState::default() };
        ContainerInspectResponse { state: Some(state), ..ContainerInspectResponse::default() }
    }

    #[test]
    fn the_last_failed_check_is_quoted() {
        let told = |results: &[(i64, &str)]| {
            inspected(&raw(HealthStatusEnum::UNHEALTHY, results)).unwrap().detail.to_string()
        };
        assert_eq!(told(&[(0, "ok"), (1, "no db\n")]), "its check ended with exit code 1: no db");
        assert_eq!(told(&[(7, "")]), "its check ended with exit code 7");
        let late = "Health check exceeded timeout (1s)";
        assert_eq!(told(&[(-1, late)]), late);
        assert_eq!(told(&[]), "its checks failed");
        let long = "x".repeat(4096);
        assert!(told(&[(1, &long)]).len() <= Health::DETAIL_LIMIT);
    }

    #[test]
    fn a_container_without_a_check_has_no_health() {
        assert_eq!(inspected(&raw(HealthStatusEnum::NONE, &[])), None);
        assert_eq!(inspected(&ContainerInspectResponse::default()), None);
    }

    #[test]
    fn lists_tell_the_verdict_in_words() {
        let state = |words: &str| {
            let status = Some(words.to_owned());
            summary_state(&ContainerSummary { status, ..ContainerSummary::default() })
        };
        assert_eq!(state("Up 5 seconds (health: starting)"), Some(HealthState::Starting));
        assert_eq!(state("Up 5 minutes (healthy)"), Some(HealthState::Healthy));
        assert_eq!(state("Up About an hour (unhealthy)"), Some(HealthState::Unhealthy));
        assert_eq!(state("Up 5 minutes"), None);
        assert_eq!(state("Up 5 minutes (Paused)"), None);
    }
}
