//! What is there: one container, all of them, and the daemon itself.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;

use bollard::models::{
    ContainerInspectResponse, ContainerState, ContainerStateStatusEnum, ContainerSummary,
    ContainerSummaryStateEnum, EndpointSettings, PortMap,
};
use bollard::query_parameters::{InspectContainerOptions, ListContainersOptionsBuilder};
use persys_model::id::WorkloadId;
use persys_model::spec::{HostPort, Protocol};
use persys_node::input::{Existing, ImageHealth, Seen, ServiceEnds};

use crate::error::Error;
use crate::found::Found;
use crate::runtime::{Health, Published, Thing};

use super::Docker;
use super::call::{self, Reply};
use super::health;
use super::identity::{self, Mark};

/// One of our containers.
#[derive(Debug)]
pub(crate) struct Ours {
    pub(crate) id: String,
    pub(crate) seen: Seen,
    pub(crate) raw: ContainerInspectResponse,
}

impl Docker {
    /// Looks at what has the name of this workload's container.
    pub(crate) async fn find(&self, workload: &WorkloadId) -> Result<Found<Ours>, Error> {
        if let Some(adopted) = self.adopted.get(workload) {
            if let Some(raw) = self.inspect_raw(&adopted.container).await? {
                return Ok(Found::Ours(Box::new(ours_of(adopted.mark, raw)?)));
            }
            self.adopted.forget(workload);
        }
        let name = identity::name_of(&self.settings.name_prefix, workload);
        match self.inspect_raw(&name).await? {
            // Docker also answers to the beginning of an id; that is not what was asked.
            Some(raw) if bare_name(&raw) == Some(&name) => self.judge(name, raw),
            Some(_) | None => Ok(Found::Nothing),
        }
    }

    /// One of our containers, or nothing: what is not ours is nothing to us.
    pub(crate) async fn ours(&self, workload: &WorkloadId) -> Result<Option<Ours>, Error> {
        Ok(self.find(workload).await?.ours())
    }

    pub(crate) async fn inspect_raw(
        &self,
        name: &str,
    ) -> Result<Option<ContainerInspectResponse>, Error> {
        let client = self.client()?;
        let call = client.inspect_container(name, None::<InspectContainerOptions>);
        call::find("inspect", self.settings.deadlines.ask, call).await
    }

    fn judge(&self, name: String, raw: ContainerInspectResponse) -> Result<Found<Ours>, Error> {
        let labels = raw.config.as_ref().and_then(|config| config.labels.clone());
        let labels = labels.unwrap_or_default();
        let prefix = &self.settings.name_prefix;
        let Some(mark) = identity::read_mark(&self.owner, prefix, &name, &labels) else {
            return Ok(Found::Foreign { owner: identity::owner_of(&labels), name });
        };
        Ok(Found::Ours(Box::new(ours_of(mark, raw)?)))
    }

    pub(crate) async fn look_at(&self, workload: &WorkloadId) -> Result<Option<Thing>, Error> {
        Ok(self.ours(workload).await?.map(thing))
    }

    /// All containers with these labels; only those that run unless `all` are wanted.
    pub(crate) async fn summaries(
        &self,
        labels: Vec<String>,
        all: bool,
    ) -> Result<Vec<ContainerSummary>, Error> {
        let filters = HashMap::from([("label", labels)]);
        let options = ListContainersOptionsBuilder::default().all(all).filters(&filters).build();
        let client = self.client()?;
        let call = client.list_containers(Some(options));
        match call::ask("list", self.settings.deadlines.ask, call).await? {
            Reply::Yes(summaries) => Ok(summaries),
            Reply::No(no) => Err(Error::Refused { verb: "list", detail: no.message }),
        }
    }

    pub(crate) async fn look_at_all(&self, probe: bool) -> Result<Vec<Seen>, Error> {
        let summaries = self.summaries(identity::label_filter(&self.owner), true).await?;
        let mut all = Vec::new();
        let (mut running, mut ids) = (Vec::new(), HashMap::new());
        for summary in summaries {
            let Some(mark) = self.mark_of(&summary) else { continue };
            if let Some(existing) = summary_existing(&summary) {
                running.extend(summary.id.clone().filter(|_| existing == Existing::Running));
                let health = self.listed_health(&summary).await?;
                ids.insert(mark.workload.clone(), summary.id);
                all.push(seen(mark, existing, health));
            } else if let Some(ours) = self.ours(&mark.workload).await? {
                // Only a container that is about to go, or a Docker with other words, needs this.
                all.push(ours.seen);
            }
        }
        for workload in self.adopted.workloads() {
            if let Some(ours) = self.ours(&workload).await?
                && all.iter().all(|seen| seen.workload != workload)
            {
                all.push(ours.seen);
            }
        }
        let stuck = self.stuck(running, probe).await?;
        for seen in &mut all {
            let id = ids.get(&seen.workload).and_then(Option::as_ref);
            if let Some(why) = id.and_then(|id| stuck.get(id)) {
                seen.state = Existing::Stuck { why: Arc::clone(why) };
            }
        }
        all.sort_by(|a, b| a.workload.cmp(&b.workload));
        Ok(all)
    }

    /// What runs of ours, with the ids of its containers.
    pub(super) async fn running(&self) -> Result<Vec<(WorkloadId, String)>, Error> {
        let summaries = self.summaries(identity::label_filter(&self.owner), false).await?;
        let ours = summaries.into_iter().filter_map(|summary| {
            let mark = self.mark_of(&summary)?;
            Some((mark.workload, summary.id?))
        });
        let mut running: Vec<_> = ours.collect();
        for workload in self.adopted.workloads() {
            if let Some(ours) = self.ours(&workload).await?
                && ours.seen.state.is_alive()
                && running.iter().all(|(known, _)| *known != workload)
            {
                running.push((workload, ours.id));
            }
        }
        Ok(running)
    }

    pub(crate) fn mark_of(&self, summary: &ContainerSummary) -> Option<Mark> {
        let labels = summary.labels.as_ref()?;
        let prefix = &self.settings.name_prefix;
        let names = summary.names.iter().flatten();
        names.into_iter().find_map(|name| identity::read_mark(&self.owner, prefix, name, labels))
    }

    pub(crate) async fn feel(&self) -> Result<Health, Error> {
        let client = self.client()?;
        let limit = self.settings.deadlines.ask;
        let version = match call::ask("health", limit, client.version()).await? {
            Reply::Yes(version) => version.version.unwrap_or_default(),
            Reply::No(no) => return Err(Error::Refused { verb: "health", detail: no.message }),
        };
        let mut warnings = Vec::new();
        // A daemon with something new in its long answer is still a healthy daemon.
        match call::ask("health", limit, client.info()).await {
            Ok(Reply::Yes(facts)) => {
                if facts.live_restore_enabled == Some(false) {
                    let advice = "live-restore is off: containers end when the daemon is restarted";
                    warnings.push(advice.to_owned());
                }
                warnings.extend(facts.warnings.into_iter().flatten());
            }
            Ok(Reply::No(no)) => warnings.push(no.message),
            Err(error) => warnings.push(error.to_string()),
        }
        Ok(Health { version, warnings })
    }
}

/// One of our containers, from what Docker says of it.
fn ours_of(mark: Mark, raw: ContainerInspectResponse) -> Result<Ours, Error> {
    let name = bare_name(&raw).unwrap_or_default();
    let unreadable = |detail: &str| Error::Unreadable {
        verb: "inspect",
        detail: format!("{name} has {detail}"),
    };
    let state = raw.state.as_ref().ok_or_else(|| unreadable("no state"))?;
    let existing = existing(state).ok_or_else(|| unreadable("a state we do not know"))?;
    let id = raw.id.clone().ok_or_else(|| unreadable("no id"))?;
    let health = health::inspected(&raw);
    Ok(Ours { id, seen: seen(mark, existing, health), raw })
}

fn bare_name(raw: &ContainerInspectResponse) -> Option<&str> {
    raw.name.as_deref().map(|name| name.trim_start_matches('/'))
}

/// What does not run has no health.
fn seen(mark: Mark, state: Existing, health: Option<ImageHealth>) -> Seen {
    Seen {
        workload: mark.workload,
        epoch: mark.epoch,
        revision: mark.revision,
        health: health.filter(|_| state == Existing::Running),
        state,
        services: ServiceEnds::default(),
    }
}

pub(crate) fn existing(state: &ContainerState) -> Option<Existing> {
    match state.status? {
        ContainerStateStatusEnum::CREATED => Some(Existing::Created),
        ContainerStateStatusEnum::PAUSED => Some(Existing::PAUSED),
        ContainerStateStatusEnum::RUNNING
        | ContainerStateStatusEnum::RESTARTING
        | ContainerStateStatusEnum::STOPPING => Some(Existing::Running),
        ContainerStateStatusEnum::EXITED
        | ContainerStateStatusEnum::DEAD
        | ContainerStateStatusEnum::REMOVING => Some(Existing::Exited { code: exit_code(state) }),
        ContainerStateStatusEnum::EMPTY => None,
    }
}

pub(crate) fn exit_code(state: &ContainerState) -> i32 {
    // A container that ended without a readable code did not end well.
    state.exit_code.and_then(|code| i32::try_from(code).ok()).unwrap_or(-1)
}

/// The state in a list. The exit code is only in its words there; `None` if it cannot be told.
pub(crate) fn summary_existing(summary: &ContainerSummary) -> Option<Existing> {
    match summary.state? {
        ContainerSummaryStateEnum::CREATED => Some(Existing::Created),
        ContainerSummaryStateEnum::PAUSED => Some(Existing::PAUSED),
        ContainerSummaryStateEnum::RUNNING
        | ContainerSummaryStateEnum::RESTARTING
        | ContainerSummaryStateEnum::STOPPING => Some(Existing::Running),
        ContainerSummaryStateEnum::EXITED => {
            let words = summary.status.as_deref()?.strip_prefix("Exited (")?;
            let code = words.split_once(')')?.0.parse().ok()?;
            Some(Existing::Exited { code })
        }
        ContainerSummaryStateEnum::DEAD
        | ContainerSummaryStateEnum::REMOVING
        | ContainerSummaryStateEnum::EMPTY => None,
    }
}

fn thing(ours: Ours) -> Thing {
    let state = ours.raw.state.unwrap_or_default();
    let runs = ours.seen.state.is_alive();
    let network = ours.raw.network_settings.unwrap_or_default();
    let addresses = addresses(network.networks);
    Thing {
        seen: ours.seen,
        id: ours.id,
        started_at: moment(state.started_at),
        finished_at: if runs { None } else { moment(state.finished_at) },
        addresses,
        ports: published(&network.ports.unwrap_or_default()),
        services: Vec::new(),
    }
}

/// Where something with these networks can be reached.
pub(crate) fn addresses(networks: Option<HashMap<String, EndpointSettings>>) -> Vec<IpAddr> {
    let endpoints = networks.unwrap_or_default().into_values();
    let texts = endpoints.flat_map(|end| [end.ip_address, end.global_ipv6_address]);
    let mut addresses: Vec<IpAddr> = texts.flatten().filter_map(|text| text.parse().ok()).collect();
    addresses.sort_unstable();
    addresses
}

/// Docker writes the year 1 for "never".
pub(crate) fn moment(text: Option<String>) -> Option<String> {
    text.filter(|text| !text.is_empty() && !text.starts_with("0001-"))
}

/// Docker lists a port once per address family.
pub(crate) fn published(map: &PortMap) -> Vec<Published> {
    let mut ports = Vec::new();
    for (key, bindings) in map {
        let Some((inner, protocol)) = key.split_once('/') else { continue };
        let protocol = match protocol {
            "tcp" => Protocol::Tcp,
            "udp" => Protocol::Udp,
            _ => continue,
        };
        let Ok(inner) = inner.parse() else { continue };
        ports.extend(bindings.iter().flatten().filter_map(|binding| {
            let port = binding.host_port.as_ref()?.parse().ok()?;
            let address: Option<IpAddr> = binding.host_ip.as_ref().and_then(|ip| ip.parse().ok());
            let address = address.filter(|address| !address.is_unspecified());
            Some(Published { address, host: HostPort { port, protocol }, inner })
        }));
    }
    ports.sort_unstable();
    ports.dedup();
    ports
}

#[cfg(test)]
mod tests {
    use super::*;

    fn summary(state: ContainerSummaryStateEnum, status: &str) -> Option<Existing> {
        summary_existing(&ContainerSummary {
            state: Some(state),
            status: Some(status.to_owned()),
            ..ContainerSummary::default()
        })
    }

    #[test]
    fn the_exit_code_is_read_from_the_words_of_a_list() {
        use ContainerSummaryStateEnum as State;
        assert_eq!(
            summary(State::EXITED, "Exited (137) 3 minutes ago"),
            Some(Existing::Exited { code: 137 })
        );
        assert_eq!(summary(State::EXITED, "Beendet (137)"), None, "ask the container itself");
        assert_eq!(summary(State::DEAD, "Dead"), None);
        assert_eq!(summary(State::RUNNING, "Up 3 seconds"), Some(Existing::Running));
        assert_eq!(summary(State::PAUSED, "Up 3 seconds (Paused)"), Some(Existing::PAUSED));
        assert_eq!(summary(State::CREATED, "Created"), Some(Existing::Created));
    }

    #[test]
    fn a_port_on_two_address_families_is_one_port() {
        let binding = |ip: &str| bollard::models::PortBinding {
            host_ip: Some(ip.to_owned()),
            host_port: Some("8080".to_owned()),
        };
        let map = PortMap::from([
            ("80/tcp".to_owned(), Some(vec![binding("0.0.0.0"), binding("::")])),
            ("81/tcp".to_owned(), None),
        ]);
        let host = HostPort { port: 8080, protocol: Protocol::Tcp };
        assert_eq!(published(&map), [Published { address: None, host, inner: 80 }]);
    }

    #[test]
    fn never_is_no_moment() {
        assert_eq!(moment(Some("0001-01-01T00:00:00Z".to_owned())), None);
        assert!(moment(Some("2026-01-01T00:00:00Z".to_owned())).is_some());
    }
}
