//! What workloads use, as their agents last said. Nothing is decided by it and nothing is stored: a
//! new process hears of it again within a minute.

use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

use persys_model::id::{NodeId, WorkloadId};
use persys_model::time::WallMillis;
use persys_proto::control::v1::{WorkloadUsageSnapshot, WorkloadView};
use persys_proto::convert::time::timestamp;

/// What was not told again for so long is not shown any more; agents tell everything once a minute.
const STALE_MS: u64 = 3 * 60 * 1000;
/// Most workloads of one node that are kept.
const MOST: usize = 4096;
/// More than any machine has, in hundredths of a core.
const MOST_CPU: f64 = 1_000_000.0;

type OfNode = BTreeMap<WorkloadId, (WallMillis, WorkloadUsageSnapshot)>;

/// What workloads use, by the node that says so: none speaks for another.
#[derive(Debug, Default)]
pub(crate) struct Usages(Mutex<BTreeMap<NodeId, OfNode>>);

impl Usages {
    fn all(&self) -> MutexGuard<'_, BTreeMap<NodeId, OfNode>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in what a node says. What makes no sense is left out.
    pub(crate) fn hear(&self, node: &NodeId, said: Vec<WorkloadUsageSnapshot>, now: WallMillis) {
        if said.is_empty() {
            return;
        }
        let mut all = self.all();
        let of_node = all.entry(node.clone()).or_default();
        of_node.retain(|_, (heard, _)| fresh(*heard, now));
        for one in said {
            let Ok(workload) = WorkloadId::new(&one.workload_id) else { continue };
            if sound(&one) && (of_node.len() < MOST || of_node.contains_key(&workload)) {
                of_node.insert(workload, (now, one));
            }
        }
    }

    /// A node begins a new life, or is no more.
    pub(crate) fn forget(&self, node: &NodeId) {
        self.all().remove(node);
    }

    /// Adds to a workload that is shown what its node says it uses.
    pub(crate) fn add_to(&self, view: &mut WorkloadView, now: WallMillis) {
        let ids = (NodeId::new(&view.assigned_node_id), WorkloadId::new(&view.workload_id));
        let (Ok(node), Ok(workload)) = ids else { return };
        let all = self.all();
        let Some((heard, said)) = all.get(&node).and_then(|of_node| of_node.get(&workload)) else {
            return;
        };
        if fresh(*heard, now) && view.status == "Running" {
            view.usage = Some(WorkloadUsageSnapshot {
                r#type: view.r#type.clone(),
                collected_at: said.collected_at.or_else(|| Some(timestamp(*heard))),
                ..said.clone()
            });
        }
    }
}

fn fresh(heard: WallMillis, now: WallMillis) -> bool {
    now.0.saturating_sub(heard.0) < STALE_MS
}

fn sound(one: &WorkloadUsageSnapshot) -> bool {
    let amounts = [
        one.memory_bytes,
        one.disk_read_bytes,
        one.disk_write_bytes,
        one.net_rx_bytes,
        one.net_tx_bytes,
    ];
    (0.0..=MOST_CPU).contains(&one.cpu_percent)
        && amounts.iter().all(|amount| *amount >= 0)
        && one.source.len() <= 64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(name: &str) -> NodeId {
        NodeId::new(name).unwrap()
    }

    fn says(workload: &str, cpu_percent: f64) -> WorkloadUsageSnapshot {
        let workload_id = workload.to_owned();
        WorkloadUsageSnapshot { workload_id, cpu_percent, ..WorkloadUsageSnapshot::default() }
    }

    fn shown(usages: &Usages, node: &str, workload: &str, now: u64) -> Option<f64> {
        let mut view = WorkloadView {
            workload_id: workload.to_owned(),
            assigned_node_id: node.to_owned(),
            status: "Running".to_owned(),
            ..WorkloadView::default()
        };
        usages.add_to(&mut view, WallMillis(now));
        view.usage.map(|usage| usage.cpu_percent)
    }

    #[test]
    fn a_node_speaks_for_what_runs_on_it_and_only_for_a_while() {
        let usages = Usages::default();
        usages.hear(&node("n1"), vec![says("web", 5.0)], WallMillis(1000));
        usages.hear(&node("n2"), vec![says("web", 99.0)], WallMillis(1000));
        assert_eq!(shown(&usages, "n1", "web", 2000), Some(5.0));
        assert_eq!(shown(&usages, "n3", "web", 2000), None);
        assert_eq!(shown(&usages, "n1", "db", 2000), None);
        assert_eq!(shown(&usages, "n1", "web", 1000 + STALE_MS), None);
        usages.forget(&node("n1"));
        assert_eq!(shown(&usages, "n1", "web", 2000), None);
    }

    #[test]
    fn nonsense_is_left_out_and_a_node_can_say_only_so_much() {
        let usages = Usages::default();
        let bad = [says("../x", 1.0), says("web", f64::NAN), says("web", -1.0), says("web", 1e9)];
        usages.hear(&node("n1"), bad.to_vec(), WallMillis(1));
        let negative = WorkloadUsageSnapshot { memory_bytes: -1, ..says("web", 1.0) };
        usages.hear(&node("n1"), vec![negative], WallMillis(1));
        assert_eq!(shown(&usages, "n1", "web", 2), None);
        let many = (0..MOST + 10).map(|nth| says(&format!("w{nth}"), 1.0)).collect();
        usages.hear(&node("n1"), many, WallMillis(1));
        assert_eq!(usages.all()[&node("n1")].len(), MOST);
    }
}
