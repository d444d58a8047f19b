//! The word with which an agent that ends in good order lets its watchdog go.
//!
//! An agent that was killed may have asked for a start that is still on its way, so its watchdog stays
//! until the lease is over. One that was told to stop knows whether it was to run anything exclusive:
//! if not, nothing of the kind can begin any more, and the watchdog need only see that nothing runs.

use std::fs;
use std::io;
use std::path::Path;

use persys_node::ledger::Ledger;

use crate::ledger::exclusive;

const FILE: &str = "watchdog.released";

/// Says that this agent has ended and left nothing exclusive to be started, if that is so. After this
/// it must start nothing.
pub(crate) fn release(dir: &Path, boot: &str, ledger: &Ledger) -> io::Result<bool> {
    if ledger.intents.values().any(exclusive::may_be_exclusive) {
        return Ok(false);
    }
    exclusive::unmark(dir)?;
    let new = dir.join(format!("{FILE}.new"));
    fs::write(&new, word(boot, std::process::id()))?;
    fs::rename(&new, dir.join(FILE)).map(|()| true)
}

/// Takes the word of an earlier agent back.
pub(super) fn forget(dir: &Path) {
    if let Err(error) = fs::remove_file(dir.join(FILE))
        && error.kind() != io::ErrorKind::NotFound
    {
        tracing::warn!(%error, "an earlier agent's word to its watchdog stays");
    }
}

/// Whether this agent has let its watchdog go.
pub(super) fn is_released(dir: &Path, boot: &str, agent: u32) -> bool {
    !boot.is_empty()
        && fs::read_to_string(dir.join(FILE)).is_ok_and(|text| text == word(boot, agent))
}

/// Numbers of processes come again after the machine started anew.
fn word(boot: &str, agent: u32) -> String {
    format!("{boot} {agent}")
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use persys_model::id::{RevisionId, WorkloadId};
    use persys_model::resources::Resources;
    use persys_model::spec::{Class, ContainerSpec, Kind, Placement, Spec};
    use persys_model::token::Epoch;
    use persys_node::ledger::{Goal, Intent};

    use super::*;

    fn ledger(class: Option<Class>) -> Ledger {
        let spec = class.map(|class| {
            Arc::new(Spec {
                kind: Kind::Container(ContainerSpec::default()),
                resources: Resources::default(),
                placement: Placement { class, ..Placement::default() },
                metadata: BTreeMap::new(),
                secrets: Vec::new(),
                stop_grace_ms: None,
                health: persys_model::spec::health::HealthChecks::default(),
            })
        });
        let intent = Intent {
            epoch: Epoch(1),
            revision: RevisionId::fixed("r1"),
            goal: Goal::Run,
            spec,
            secrets: Arc::default(),
            restarts: 0,
            gave_up: None,
            kept: false,
            completed: false,
            started: false,
            untold: std::collections::BTreeSet::new(),
        };
        let intents = BTreeMap::from([(WorkloadId::new("db").unwrap(), intent)]);
        Ledger { intents, ..Ledger::default() }
    }

    #[test]
    fn only_an_agent_without_exclusive_work_lets_its_watchdog_go() {
        let dir = tempfile::tempdir().unwrap();
        let (dir, own) = (dir.path(), std::process::id());
        for kept in [Some(Class::Exclusive), None] {
            assert!(!release(dir, "b1", &ledger(kept)).unwrap());
            assert!(!is_released(dir, "b1", own), "{kept:?}");
        }
        assert!(release(dir, "b1", &ledger(Some(Class::Default))).unwrap());
        assert!(is_released(dir, "b1", own));
        assert!(!is_released(dir, "b1", own + 1), "that is the word of another agent");
        assert!(!is_released(dir, "b2", own), "that was before the machine started anew");
        forget(dir);
        assert!(!is_released(dir, "b1", own));
        assert!(release(dir, "b1", &Ledger::default()).unwrap());
    }
}
