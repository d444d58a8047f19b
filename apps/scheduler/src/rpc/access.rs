//! Who is calling, as the table of who may call what sees it.

use persys_access::{By, Caller, Rule, Who, judge as judge_by_table};
use persys_identity::{ConnectInfo, Peer, Role};
use tonic::Status;

/// The method as it is counted and who answers it, or why the caller may not.
pub(super) fn judge(
    path: &str,
    caller: Option<&ConnectInfo>,
) -> Result<(&'static str, By), Status> {
    let Some(ConnectInfo { peer, .. }) = caller else {
        return Err(Status::unauthenticated("nobody knows who is calling"));
    };
    let decision = judge_by_table(path, &caller_of(peer, path));
    let Rule::Row((method, who, by)) = decision.rule else {
        return Err(Status::unimplemented("there is no such method"));
    };
    if decision.allowed {
        return Ok((*method, *by));
    }
    let (role, name, rule) = (peer.role.as_str(), peer.name.as_str(), who.rule());
    let why = format!("the {role} {name} may not call {method}: it is for {rule}");
    Err(Status::permission_denied(why))
}

/// What the caller holds.
fn caller_of(peer: &Peer, path: &str) -> Caller {
    use persys_access::Role as Held;
    // Without certificates there is only the operator `anonymous`, and agents are it too.
    let for_agents = persys_access::row(path).is_some_and(|(_, who, _)| *who == Who::Agents);
    if peer.certificate.is_none() && for_agents {
        return Caller::with(Held::Agent);
    }
    match peer.role {
        Role::Operator => Caller::with(Held::Admin),
        Role::Agent => Caller::with(Held::Agent),
        Role::Scheduler => Caller::with(Held::Scheduler),
        Role::Gateway => Caller::with(Held::Gateway),
        Role::User | Role::Metrics => Caller::default(),
    }
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

    use persys_access::TABLE;
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
