//! Containers that run and do nothing any more: their main process waits in the kernel without end, or the
//! daemon answers for others and not for them.
//!
//! A list never tells: the daemon shows the last state it knows. So whatever runs is asked about when the
//! agent probes, and its main process is looked at where the daemon is on this host. Between two probes
//! only what is new, and what is stuck, is asked about.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bollard::query_parameters::InspectContainerOptions;
use futures::StreamExt as _;
use futures::future::join;
use futures::stream;
use persys_node::settings::PROBE_ANSWER_MS;

use tokio::time::{Instant, timeout_at};

use crate::error::Error;

use super::Docker;
use super::call;

/// Time in which the daemon answers for one container, or not at all.
const PATIENCE: Duration = Duration::from_millis(PROBE_ANSWER_MS);
/// Questions under way at a time, of those known to be stuck and of all others. More than these that become
/// stuck at once are found one [`PATIENCE`] later.
const AT_A_TIME: usize = 8;
/// Time between two looks at a process that waits in the kernel, and looks after which it is stuck. One
/// that waits for a slow disk moves on in between.
const LOOK_AGAIN_MS: u64 = 1_000;
const LOOKS: u64 = 4;
const _: () = assert!(
    LOOKS * LOOK_AGAIN_MS <= PROBE_ANSWER_MS,
    "a process is judged within the time of one question"
);

/// Running containers as last asked about: the sign by which one is stuck, or none.
#[derive(Debug, Default)]
pub(super) struct Probes(Mutex<BTreeMap<String, Option<Arc<str>>>>);

/// The main process of a container, as the kernel shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    waits: bool,
    /// Switches to and from it: one that is stuck has none.
    switches: u64,
}

enum Answer {
    Yes,
    /// Its main process is in state D at every look and never ran in between.
    WaitsWithoutEnd,
    No,
}

impl Docker {
    /// The same daemon, with a memory of its own of what was asked about: stacks and containers are looked
    /// at apart.
    pub(crate) fn apart(mut self) -> Self {
        self.probes = Arc::default();
        self
    }

    /// Those of `running` that are stuck, by container id, with the sign of it. With `probe` all of them
    /// are asked about.
    pub(crate) async fn stuck(
        &self,
        running: Vec<String>,
        probe: bool,
    ) -> Result<BTreeMap<String, Arc<str>>, Error> {
        let (stuck, due) = self.probes.due(&running, probe);
        // What is stuck keeps nobody else waiting.
        let (mut answers, others) = join(self.answers(stuck), self.answers(due)).await;
        answers.extend(others);
        let silent = answers.iter().filter(|(_, answer)| matches!(answer, Answer::No)).count();
        if silent > 0 {
            // A daemon that answers nobody says nothing about one container.
            let client = self.client()?;
            call::ask("list", self.settings.deadlines.ask, client.ping()).await?;
        }
        // One that answers hardly anybody is slow.
        let slow = silent > 1 && silent * 2 > answers.len();
        for (id, answer) in answers {
            let stuck = match answer {
                Answer::Yes => None,
                Answer::No if slow => None,
                Answer::No => Some(Arc::from(format!(
                    "Docker answers for other containers and not for this one (asked for {} s)",
                    PATIENCE.as_secs()
                ))),
                Answer::WaitsWithoutEnd => {
                    Some(Arc::from("its main process waits in the kernel without end (state D)"))
                }
            };
            self.probes.note(id, stuck);
        }
        Ok(self.probes.stuck())
    }

    async fn answers(&self, ids: Vec<String>) -> Vec<(String, Answer)> {
        let asked = stream::iter(ids).map(|id| async move {
            let answer = self.answers_for(&id).await;
            (id, answer)
        });
        asked.buffer_unordered(AT_A_TIME).collect().await
    }

    async fn answers_for(&self, id: &str) -> Answer {
        let Ok(client) = self.client() else { return Answer::Yes };
        let until = Instant::now() + PATIENCE;
        let limit = PATIENCE.min(self.settings.deadlines.ask);
        let asked = client.inspect_container(id, None::<InspectContainerOptions>);
        match call::find("inspect", limit, asked).await {
            Ok(found) => {
                let here = self.settings.host.starts_with("unix://");
                let pid = found.and_then(|raw| raw.state?.pid).filter(|pid| here && *pid > 0);
                // After a late answer there may be no time for all looks: the next probe has it.
                let waits = match pid {
                    Some(pid) => timeout_at(until, waits_without_end(pid)).await == Ok(true),
                    None => false,
                };
                if waits { Answer::WaitsWithoutEnd } else { Answer::Yes }
            }
            Err(Error::NoAnswer { .. }) => Answer::No,
            // Whatever else is wrong with the daemon shows in the list.
            Err(_) => Answer::Yes,
        }
    }
}

/// True for a process that is in state D at every look and never ran in between.
async fn waits_without_end(pid: i64) -> bool {
    let mut before = None;
    for look in 0..LOOKS {
        if look > 0 {
            tokio::time::sleep(Duration::from_millis(LOOK_AGAIN_MS)).await;
        }
        let status = tokio::fs::read_to_string(format!("/proc/{pid}/status")).await;
        let Some(now) = status.ok().and_then(|text| read_status(&text)) else { return false };
        if !now.waits || before.is_some_and(|before| before != now) {
            return false;
        }
        before = Some(now);
    }
    true
}

impl Probes {
    /// Those to ask about now: the ones that are stuck, which may be well again, and others. All that do
    /// not run any more are forgotten.
    fn due(&self, running: &[String], probe: bool) -> (Vec<String>, Vec<String>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let there: BTreeSet<&String> = running.iter().collect();
        known.retain(|id, _| there.contains(id));
        let stuck = |id: &&String| known.get(*id).is_some_and(Option::is_some);
        let (stuck, others): (Vec<_>, Vec<_>) = running.iter().partition(stuck);
        let due = others.into_iter().filter(|id| probe || !known.contains_key(*id));
        (stuck.into_iter().cloned().collect(), due.cloned().collect())
    }

    fn note(&self, id: String, stuck: Option<Arc<str>>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(id, stuck);
    }

    fn stuck(&self) -> BTreeMap<String, Arc<str>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stuck = known.iter().filter_map(|(id, stuck)| Some((id.clone(), stuck.clone()?)));
        stuck.collect()
    }
}

/// Reads `/proc/<pid>/status`.
fn read_status(text: &str) -> Option<Process> {
    let field = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim_start_matches(':').split_whitespace().next()
    };
    let switches: u64 = field("voluntary_ctxt_switches")?.parse().ok()?;
    let forced: u64 = field("nonvoluntary_ctxt_switches")?.parse().ok()?;
    let waits = field("State")? == "D";
    Some(Process { waits, switches: switches.saturating_add(forced) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_read_as_the_kernel_shows_it() {
        let text = "Name:\tcat\nState:\tD (disk sleep)\nvoluntary_ctxt_switches:\t3\n\
                    nonvoluntary_ctxt_switches:\t4\n";
        assert_eq!(read_status(text), Some(Process { waits: true, switches: 7 }));
        let text = text.replace("D (disk sleep)", "S (sleeping)");
        assert_eq!(read_status(&text), Some(Process { waits: false, switches: 7 }));
        assert_eq!(read_status("Name:\tcat\n"), None, "a kernel thread of another time");
    }

    #[test]
    fn a_probe_asks_about_all_and_a_glance_about_what_is_new_or_stuck() {
        let probes = Probes::default();
        let all = ["a".to_owned(), "b".to_owned()];
        let due = |running: &[String], probe| probes.due(running, probe);
        let none: [&str; 0] = [];
        assert_eq!(due(&all, false), (Vec::new(), all.to_vec()), "all are new");
        probes.note("a".to_owned(), None);
        probes.note("b".to_owned(), Some(Arc::from("why")));
        let (stuck, others) = due(&all, false);
        assert_eq!((stuck.as_slice(), others.as_slice()), (&all[1..], &all[..0]));
        let (stuck, others) = due(&all, true);
        assert_eq!((stuck.as_slice(), others.as_slice()), (&all[1..], &all[..1]));
        assert_eq!(due(&all[..1], true).0, none);
        assert!(probes.stuck().is_empty(), "what does not run is forgotten");
    }
}
