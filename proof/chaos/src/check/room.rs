//! No node is promised more than it has.

use std::collections::BTreeMap;

use super::{Row, Seen};
use crate::wish::Kind;

/// Nodes with more work than they hold, at one moment.
#[must_use]
pub fn judge(seen: &Seen) -> Vec<String> {
    let mut sums: BTreeMap<&str, i64> = BTreeMap::new();
    for row in seen.workloads.iter().filter(|row| row.desired == "Running") {
        let needs = Kind::of(&row.id).map_or(0, Kind::millicores);
        *sums.entry(&row.node).or_default() += needs;
    }
    let mut found = Vec::new();
    for node in &seen.nodes {
        let sum = sums.get(&*node.id).copied().unwrap_or_default();
        if sum > node.total || node.available < 0 {
            let (total, left) = (node.total, node.available);
            found.push(format!(
                "room: {} has {total}m, its workloads need {sum}m, and {left}m are said to be free",
                node.id
            ));
        }
    }
    found
}

/// At rest, what a node has reserved is what its workloads need; what is stopped needs nothing.
#[must_use]
pub fn at_rest(seen: &Seen) -> Vec<String> {
    let mut found = judge(seen);
    for node in &seen.nodes {
        let runs = |row: &&Row| row.node == node.id && row.desired == "Running";
        let here = seen.workloads.iter().filter(runs);
        let sum: i64 = here.filter_map(|row| Kind::of(&row.id)).map(Kind::millicores).sum();
        let reserved = node.total - node.available;
        if reserved != sum {
            found.push(format!(
                "room: {} has {reserved}m reserved and workloads that need {sum}m",
                node.id
            ));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::super::Node;
    use super::*;

    fn seen(workloads: usize, total: i64, available: i64) -> Seen {
        let row = |nth| Row {
            id: format!("s{nth}"),
            node: "n1".to_owned(),
            desired: "Running".to_owned(),
            ..Row::default()
        };
        let node = Node { id: "n1".to_owned(), total, available, ..Node::default() };
        Seen { workloads: (0..workloads).map(row).collect(), nodes: vec![node], ..Seen::default() }
    }

    #[test]
    fn more_than_fits_is_found_and_so_is_room_that_nobody_gave_back() {
        assert!(at_rest(&seen(2, 2000, 1600)).is_empty());
        assert_eq!(judge(&seen(11, 2000, 0)).len(), 1);
        assert!(judge(&seen(2, 2000, 1000)).is_empty());
        assert_eq!(at_rest(&seen(2, 2000, 1000)).len(), 1);
    }
}
