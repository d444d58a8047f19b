//! A spec survives the trip between our two ends.

use persys_model::spec::check::check;
use persys_model::spec::draft::{ComposeDraft, ContainerDraft, DiskDraft, Draft, VmDraft};
use persys_model::spec::{Kind, Spec};
use persys_proto::control::v1 as wire;
use persys_proto::convert::spec::{from_wire, to_wire};
use prost::Message as _;

use crate::generator::{SECRET, draft};
use crate::random::Random;

fn through_bytes(spec: &Spec) -> Spec {
    let bytes = to_wire(spec).encode_to_vec();
    let read = wire::WorkloadSpec::decode(bytes.as_slice()).unwrap();
    from_wire(read).unwrap_or_else(|faults| panic!("{spec:#?}\n{faults}"))
}

/// Whatever the check accepts is the same after it was written, sent and checked again.
#[test]
fn every_accepted_spec_survives() {
    let mut accepted = [0_usize; 3];
    for seed in 0..12_000 {
        let Ok(spec) = check(&draft(&mut Random(seed))) else { continue };
        assert_eq!(through_bytes(&spec), spec, "seed {seed}");
        accepted[match spec.kind {
            Kind::Container(_) => 0,
            Kind::Compose(_) => 1,
            Kind::Vm(_) => 2,
        }] += 1;
    }
    assert!(accepted.iter().all(|count| *count > 500), "the generator is too wild: {accepted:?}");
}

#[test]
fn what_follows_from_a_file_is_read_from_it_again() {
    let file = "services: {a: {image: b, ports: ['80:80', '53:53/udp'], volumes: ['d:/d']}}\n\
                volumes: {d: {}}\n";
    let body = ComposeDraft { inline_yaml: file.into(), ..ComposeDraft::default() };
    let spec = check(&Draft { compose: Some(body), ..Draft::default() }).unwrap();
    let Kind::Compose(compose) = &spec.kind else { panic!("not a stack") };
    assert!(compose.host_ports.len() == 2 && compose.has_named_volumes);
    assert_eq!(through_bytes(&spec), spec);

    let mut lying = to_wire(&spec);
    let Some(wire::workload_spec::Workload::Compose(body)) = &mut lying.workload else {
        panic!("not a stack")
    };
    assert_eq!(body.found_ports.len(), 2, "shown to those who do not read the file");
    body.found_ports.clear();
    body.found_volumes = false;
    assert_eq!(from_wire(lying), Ok(spec));
}

#[test]
fn disk_is_counted_once() {
    let vm = VmDraft {
        vcpus: 1,
        memory_mb: 512,
        disks: vec![DiskDraft { size_gb: 10, ..DiskDraft::default() }],
        ..VmDraft::default()
    };
    let mut draft = Draft { vm: Some(vm), ..Draft::default() };
    draft.resources.disk_gb = 3;
    let spec = check(&draft).unwrap();
    assert_eq!(to_wire(&spec).resources.unwrap().disk_gb, 3);
    assert_eq!(through_bytes(&spec), spec);
}

/// Messages, and the drafts made from them, print nothing of what users keep in them.
#[test]
fn printing_gives_no_secret_away() {
    for seed in 0..500 {
        let Ok(spec) = check(&draft(&mut Random(seed))) else { continue };
        let message = to_wire(&spec);
        assert!(!format!("{message:?}").contains(SECRET), "seed {seed}");
        assert!(!format!("{:?}", message.workload).contains(SECRET), "seed {seed}");
        if let Some(wire::workload_spec::Workload::Vm(vm)) = message.workload {
            assert!(!format!("{vm:?} {:?}", vm.cloud_init).contains(SECRET), "seed {seed}");
        }
    }
    let body = ContainerDraft { image: "x".into(), ..ContainerDraft::default() };
    let spec = check(&Draft { container: Some(body), ..Draft::default() }).unwrap();
    assert_eq!(format!("{:?}", to_wire(&spec)), "WorkloadSpec { .. }");
}
