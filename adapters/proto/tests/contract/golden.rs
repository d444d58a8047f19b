//! The whole wire surface against the reviewed text in `tests/contract.golden`.

use std::path::Path;
use std::{env, fs};

use prost_types::FileDescriptorProto;

use crate::surface;

const BLESS: &str = "PERSYS_BLESS";

#[test]
fn surface_is_the_reviewed_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/contract.golden");
    let actual = surface::render(&surface::compiled());
    if env::var_os(BLESS).is_some() {
        fs::write(&path, &actual).unwrap();
    }
    let reviewed = fs::read_to_string(&path).unwrap_or_default();
    assert!(
        actual == reviewed,
        "the wire surface is not the reviewed one{}\n\nif the change is meant, run the test again \
         with {BLESS}=1 and review the diff of {}",
        first_difference(&reviewed, &actual),
        path.display(),
    );
}

fn first_difference(reviewed: &str, actual: &str) -> String {
    let (mut old, mut new) = (reviewed.lines(), actual.lines());
    let mut number = 1;
    loop {
        match (old.next(), new.next()) {
            (None, None) => return String::new(),
            (left, right) if left == right => number += 1,
            (left, right) => {
                let (left, right) = (left.unwrap_or("(end)"), right.unwrap_or("(end)"));
                return format!(", first at line {number}:\n- {left}\n+ {right}");
            }
        }
    }
}

/// Reflection answers only for what the set holds, so imports must be in it.
#[test]
fn descriptor_set_is_complete() {
    let set = surface::descriptors();
    let names: Vec<&str> = set.file.iter().map(FileDescriptorProto::name).collect();
    for file in &set.file {
        for import in &file.dependency {
            assert!(names.contains(&import.as_str()), "{} lacks {import}", file.name());
        }
    }
}

#[test]
fn services_are_served_under_the_contract_names() {
    use persys_proto::{agent, control};
    assert_eq!(agent::v1::agent_service_server::SERVICE_NAME, "persys.agent.v1.AgentService");
    assert_eq!(control::v1::agent_control_server::SERVICE_NAME, "persys.control.v1.AgentControl");
}
