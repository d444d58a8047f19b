//! The exact pass: looks at every node of the classes it is given.
//!
//! Used for small sets, as the fallback that keeps picks exact, and as the measure the tests hold
//! the grids to.

use super::class::Class;
use super::grid::{Aim, Best};
use super::node::Nodes;
use super::request::{NodeIndex, Pair, Request};
use super::selector::Verdict;

/// Whether amounts, ports and disk of an open node are enough.
pub(super) fn has_room(nodes: &Nodes, at: NodeIndex, request: &Request<'_>) -> bool {
    nodes.hot(at).is_some_and(|hot| hot.open && hot.free().covers(request.compute))
        && nodes.holds(at, request)
}

/// The best node of `classes`. What is to be avoided comes last, and within that what is admitted
/// reluctantly; then the strategy decides; then the lowest number.
pub(super) fn best<'a>(
    nodes: &'a Nodes,
    classes: impl Iterator<Item = (&'a Class, Verdict)>,
    request: &Request<'_>,
) -> Option<NodeIndex> {
    let aim = Aim { need: Pair::offer(request.compute), strategy: request.strategy };
    let [mut first, mut reluctant, mut avoided, mut last] = [None; 4];
    for (class, verdict) in classes {
        for node in &class.members {
            let at = NodeIndex(*node);
            let best = match (verdict, request.avoid.contains(&at)) {
                (Verdict::Refused, _) => break,
                (Verdict::Admitted, false) => &mut first,
                (Verdict::Reluctant, false) => &mut reluctant,
                (Verdict::Admitted, true) => &mut avoided,
                (Verdict::Reluctant, true) => &mut last,
            };
            let Some(hot) = nodes.hot(at) else { continue };
            if !hot.open || !hot.free().covers(request.compute) {
                continue;
            }
            let left = hot.entry(*node).left(aim.need);
            let worse = best.is_some_and(|best: Best| aim.prefers(best.left, left));
            if !worse && nodes.holds(at, request) {
                Best::offer(best, aim, left, *node);
            }
        }
    }
    first.or(reluctant).or(avoided).or(last).map(|best| NodeIndex(best.node))
}
