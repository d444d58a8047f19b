//! Containers that run and do nothing any more: their main process waits in the kernel without end, or the
//! daemon answers for others and not for them.
//!
//! A list never tells: the daemon shows the last state it knows. So whatever runs is asked about, each
//! container at most once in [`EVERY`], and its main process is looked at where the daemon is on this
//! host.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use bollard::query_parameters::InspectContainerOptions;
use futures::StreamExt as _;
use futures::stream;
use tokio::time::Instant;

use crate::error::Error;

use super::Docker;
use super::call;

/// Shortest time between two questions about one container.
const EVERY: Duration = Duration::from_secs(15);
/// Time in which the daemon answers for one container, or not at all.
const PATIENCE: Duration = Duration::from_secs(5);
/// Questions under way at a time.
const AT_A_TIME: usize = 8;
/// Time between two looks at a process that waits in the kernel, and looks after which it is stuck. One
/// that waits for a slow disk moves on in between.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
const LOOKS: usize = 4;

/// Health of running containers as last probed.
#[derive(Debug, Default)]
pub(super) struct Probes(Mutex<BTreeMap<String, Probe>>);

#[derive(Debug, Clone)]
struct Probe {
    asked: Instant,
    stuck: Option<Arc<str>>,
}

/// The main process of a container, as the kernel shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Process {
    waits: bool,
    /// Switches to and from it: one that is stuck has none.
    switches: u64,
}

enum Answer {
    /// Its main process, if it has one.
    Yes(Option<i64>),
    No,
}

impl Docker {
    /// The same daemon, with a memory of its own of what was asked about: stacks and containers are looked
    /// at apart.
    pub(crate) fn apart(mut self) -> Self {
        self.probes = Arc::default();
        self
    }

    /// Those of `running` that are stuck, by container id, with the sign of it.
    pub(crate) async fn stuck(
        &self,
        running: Vec<String>,
    ) -> Result<BTreeMap<String, Arc<str>>, Error> {
        let due = self.probes.due(&running);
        let asked = stream::iter(due).map(|id| async move {
            let answer = self.answers_for(&id).await;
            (id, answer)
        });
        let answers: Vec<_> = asked.buffer_unordered(AT_A_TIME).collect().await;
        let silent = answers.iter().filter(|(_, answer)| matches!(answer, Answer::No)).count();
        if silent > 0 {
            // A daemon that answers nobody says nothing about one container.
            let client = self.client()?;
            call::ask("list", self.settings.deadlines.ask, client.ping()).await?;
        }
        // One that answers hardly anybody is slow.
        let slow = silent > 1 && silent * 2 > answers.len();
        let mut waiting = Vec::new();
        for (id, answer) in answers {
            let stuck = match answer {
                Answer::No if slow => None,
                Answer::No => Some(Arc::from(format!(
                    "Docker answers for other containers and not for this one (asked for {} s)",
                    PATIENCE.as_secs()
                ))),
                Answer::Yes(pid) => {
                    waiting.extend(pid.map(|pid| (id.clone(), pid)));
                    None
                }
            };
            self.probes.note(id, stuck);
        }
        for (id, why) in self.wait_without_end(waiting).await {
            self.probes.note(id, Some(why));
        }
        Ok(self.probes.stuck())
    }

    async fn answers_for(&self, id: &str) -> Answer {
        let Ok(client) = self.client() else { return Answer::Yes(None) };
        let limit = PATIENCE.min(self.settings.deadlines.ask);
        let asked = client.inspect_container(id, None::<InspectContainerOptions>);
        match call::find("inspect", limit, asked).await {
            Ok(found) => {
                let here = self.settings.host.starts_with("unix://");
                Answer::Yes(found.and_then(|raw| raw.state?.pid).filter(|pid| here && *pid > 0))
            }
            Err(Error::NoAnswer { .. }) => Answer::No,
            // Whatever else is wrong with the daemon shows in the list.
            Err(_) => Answer::Yes(None),
        }
    }

    /// Those whose main process is in state D at every look and never ran in between.
    async fn wait_without_end(&self, mut pids: Vec<(String, i64)>) -> Vec<(String, Arc<str>)> {
        let mut before: BTreeMap<i64, Process> = BTreeMap::new();
        for look in 0..LOOKS {
            if look > 0 {
                tokio::time::sleep(LOOK_AGAIN).await;
            }
            let mut now = BTreeMap::new();
            for (_, pid) in &pids {
                let status = tokio::fs::read_to_string(format!("/proc/{pid}/status")).await;
                if let Some(process) = status.ok().and_then(|text| read_status(&text)) {
                    now.insert(*pid, process);
                }
            }
            pids.retain(|(_, pid)| {
                let Some(process) = now.get(pid).filter(|process| process.waits) else {
                    return false;
                };
                look == 0 || before.get(pid) == Some(process)
            });
            if pids.is_empty() {
                return Vec::new();
            }
            before = now;
        }
        let why = "its main process waits in the kernel without end (state D)";
        pids.into_iter().map(|(id, _)| (id, Arc::from(why))).collect()
    }
}

impl Probes {
    /// Those to ask about now; all others that do not run any more are forgotten. What is stuck is asked
    /// about at every look: it may be well again.
    fn due(&self, running: &[String]) -> Vec<String> {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let there: BTreeSet<&String> = running.iter().collect();
        known.retain(|id, _| there.contains(id));
        let fresh = |id: &&String| {
            known
                .get(*id)
                .is_none_or(|probe| probe.stuck.is_some() || probe.asked.elapsed() >= EVERY)
        };
        running.iter().filter(fresh).cloned().collect()
    }

    fn note(&self, id: String, stuck: Option<Arc<str>>) {
        let mut known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        known.insert(id, Probe { asked: Instant::now(), stuck });
    }

    fn stuck(&self) -> BTreeMap<String, Arc<str>> {
        let known = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stuck = known.iter().filter_map(|(id, probe)| Some((id.clone(), probe.stuck.clone()?)));
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

    #[tokio::test(start_paused = true)]
    async fn each_is_asked_about_once_in_a_while_and_what_is_stuck_always() {
        let probes = Probes::default();
        let all = ["a".to_owned(), "b".to_owned()];
        assert_eq!(probes.due(&all), all);
        probes.note("a".to_owned(), None);
        probes.note("b".to_owned(), Some(Arc::from("why")));
        assert_eq!(probes.due(&all), ["b"]);
        tokio::time::advance(EVERY).await;
        assert_eq!(probes.due(&all), all);
        assert_eq!(probes.due(&all[..1]), ["a"]);
        assert!(probes.stuck().is_empty(), "what does not run is forgotten");
    }
}
