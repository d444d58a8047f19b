//! Everything known of one workload.

use std::net::IpAddr;
use std::time::Duration;

use persys_access::Who;
use persys_cluster::world::World;
use persys_model::id::WorkloadId;
use persys_model::phase::Phase;
use persys_model::spec::{Kind, Spec};
use persys_proto::compute::v1 as api;
use persys_proto::control::v1 as control;
use persys_proto::control::v1::workload_spec::Workload;
use persys_proto::convert::spec;
use persys_proto::convert::view::workload as shown;
use tokio::time::timeout;
use tonic::Status;

use super::Compute;
use super::mask::mask;
use crate::permit;
use crate::rpc::refusal::workload_id;

/// How long the agent may take to say more.
const LOOK: Duration = Duration::from_secs(2);

impl Compute {
    pub(super) async fn tell_all(
        &self,
        request: api::DescribeRequest,
    ) -> Result<api::DescribeResponse, Status> {
        let id = workload_id(&request.workload_id)?;
        // Whoever could not change it is not shown what is kept in it either.
        let who = if request.secrets { Who::Operators } else { Who::Viewers };
        permit::workload(&self.handle, &id, who).await?;
        let (wanted, attempts) = (id.clone(), self.settings.retry_attempts);
        let found = self.handle.read(move |world| describe(world, &wanted, attempts)).await?;
        let Known { mut answer, host } =
            found.ok_or_else(|| Status::not_found(format!("there is no workload {id}")))?;
        if !request.secrets
            && let Some(spec) = &mut answer.spec
        {
            mask(spec);
        }
        match self.look_inside(&id).await {
            Ok(inside) => {
                add_found_ports(&mut answer.addresses, host.as_deref(), &inside.ports);
                answer.inside = Some(inside);
            }
            Err(why) => why.message().clone_into(&mut answer.inside_missing),
        }
        Ok(answer)
    }

    async fn look_inside(&self, id: &WorkloadId) -> Result<api::InspectResponse, Status> {
        let agent = self.agent_of(id, Who::Viewers).await?;
        let late =
            || Status::unavailable(format!("{} does not answer within {LOOK:?}", agent.node));
        timeout(LOOK, agent.inspect(id)).await.unwrap_or_else(|_| Err(late()))
    }
}

/// What the scheduler knows by itself.
struct Known {
    answer: api::DescribeResponse,
    /// Where the workload's node is reached, while it may run there.
    host: Option<String>,
}

fn describe(world: &World, id: &WorkloadId, attempts: u32) -> Option<Known> {
    let view = world.workload(id)?;
    let assignment = view.assignment;
    let why = if assignment.phase == Phase::Pending { world.why_waits(id) } else { None };
    let place = assignment.place.as_ref().filter(|_| assignment.phase.holds_compute());
    let node = place.and_then(|place| world.node(&place.node));
    let host = node.map(|node| host_of(&node.node.facts.endpoint).to_owned());
    let mut addresses = Vec::new();
    if let (Some(place), Some(host)) = (place, &host) {
        for port in &place.ports {
            let bound = view.workload.spec.addresses_of(*port);
            addresses.extend(bound.iter().map(|address| match address {
                IpAddr::V4(address) => format!("{address}:{port}"),
                IpAddr::V6(address) => format!("[{address}]:{port}"),
            }));
            if bound.is_empty() {
                addresses.push(format!("{host}:{port}"));
            }
        }
    }
    let former = assignment
        .former
        .iter()
        .map(|(node, copy)| api::FormerCopy { node_id: node.to_string(), epoch: copy.epoch.0 });
    let answer = api::DescribeResponse {
        workload: Some(shown::to_wire(&view, attempts, why.as_deref())),
        spec: Some(with_volumes(&view.workload.spec)),
        addresses,
        former_copies: former.collect(),
        inside: None,
        inside_missing: String::new(),
    };
    Some(Known { answer, host })
}

/// The host of `host:port`; an IPv6 address keeps its brackets.
fn host_of(endpoint: &str) -> &str {
    endpoint.rsplit_once(':').map_or(endpoint, |(host, _)| host)
}

/// Adds ports the runtime chose by itself, told as `host:inner/protocol`, with an address in front
/// where they are published on that one alone.
fn add_found_ports(addresses: &mut Vec<String>, host: Option<&str>, ports: &[String]) {
    let Some(host) = host else { return };
    for port in ports {
        if let Some((outside, inner)) = port.rsplit_once(':')
            && let Some((_, protocol)) = inner.split_once('/')
        {
            let (at, number) = outside.rsplit_once(':').unwrap_or((host, outside));
            let address = format!("{at}:{number}/{protocol}");
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    }
}

/// The spec as it is shown: of a stack also the volumes of its file, which may be hidden.
fn with_volumes(spec: &Spec) -> control::WorkloadSpec {
    let mut shown = spec::to_wire(spec);
    if let (Kind::Compose(stack), Some(Workload::Compose(body))) = (&spec.kind, &mut shown.workload)
    {
        body.found_volume_names = stack.named_volumes();
    }
    shown
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_name_the_node_and_every_port_once() {
        assert_eq!(host_of("10.0.0.1:50051"), "10.0.0.1");
        assert_eq!(host_of("[::1]:50051"), "[::1]");
        let mut addresses = vec!["n:80/tcp".to_owned()];
        let found = ["80:8080/tcp", "32768:53/udp", "nonsense"].map(str::to_owned);
        add_found_ports(&mut addresses, Some("n"), &found);
        assert_eq!(addresses, ["n:80/tcp", "n:32768/udp"]);
        add_found_ports(&mut addresses, None, &found);
        assert_eq!(addresses.len(), 2);
        let bound = ["127.0.0.1:81:8080/tcp", "[::1]:82:53/udp"].map(str::to_owned);
        let mut addresses = vec!["127.0.0.1:81/tcp".to_owned()];
        add_found_ports(&mut addresses, Some("n"), &bound);
        assert_eq!(addresses, ["127.0.0.1:81/tcp", "[::1]:82/udp"]);
    }
}
