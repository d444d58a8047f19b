//! Who may call what, and which process answers: one table, and whatever is not in it is refused.

use persys_identity::{ConnectInfo, Peer, Role};
use tonic::Status;

/// Who may call a method.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Who {
    /// An agent, for the node its certificate names.
    Agent,
    /// A person or tool that runs the cluster.
    Operator,
    /// Everybody who got through the handshake.
    Everyone,
}

/// Which process answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum By {
    /// Whoever is asked.
    Here,
    /// Whoever is asked, from a copy where it does not lead.
    Copy,
    /// The leader.
    Leader,
    /// The leader; and what can be looked at is not as before.
    Change,
}

/// Every method that is served.
#[rustfmt::skip]
pub(crate) const TABLE: &[(&str, Who, By)] = &[
    ("/persys.control.v1.AgentControl/RegisterNode", Who::Agent, By::Leader),
    ("/persys.control.v1.AgentControl/Heartbeat", Who::Agent, By::Leader),
    ("/persys.control.v1.AgentControl/ControlStream", Who::Agent, By::Leader),
    ("/persys.control.v1.AgentControl/ApplyWorkload", Who::Operator, By::Change),
    ("/persys.control.v1.AgentControl/DeleteWorkload", Who::Operator, By::Change),
    ("/persys.control.v1.AgentControl/RetryWorkload", Who::Operator, By::Change),
    ("/persys.control.v1.AgentControl/SubmitAutomationSuggestion", Who::Operator, By::Change),
    ("/persys.control.v1.AgentControl/ListNodes", Who::Operator, By::Copy),
    ("/persys.control.v1.AgentControl/GetNode", Who::Operator, By::Copy),
    ("/persys.control.v1.AgentControl/ListWorkloads", Who::Operator, By::Copy),
    ("/persys.control.v1.AgentControl/GetWorkload", Who::Operator, By::Copy),
    ("/persys.control.v1.AgentControl/GetClusterSummary", Who::Operator, By::Copy),
    ("/persys.control.v1.AgentControl/DrainNode", Who::Operator, By::Change),
    ("/persys.control.v1.AgentControl/UndrainNode", Who::Operator, By::Change),
    ("/persys.control.v1.AgentControl/TaintNode", Who::Operator, By::Change),
    ("/persys.control.v1.AgentControl/UntaintNode", Who::Operator, By::Change),
    ("/persys.control.v1.AgentControl/SetNodeLabel", Who::Operator, By::Change),
    ("/persys.control.v1.AgentControl/DeleteNodeLabel", Who::Operator, By::Change),
    ("/persys.control.v1.AgentControl/ListEvents", Who::Operator, By::Here),
    ("/persys.control.v1.AgentControl/WatchEvents", Who::Operator, By::Leader),
    ("/persys.control.v1.AgentControl/CreateDisk", Who::Operator, By::Change),
    ("/persys.control.v1.AgentControl/ListDisks", Who::Operator, By::Copy),
    ("/persys.control.v1.AgentControl/GetDisk", Who::Operator, By::Copy),
    ("/persys.control.v1.AgentControl/DeleteDisk", Who::Operator, By::Change),
    ("/persys.control.v1.AgentControl/CreateBucket", Who::Operator, By::Here),
    ("/persys.control.v1.AgentControl/ListBuckets", Who::Operator, By::Here),
    ("/persys.control.v1.AgentControl/GetBucket", Who::Operator, By::Here),
    ("/persys.control.v1.AgentControl/DeleteBucket", Who::Operator, By::Here),
    ("/persys.control.v1.AgentControl/GetBucketAccess", Who::Operator, By::Here),
    ("/persys.control.v1.AgentControl/ListBucketObjects", Who::Operator, By::Here),
    ("/persys.compute.v1.Compute/Why", Who::Operator, By::Leader),
    ("/persys.compute.v1.Compute/Describe", Who::Operator, By::Leader),
    ("/persys.compute.v1.Compute/Restart", Who::Operator, By::Change),
    ("/persys.compute.v1.Compute/Logs", Who::Operator, By::Leader),
    ("/persys.compute.v1.Compute/Exec", Who::Operator, By::Leader),
    ("/persys.compute.v1.Compute/Console", Who::Operator, By::Leader),
    ("/persys.compute.v1.Compute/Standing", Who::Operator, By::Here),
    ("/persys.compute.v1.Compute/Operate", Who::Operator, By::Change),
    ("/persys.compute.v1.Compute/Snapshot", Who::Operator, By::Here),
    ("/persys.compute.v1.Compute/Recover", Who::Operator, By::Change),
    ("/persys.compute.v1.Compute/ListDrifts", Who::Operator, By::Copy),
    ("/grpc.health.v1.Health/Check", Who::Everyone, By::Here),
    ("/grpc.health.v1.Health/Watch", Who::Everyone, By::Here),
    ("/grpc.health.v1.Health/List", Who::Everyone, By::Here),
    ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", Who::Operator, By::Here),
];

/// The method as it is counted and who answers it, or why the caller may not.
pub(super) fn judge(
    path: &str,
    caller: Option<&ConnectInfo>,
) -> Result<(&'static str, By), Status> {
    let Some((method, who, by)) = TABLE.iter().find(|(method, ..)| *method == path) else {
        return Err(Status::unimplemented("there is no such method"));
    };
    let Some(ConnectInfo { peer, .. }) = caller else {
        return Err(Status::unauthenticated("nobody knows who is calling"));
    };
    let allowed = match who {
        Who::Everyone => true,
        Who::Operator => peer.role == Role::Operator,
        // Without certificates there is only the operator `anonymous`, and agents are it too.
        Who::Agent => peer.role == Role::Agent || peer.certificate.is_none(),
    };
    if allowed {
        return Ok((*method, *by));
    }
    let (role, name) = (peer.role.as_str(), peer.name.as_str());
    Err(Status::permission_denied(format!("the {role} {name} may not call {method}")))
}

/// An agent speaks for its own node alone.
pub(super) fn own_node(peer: Option<&Peer>, node: &str) -> Result<(), Status> {
    match peer {
        None => Err(Status::unauthenticated("nobody knows who is calling")),
        Some(peer) if peer.certificate.is_none() || peer.name.as_str() == node => Ok(()),
        Some(peer) => {
            let name = peer.name.as_str();
            Err(Status::permission_denied(format!("the agent {name} may not speak for {node:?}")))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use persys_identity::{ClusterName, Name};
    use prost::Message as _;
    use tonic::Code;

    use super::*;

    fn methods(package: &str) -> BTreeSet<String> {
        let all = prost_types::FileDescriptorSet::decode(persys_proto::DESCRIPTOR).unwrap();
        let mut methods = BTreeSet::new();
        for file in all.file.iter().filter(|file| file.package() == package) {
            for service in &file.service {
                for method in &service.method {
                    methods.insert(format!("/{package}.{}/{}", service.name(), method.name()));
                }
            }
        }
        methods
    }

    #[test]
    fn every_method_of_the_contract_has_exactly_one_row() {
        let mut contract = methods("persys.control.v1");
        assert!(contract.len() > 25, "the descriptor was not read");
        // The other service of the package is the agents' own.
        let mut ours = methods("persys.compute.v1");
        ours.retain(|method| !method.starts_with("/persys.compute.v1.Inside/"));
        assert_eq!(ours.len(), 11, "{ours:?}");
        contract.extend(ours);
        let rows: Vec<_> = TABLE.iter().map(|(method, ..)| (*method).to_owned()).collect();
        let unique: BTreeSet<_> = rows.iter().cloned().collect();
        assert_eq!(rows.len(), unique.len(), "a row stands twice");
        let missing: Vec<_> = contract.difference(&unique).collect();
        assert!(missing.is_empty(), "no row for {missing:?}");
        let ours = unique.iter().filter(|row| row.starts_with("/persys."));
        let extra: Vec<_> = ours.filter(|row| !contract.contains(*row)).collect();
        assert!(extra.is_empty(), "rows for nothing: {extra:?}");
    }

    #[test]
    fn what_has_no_row_is_refused() {
        let cluster = ClusterName::new("east").unwrap();
        let peer = Peer::anonymous(cluster);
        let info = ConnectInfo { peer, remote: "127.0.0.1:1".parse().unwrap() };
        let refused = judge("/persys.control.v1.AgentControl/Format", Some(&info)).unwrap_err();
        assert_eq!(refused.code(), Code::Unimplemented);
        let known = "/persys.control.v1.AgentControl/ListNodes";
        assert_eq!(judge(known, None).unwrap_err().code(), Code::Unauthenticated);
        for role in [Role::Scheduler, Role::Agent, Role::Gateway, Role::User, Role::Metrics] {
            let peer = Peer { role, name: Name::fixed("x"), ..info.peer.clone() };
            let info = ConnectInfo { peer, ..info.clone() };
            assert_eq!(judge(known, Some(&info)).unwrap_err().code(), Code::PermissionDenied);
        }
        assert!(judge(known, Some(&info)).is_ok());
    }
}
