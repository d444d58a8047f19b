//! The request around a spec, the choice of body, and what is reserved.

use super::*;
use crate::id::PoolName;
use crate::spec::check::check_apply;
use crate::spec::check::limits;
use crate::spec::draft::{ApplyDraft, ResourcesDraft, VolumeDraft};
use crate::workload::Desired;

fn apply(workload_id: &str, revision_id: &str, desired_state: &str) -> ApplyDraft {
    ApplyDraft {
        workload_id: workload_id.into(),
        revision_id: revision_id.into(),
        desired_state: desired_state.into(),
        spec: Some(container_draft()),
    }
}

#[test]
fn desired_words_are_lenient_in_case_and_strict_in_kind() {
    for (word, desired) in [
        ("", Desired::Running),
        ("Running", Desired::Running),
        ("RUNNING", Desired::Running),
        ("Stopped", Desired::Stopped),
        ("stop", Desired::Stopped),
        ("STOP", Desired::Stopped),
        ("deleted", Desired::Deleted),
        ("Delete", Desired::Deleted),
    ] {
        let checked = check_apply(&apply("web", "r1", word)).expect(word);
        assert_eq!(checked.desired, desired, "{word}");
    }
    for word in ["paused", "runing", " ", "stopped ", "0"] {
        let faults = check_apply(&apply("web", "r1", word)).expect_err(word);
        assert_eq!(faults.listed()[0].path, "desired_state", "{word}");
        assert!(faults.listed()[0].problem.contains("Running, Stopped, stop"), "{faults}");
    }
}

#[test]
fn all_faults_of_a_request_come_at_once() {
    let mut draft = apply("../x", "r 1", "maybe");
    draft.spec = Some(Draft { workload_type: "pod".into(), ..container_draft() });
    container(draft.spec.as_mut().expect("a spec")).image = "-x".into();
    let faults = check_apply(&draft).expect_err("all wrong");
    let paths: Vec<_> = faults.listed().iter().map(|fault| fault.path.as_str()).collect();
    assert_eq!(
        paths,
        ["workload_id", "revision_id", "desired_state", "spec.type", "spec.container.image"]
    );
}

#[test]
fn a_revision_is_the_clients_or_that_of_the_content() {
    let named = check_apply(&apply("web", "rev-1", "")).expect("named");
    assert_eq!(named.revision.expect("a revision").as_str(), "rev-1");
    let unnamed = check_apply(&apply("web", "", "")).expect("unnamed");
    let text = unnamed.revision.expect("a revision").to_string();
    assert!(text.starts_with("content-") && text.len() == 40, "{text}");
    let state_only = ApplyDraft { spec: None, ..apply("web", "", "stop") };
    let checked = check_apply(&state_only).expect("state only");
    assert_eq!((checked.revision, checked.spec), (None, None));
}

#[test]
fn a_spec_has_one_body_and_its_type_agrees() {
    run(
        container_draft,
        whole,
        &[
            ("type any case", |d| d.workload_type = "Container".into(), &[]),
            ("type inferred", |d| d.workload_type = String::new(), &[]),
            ("type unknown", |d| d.workload_type = "microvm".into(), &["spec.type"]),
            ("type of another body", |d| d.workload_type = "vm".into(), &["spec.type"]),
            ("no body", |d| d.container = None, &["spec"]),
            ("two bodies", |d| d.compose = compose_draft().compose, &["spec"]),
            (
                "two bodies, both wrong",
                |d| {
                    d.compose = Some(ComposeDraft::default());
                    container(d).image = String::new();
                },
                &["spec", "spec.compose", "spec.container.image"],
            ),
        ],
    );
}

#[test]
fn metadata_is_bounded_and_a_packed_vm_is_not_dropped() {
    run(
        container_draft,
        whole,
        &[
            ("plain", |d| drop(d.metadata.insert("team".into(), "a\nb".into())), &[]),
            (
                "packed",
                |d| drop(d.metadata.insert("persys.vm_spec_b64".into(), "e30=".into())),
                &["spec.metadata[persys.vm_spec_b64]"],
            ),
            (
                "control character",
                |d| drop(d.metadata.insert("k".into(), "\u{1b}[2J".into())),
                &["spec.metadata[k]"],
            ),
            ("key", |d| drop(d.metadata.insert("a=b".into(), "c".into())), &["spec.metadata[a=b]"]),
            (
                "empty key",
                |d| drop(d.metadata.insert(String::new(), "c".into())),
                &["spec.metadata[]"],
            ),
            (
                "value too long",
                |d| drop(d.metadata.insert("k".into(), long(limits::LABEL_VALUE_BYTES + 1))),
                &["spec.metadata[k]"],
            ),
            (
                "too many",
                |d| d.metadata = (0..65).map(|n| (format!("k{n}"), String::new())).collect(),
                &["spec.metadata"],
            ),
            (
                "too much",
                |d| d.metadata = (0..17).map(|n| (format!("k{n}"), long(4096))).collect(),
                &["spec.metadata"],
            ),
        ],
    );
}

#[test]
fn amounts_out_of_range_are_refused_with_the_number() {
    run(
        container_draft,
        |d| &mut d.resources,
        &[
            ("none", |r| *r = ResourcesDraft::default(), &[]),
            ("most cpu", |r| r.cpu_millicores = limits::CPU_MILLICORES, &[]),
            ("negative cpu", |r| r.cpu_millicores = -1, &["spec.resources.cpu_millicores"]),
            ("least", |r| r.memory_mb = i64::MIN, &["spec.resources.memory_mb"]),
            ("huge", |r| r.disk_gb = i64::MAX, &["spec.resources.disk_gb"]),
            (
                "all three",
                |r| *r = ResourcesDraft { cpu_millicores: -1, memory_mb: -2, disk_gb: -3 },
                &[
                    "spec.resources.cpu_millicores",
                    "spec.resources.memory_mb",
                    "spec.resources.disk_gb",
                ],
            ),
        ],
    );
    let mut draft = container_draft();
    draft.resources.memory_mb = -77;
    assert!(problems(&draft).contains("-77"), "{}", problems(&draft));
}

#[test]
fn nothing_goes_unreserved() {
    let spec = accepted(&container_draft());
    assert_eq!(spec.resources.compute.cpu_millicores, limits::DEFAULT_CPU_MILLICORES);
    assert_eq!(spec.resources.compute.memory_mib, limits::DEFAULT_MEMORY_MIB);

    let mut shaped = container_draft();
    container(&mut shaped).resources.cpu_shares = 1024;
    container(&mut shaped).resources.memory_bytes = 512 * 1024 * 1024 + 1;
    let compute = accepted(&shaped).resources.compute;
    assert_eq!((compute.cpu_millicores, compute.memory_mib), (1024, 513));

    let mut vm = vm_draft();
    vm.resources = ResourcesDraft { cpu_millicores: 500, memory_mb: 4096, disk_gb: 0 };
    let compute = accepted(&vm).resources.compute;
    assert_eq!((compute.cpu_millicores, compute.memory_mib), (2000, 4096));
}

#[test]
fn disk_is_summed_per_pool() {
    let mut draft = vm_draft();
    draft.resources.disk_gb = 3;
    let body = vm(&mut draft);
    let fast = |size_gb| DiskDraft { pool_name: "fast".into(), size_gb, ..DiskDraft::default() };
    body.disks = vec![
        fast(5),
        fast(6),
        DiskDraft { size_gb: 7, ..DiskDraft::default() },
        DiskDraft { path: "/srv/x.qcow2".into(), size_gb: 11, ..DiskDraft::default() },
        DiskDraft { path: "/srv/y.qcow2".into(), ..DiskDraft::default() },
        DiskDraft { storage: "nfs".into(), size_gb: 900, ..DiskDraft::default() },
    ];
    let volume = |name: &str, driver: &str| VolumeDraft {
        name: name.into(),
        driver: driver.into(),
        size_gb: 13,
        ..VolumeDraft::default()
    };
    body.managed_volumes = vec![volume("a", "local"), volume("b", "ceph-rbd")];
    let spec = accepted(&draft);
    let fast = PoolName::fixed("fast");
    let found: Vec<_> = spec.resources.disk.iter().collect();
    assert_eq!(found, vec![(None, 3 + 7 + 11 + 13), (Some(&fast), 11)]);
    let drivers: Vec<_> = spec.drivers().iter().map(ToString::to_string).collect();
    assert_eq!(drivers, ["ceph-rbd", "local", "nfs"]);
}

#[test]
fn faults_beyond_the_limit_are_counted() {
    let mut draft = container_draft();
    container(&mut draft).env = (0..200).map(|n| (format!("{n}"), String::new())).collect();
    let faults = check(&draft).expect_err("200 bad names");
    assert_eq!((faults.listed().len(), faults.count()), (64, 200));
    assert!(faults.to_string().ends_with("and 136 more"));
}
