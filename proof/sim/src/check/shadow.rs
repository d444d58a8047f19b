//! Shadow: once everything has settled, what is in shadow has no port and no name (I22).

use persys_cluster::discovery::News;
use persys_model::assignment::Assignment;
use persys_model::entry::{Entries, Entry, Namespace};
use persys_model::id::{NamespaceName, RevisionId, WorkloadId};
use persys_model::mode::Mode;
use persys_model::phase::Phase;
use persys_model::spec::Spec;
use persys_model::spec::shadow;
use persys_model::workload::Workload;

use crate::sim::Sim;
use crate::store::Contents;

/// True if the records say that a workload with this spec is in shadow.
pub(crate) fn in_shadow(contents: &Contents, spec: &Spec) -> bool {
    let entries: Entries = contents.entries.values().cloned().collect();
    entries.namespace(&spec.namespace()).is_some_and(|namespace| namespace.shadow)
}

/// The default namespace, in shadow or not.
pub(crate) fn namespace(shadow: bool) -> Entry {
    let name = NamespaceName::default_one();
    Entry::Namespace(Namespace { shadow, ..Namespace::new(name) })
}

/// The revision that the node of a workload is told.
pub(crate) fn ordered(workload: &Workload, assignment: &Assignment) -> RevisionId {
    let hidden = assignment.place.as_ref().is_some_and(|place| place.shadow);
    let version = assignment.place.as_ref().and_then(|place| place.version.as_ref());
    let (spec, revision) = match version {
        Some(version) => (&version.spec, &version.revision),
        None => (&workload.spec, &workload.revision),
    };
    let quiet = shadow::in_shadow(spec, revision).filter(|_| hidden);
    quiet.map_or_else(|| revision.clone(), |(_, revision)| revision)
}

impl Sim {
    /// What of the workloads in shadow is not hidden.
    pub(crate) fn seen_in_shadow(&self) -> Option<String> {
        let contents = &self.store.contents;
        let hidden = |id: &WorkloadId| {
            contents.workloads.get(id).is_some_and(|workload| in_shadow(contents, &workload.spec))
        };
        let worlds = self.schedulers.iter().filter_map(|host| host.process.as_ref());
        let worlds = worlds.filter_map(|process| process.replica.world());
        for world in worlds.filter(|world| world.mode().0 == Mode::Normal) {
            let named = News::whole(world).workloads;
            if let Some((id, _)) = named.iter().find(|(id, _)| hidden(id)) {
                return Some(format!("{id} is in shadow and has a name"));
            }
        }
        for (id, assignment) in &contents.assignments {
            if !hidden(id) || assignment.phase != Phase::Running {
                continue;
            }
            let place = assignment.place.as_ref()?;
            let host = self.hosts.iter().find(|host| host.id == place.node)?;
            let spec = host.told_spec(id);
            if let Some(port) = spec.and_then(|spec| spec.host_ports().into_iter().next()) {
                return Some(format!("{id} is in shadow and {} was told port {port}", place.node));
            }
        }
        None
    }
}
