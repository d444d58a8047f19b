//! Choosing a node.
//!
//! A narrow selector's few nodes are all looked at; so are the groups of a broad one while they hold
//! few nodes. Larger sets are answered by the grids. Ports, disk and nodes to avoid are not in the
//! grids: candidates are shown to those filters one by one, and when too many in a row are refused an
//! exact pass settles it. Such passes are counted.

use persys_model::resources::Disk;
use persys_model::spec::Strategy;

use super::class::Classes;
use super::grid::{Aim, Best, FLAT, Probe};
use super::group::Group;
use super::index::Index;
use super::node::Nodes;
use super::request::{NodeIndex, Pair, Request, wide};
use super::scan;
use super::selector::{Lookup, Resolved, Verdict, judge};

/// Candidates that ports, disk or avoidance may refuse before an exact pass.
const PATIENCE: u32 = 64;
/// Groups with a fitting node that are compared; the rest get their turn later. Two choices are
/// enough to spread evenly; packing should not open a node while another group has one in use.
const COMPARED_TO_SPREAD: usize = 2;
const COMPARED_TO_PACK: usize = 8;

/// Nodes of groups are too many to have been seen, and what was seen does not fit.
struct GaveUp;

impl Index {
    /// A node that fits: by the strategy the best, or among very many a good one. `None` if and only
    /// if no node fits.
    pub fn pick(&mut self, request: &Request<'_>) -> Option<NodeIndex> {
        self.picks = self.picks.saturating_add(1);
        let Some(need) = Pair::need(request.compute) else { return self.fall_back(request) };
        let number = match self.selectors.resolve(request, &mut self.classes, self.picks) {
            Lookup::Known(Resolved::Broad(number)) => *number,
            Lookup::Known(Resolved::Narrow { admitted, reluctant }) => {
                let listed =
                    pick_listed(&self.nodes, &self.classes, [admitted, reluctant], request);
                if let Ok(picked) = listed {
                    return picked;
                }
                self.selectors.forget(request);
                return self.pick(request);
            }
            Lookup::Few(classes) => {
                let classes = classes.iter().filter_map(|class| self.classes.get(*class));
                let judged = classes.map(|class| (class, judge(request, &class.traits)));
                return scan::best(&self.nodes, judged, request);
            }
            Lookup::Numbered(number, classes) => {
                self.regroup_classes(&classes);
                number
            }
            Lookup::Renumbered(number) => {
                self.regroup();
                number
            }
            Lookup::Crowded => return self.fall_back(request),
        };
        let aim = Aim { need, strategy: request.strategy };
        if let Ok(picked) = self.pick_broad(number, aim, request) {
            return picked;
        }
        let picked = self.fall_back(request);
        if picked.is_none() {
            self.bound_disk(number, request.disk);
        }
        picked
    }

    fn pick_broad(
        &mut self,
        number: u8,
        aim: Aim,
        request: &Request<'_>,
    ) -> Result<Option<NodeIndex>, GaveUp> {
        let Some((reach, groups)) = self.groups.reach(number) else { return Err(GaveUp) };
        let nodes = &self.nodes;
        let plain = request.disk.is_empty() && request.ports.is_empty() && request.avoid.is_empty();
        let mut admit = |node: u32| {
            plain
                || (!request.avoid.contains(&NodeIndex(node))
                    && nodes.holds(NodeIndex(node), request))
        };
        let mut probe = Probe { patience: PATIENCE, gave_up: false, long: false };
        let small = are_few(groups, reach.admitted.iter().chain(&reach.reluctant));
        let mut found = None;
        for list in [&reach.admitted, &reach.reluctant] {
            let mut search = Search { groups, turn: &mut self.turn, aim, disk: request.disk };
            found = if small {
                search.all(list, &mut admit)
            } else {
                search.grids(list, &mut probe, &mut admit)
            };
            if found.is_some() || probe.gave_up {
                break;
            }
        }
        self.fallbacks += u64::from(probe.long);
        match found {
            Some(best) => Ok(Some(NodeIndex(best.node))),
            None if probe.gave_up => Err(GaveUp),
            None => Ok(self.pick_avoided(aim, request)),
        }
    }

    /// The best of the nodes that should be avoided, when nothing else fits.
    fn pick_avoided(&self, aim: Aim, request: &Request<'_>) -> Option<NodeIndex> {
        let (mut first, mut last) = (None, None);
        for at in request.avoid {
            let best = match self.verdict(*at, request) {
                Verdict::Refused => continue,
                Verdict::Admitted => &mut first,
                Verdict::Reluctant => &mut last,
            };
            if let Some(hot) = self.nodes.hot(*at)
                && scan::has_room(&self.nodes, *at, request)
            {
                Best::offer(best, aim, hot.entry(at.0).left(aim.need), at.0);
            }
        }
        first.or(last).map(|best| NodeIndex(best.node))
    }

    /// The exact pass over all classes.
    fn fall_back(&mut self, request: &Request<'_>) -> Option<NodeIndex> {
        self.fallbacks = self.fallbacks.saturating_add(1);
        self.scan(request)
    }

    /// What an exact pass over all classes picks.
    pub(super) fn scan(&self, request: &Request<'_>) -> Option<NodeIndex> {
        let classes = self.classes.iter().map(|(_, class)| (class, judge(request, &class.traits)));
        scan::best(&self.nodes, classes, request)
    }

    /// Notes how much disk the groups of a selector have at most, so that the same request is refused
    /// at once until some is given back.
    fn bound_disk(&mut self, number: u8, disk: &Disk) {
        let nodes = &self.nodes;
        let Some((reach, groups)) = self.groups.reach(number) else { return };
        for group in reach.admitted.iter().chain(&reach.reluctant) {
            let Some(group) = groups.get_mut(wide(*group)) else { continue };
            for (pool, _) in disk.iter() {
                let free = |node| {
                    let cold = nodes.cold(NodeIndex(node))?;
                    Some(cold.free_disk(pool).unwrap_or(u64::MAX))
                };
                let most = group.grid.nodes().filter_map(free).max().unwrap_or(0);
                group.set_bound(pool, most);
            }
        }
    }
}

/// The best node of a narrow selector's classes, unless they have grown too many to look at.
fn pick_listed(
    nodes: &Nodes,
    classes: &Classes,
    [admitted, reluctant]: [&[u32]; 2],
    request: &Request<'_>,
) -> Result<Option<NodeIndex>, GaveUp> {
    let admitted = admitted.iter().map(|class| (*class, Verdict::Admitted));
    let reluctant = reluctant.iter().map(|class| (*class, Verdict::Reluctant));
    let listed = admitted
        .chain(reluctant)
        .filter_map(|(class, verdict)| Some((classes.get(class)?, verdict)));
    let members: usize = listed.clone().map(|(class, _)| class.members.len()).sum();
    if members > 2 * FLAT {
        return Err(GaveUp);
    }
    Ok(scan::best(nodes, listed, request))
}

/// Whether the groups of a list have so few nodes that all are looked at.
fn are_few<'a>(groups: &'a [Group], list: impl Iterator<Item = &'a u32>) -> bool {
    let mut nodes = 0;
    for group in list.filter_map(|group| groups.get(wide(*group))) {
        nodes += group.grid.len();
        if nodes > FLAT {
            return false;
        }
    }
    true
}

/// One pass over groups.
struct Search<'a> {
    groups: &'a mut [Group],
    turn: &'a mut usize,
    aim: Aim,
    disk: &'a Disk,
}

impl Search<'_> {
    /// The best node of all groups, each node looked at.
    fn all(&mut self, list: &[u32], admit: &mut impl FnMut(u32) -> bool) -> Option<Best> {
        let mut best = None;
        for group in list {
            let Some(group) = self.groups.get_mut(wide(*group)) else { continue };
            if let Some(found) = group.grid.pick_flat(self.aim, admit) {
                Best::offer(&mut best, self.aim, found.left, found.node);
            }
        }
        best
    }

    /// The best of a few good nodes, from the grids.
    fn grids(
        &mut self,
        list: &[u32],
        probe: &mut Probe,
        admit: &mut impl FnMut(u32) -> bool,
    ) -> Option<Best> {
        let mut best = None;
        let mut compared = match self.aim.strategy {
            Strategy::Spread => COMPARED_TO_SPREAD,
            Strategy::BinPack => COMPARED_TO_PACK,
        };
        let (before, after) = list.split_at(self.turn.checked_rem(list.len()).unwrap_or(0));
        for (seen, group) in after.iter().chain(before).enumerate() {
            let Some(group) = self.groups.get_mut(wide(*group)) else { continue };
            if !group.may_hold(self.disk) {
                continue;
            }
            if let Some(found) = group.grid.pick(self.aim, probe, admit) {
                Best::offer(&mut best, self.aim, found.left, found.node);
                compared -= 1;
                if compared == 0 {
                    *self.turn = self.turn.wrapping_add(seen + 1);
                    break;
                }
            }
        }
        best
    }
}
