//! Stopping and removing stacks, through Docker alone.
//!
//! What depends on others ends first, and each container has the grace it was made with. A stop that
//! may take only so long never takes longer: what one rank of services used of it the next ranks do not
//! have.

use std::collections::{BTreeMap, HashMap};
use std::time::Duration;

use bollard::models::Volume;
use bollard::query_parameters::{
    ListNetworksOptionsBuilder, ListVolumesOptionsBuilder, RemoveVolumeOptions,
};
use futures::future::{join_all, try_join};
use persys_compose::ending;
use persys_model::id::WorkloadId;
use persys_model::volume::VolumeKey;
use tokio::time::Instant;

use crate::docker::call::{self, No, Reply};
use crate::docker::identity;
use crate::error::Error;

use super::Compose;
use super::book::{Record, Version};
use super::observe::Piece;

/// The label by which the program tells which volume of the file one is.
const VOLUME: &str = "com.docker.compose.volume";

impl Compose {
    pub(super) async fn let_end(
        &self,
        workload: &WorkloadId,
        within: Option<Duration>,
    ) -> Result<(), Error> {
        let pieces = self.pieces(Some(workload)).await?;
        self.end(workload, &pieces, within).await
    }

    async fn end(
        &self,
        workload: &WorkloadId,
        pieces: &[Piece],
        within: Option<Duration>,
    ) -> Result<(), Error> {
        if !pieces.iter().any(|piece| piece.state.is_alive()) {
            return Ok(());
        }
        let record = self.book.record(workload);
        if record.good.is_some() && !record.rested {
            self.book.keep(workload, Record { rested: true, ..Record::clone(&record) }).await?;
        }
        self.end_in_order(record.judged_by(), pieces, within).await
    }

    /// Ends those of `pieces` that run, in the order of `version`.
    async fn end_in_order(
        &self,
        version: Option<&Version>,
        pieces: &[Piece],
        within: Option<Duration>,
    ) -> Result<(), Error> {
        let deadline = within.map(|within| Instant::now() + within);
        let running: Vec<&Piece> = pieces.iter().filter(|piece| piece.state.is_alive()).collect();
        for rank in ranks(version, &running) {
            let left = deadline.map(|at| at.saturating_duration_since(Instant::now()));
            let stops = rank.iter().map(|piece| self.docker.stop_by_id(&piece.id, left));
            for stopped in join_all(stops).await {
                stopped?;
            }
        }
        Ok(())
    }

    /// Ends and removes containers of services that `version` does not have. The program would kill
    /// them unasked.
    pub(super) async fn retire(
        &self,
        workload: &WorkloadId,
        version: &Version,
    ) -> Result<(), Error> {
        let mut pieces = self.pieces(Some(workload)).await?;
        pieces.retain(|piece| !version.services.contains_key(&piece.mark.service));
        let record = self.book.record(workload);
        self.end_in_order(record.good.as_ref(), &pieces, None).await?;
        let removals = pieces.iter().map(|piece| self.docker.remove_by_id(&piece.id));
        join_all(removals).await.into_iter().collect()
    }

    /// Removes containers and networks. Volumes stay, whoever asks: they are deleted by their names.
    pub(super) async fn leave_nothing(&self, workload: &WorkloadId) -> Result<(), Error> {
        let (pieces, networks) =
            try_join(self.pieces(Some(workload)), self.networks(workload)).await?;
        self.end(workload, &pieces, None).await?;
        let removals = pieces.iter().map(|piece| self.docker.remove_by_id(&piece.id));
        for removed in join_all(removals).await {
            removed?;
        }
        let client = self.docker.client()?;
        let limit = self.docker.settings.deadlines.act;
        for id in networks {
            gone(call::ask("remove", limit, client.remove_network(&id)).await?)?;
        }
        self.book.forget(workload).await
    }

    /// Deletes one volume of a stack that is gone. One that is not there is deleted already.
    pub(super) async fn delete_volume(&self, key: &VolumeKey) -> Result<(), Error> {
        self.delete_volumes_if(|known| known == key).await
    }

    /// Deletes all volumes of all stacks of this node, for good: those of a cluster that is no more.
    pub async fn delete_all_volumes(&self) -> Result<(), Error> {
        self.delete_volumes_if(|_| true).await
    }

    async fn delete_volumes_if(&self, which: impl Fn(&VolumeKey) -> bool) -> Result<(), Error> {
        let mut labels = identity::label_filter(&self.docker.owner);
        labels.push(identity::PROJECT.to_owned());
        let filters = HashMap::from([("label", labels)]);
        let client = self.docker.client()?;
        let limit = self.docker.settings.deadlines.act;
        for volume in self.volumes_with("remove", &filters).await? {
            let label = |name: &str| volume.labels.get(name).map(String::as_str);
            let workload = label(identity::WORKLOAD).and_then(|id| WorkloadId::new(id).ok());
            let (Some(workload), Some(name)) = (workload, label(VOLUME)) else { continue };
            if which(&VolumeKey::of_stack(&workload, name)) {
                let call = client.remove_volume(&volume.name, None::<RemoveVolumeOptions>);
                gone(call::ask("remove", limit, call).await?)?;
            }
        }
        Ok(())
    }

    fn labels_of(&self, workload: &WorkloadId) -> HashMap<&'static str, Vec<String>> {
        let mut labels = identity::label_filter(&self.docker.owner);
        labels.push(format!("{}={workload}", identity::WORKLOAD));
        labels.push(identity::PROJECT.to_owned());
        HashMap::from([("label", labels)])
    }

    async fn networks(&self, workload: &WorkloadId) -> Result<Vec<String>, Error> {
        let filters = self.labels_of(workload);
        let options = ListNetworksOptionsBuilder::default().filters(&filters).build();
        let client = self.docker.client()?;
        let limit = self.docker.settings.deadlines.ask;
        match call::ask("remove", limit, client.list_networks(Some(options))).await? {
            Reply::Yes(networks) => Ok(networks.into_iter().filter_map(|one| one.id).collect()),
            Reply::No(no) => Err(Error::Refused { verb: "remove", detail: no.message }),
        }
    }

    /// The project that the volumes of a stack belong to, if it has any.
    pub(super) async fn project_of_volumes(
        &self,
        workload: &WorkloadId,
    ) -> Result<Option<String>, Error> {
        let volumes = self.volumes("start", workload).await?;
        Ok(volumes.into_iter().find_map(|mut volume| volume.labels.remove(identity::PROJECT)))
    }

    async fn volumes(
        &self,
        verb: &'static str,
        workload: &WorkloadId,
    ) -> Result<Vec<Volume>, Error> {
        self.volumes_with(verb, &self.labels_of(workload)).await
    }

    async fn volumes_with(
        &self,
        verb: &'static str,
        filters: &HashMap<&'static str, Vec<String>>,
    ) -> Result<Vec<Volume>, Error> {
        let options = ListVolumesOptionsBuilder::default().filters(filters).build();
        let client = self.docker.client()?;
        let limit = self.docker.settings.deadlines.ask;
        match call::ask(verb, limit, client.list_volumes(Some(options))).await? {
            Reply::Yes(list) => Ok(list.volumes.unwrap_or_default()),
            Reply::No(no) => Err(Error::Refused { verb, detail: no.message }),
        }
    }
}

fn gone(reply: Reply<()>) -> Result<(), Error> {
    match reply {
        Reply::Yes(()) | Reply::No(No { status: 404, .. }) => Ok(()),
        Reply::No(no) => Err(Error::Refused { verb: "remove", detail: no.message }),
    }
}

/// Containers in the order they end: each rank needs nothing that ends before it.
fn ranks<'a>(version: Option<&Version>, pieces: &[&'a Piece]) -> Vec<Vec<&'a Piece>> {
    let Some(version) = version else { return vec![pieces.to_vec()] };
    let mut left: BTreeMap<&str, Vec<&Piece>> = BTreeMap::new();
    for piece in pieces {
        left.entry(&piece.mark.service).or_default().push(piece);
    }
    let after = |name: &'_ &str| {
        let shape = version.services.get(*name);
        shape.into_iter().flat_map(|shape| shape.after.iter().map(String::as_str))
    };
    let names: Vec<&str> = left.keys().copied().collect();
    let ranks = ending::ranks(names.iter().map(|name| (*name, after(name))));
    let pieces = |rank: Vec<&str>| {
        rank.into_iter().filter_map(|name| left.get(name)).flatten().copied().collect()
    };
    ranks.into_iter().map(pieces).collect()
}

#[cfg(test)]
mod tests {
    use super::super::book::Shape;
    use super::super::names::Mark;
    use persys_node::input::Existing;

    use super::*;

    #[test]
    fn what_depends_on_others_ends_first() {
        let shape = |after: &[&str]| Shape {
            one_shot: false,
            replicas: 1,
            after: after.iter().map(ToString::to_string).collect(),
            again: None,
        };
        let services = [
            ("web", shape(&["api"])),
            ("api", shape(&["db", "cache"])),
            ("db", shape(&[])),
            ("cache", shape(&[])),
            ("a", shape(&["b"])),
            ("b", shape(&["a"])),
        ];
        let version = Version {
            revision: "r1".to_owned(),
            epoch: 1,
            project: "p".to_owned(),
            services: services.map(|(name, shape)| (name.to_owned(), shape)).into(),
            document: String::new(),
        };
        let piece = |service: &str| Piece {
            id: service.to_owned(),
            mark: Mark {
                workload: WorkloadId::fixed("shop"),
                project: "p".to_owned(),
                service: service.to_owned(),
                number: String::new(),
            },
            state: Existing::Running,
            health: None,
        };
        let order = |names: &[&str]| -> Vec<Vec<String>> {
            let pieces: Vec<_> = names.iter().map(|name| piece(name)).collect();
            let all: Vec<_> = pieces.iter().collect();
            let ranks = ranks(Some(&version), &all);
            ranks.iter().map(|rank| rank.iter().map(|piece| piece.id.clone()).collect()).collect()
        };
        assert_eq!(
            order(&["api", "cache", "db", "web"]),
            [vec!["web"], vec!["api"], vec!["cache", "db"]]
        );
        assert_eq!(order(&["db", "gone", "web"]), [vec!["db", "gone", "web"]]);
        assert_eq!(order(&["a", "b"]), [vec!["a", "b"]], "a circle");
    }
}
