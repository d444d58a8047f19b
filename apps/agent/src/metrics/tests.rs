//! The names of methods are those of the contract.

use std::collections::BTreeSet;

use super::*;

/// A method that is added to the contract is told apart here too.
#[test]
fn every_method_of_an_agent_has_its_name() {
    use prost::Message as _;
    let all = prost_types::FileDescriptorSet::decode(persys_proto::DESCRIPTOR).unwrap();
    let mut methods = BTreeSet::new();
    for file in &all.file {
        let wanted = ["persys.agent.v1.AgentService", "persys.compute.v1.Inside"];
        for service in &file.service {
            let name = format!("{}.{}", file.package(), service.name());
            let paths = service.method.iter().map(|one| format!("/{name}/{}", one.name()));
            methods.extend(paths.filter(|_| wanted.contains(&name.as_str())));
        }
    }
    assert!(methods.len() >= 10, "{methods:?}");
    for method in methods {
        assert!(METHODS.contains(&method.as_str()), "{method}");
    }
}
