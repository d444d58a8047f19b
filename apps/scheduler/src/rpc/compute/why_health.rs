//! Health in the explanation of a workload.

use persys_model::health::HealthState;

use super::why_workload::Asked;
use super::words::first_line;
use crate::moment::{ago, rfc3339};

impl Asked<'_> {
    /// What runs as it should, and what its checks say of it.
    pub(super) fn running(&self, since: &str) -> String {
        let (id, on) = (self.id(), self.on());
        let Some(known) = &self.view.assignment.health else {
            return format!("{id} runs{on}, since {since}");
        };
        let turned = ago(known.since, self.now);
        match known.health.state {
            HealthState::Healthy => format!("{id} runs{on}, since {since}"),
            HealthState::Starting => {
                format!("{id} runs{on}, since {since}; its health check has not passed yet")
            }
            HealthState::Unhealthy => format!(
                "{id} runs{on} and is unhealthy, since {turned}: {}",
                first_line(&known.health.detail)
            ),
        }
    }

    /// The verdict of its checks, or the reason there is none.
    pub(super) fn health_facts(&self) -> Option<String> {
        if let Some(why) = self.world.unchecked(self.id()) {
            return Some(why);
        }
        let known = self.view.assignment.health.as_ref()?;
        let (word, since) = (known.health.state.text(), rfc3339(known.since));
        Some(format!("health: {word} since {since} ({} ago)", ago(known.since, self.now)))
    }

    /// The rest of a failed check's output, which the summary has no room for.
    pub(super) fn check_output(&self) -> Vec<String> {
        let health = self.view.assignment.health.as_ref().map(|known| &known.health);
        let lines = health.into_iter().flat_map(|health| health.detail.lines().skip(1));
        lines.map(str::to_owned).collect()
    }

    /// True if its checks fail.
    pub(super) fn is_unhealthy(&self) -> bool {
        let health = self.view.assignment.health.as_ref();
        health.is_some_and(|known| known.health.state == HealthState::Unhealthy)
    }
}
