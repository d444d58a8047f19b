//! The VM spec that persysctl packs into metadata.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use persys_model::fault::Faults;
use persys_model::spec::check::CheckedApply;
use persys_model::spec::{Kind, VmSpec};
use persys_proto::control::v1 as wire;
use persys_proto::control::v1::workload_spec::Workload;
use persys_proto::convert::{draft, packed};

use crate::paths;

fn request(json: &str, body: Option<Workload>) -> wire::ApplyWorkloadRequest {
    raw(STANDARD.encode(json), body)
}

fn raw(text: String, body: Option<Workload>) -> wire::ApplyWorkloadRequest {
    let spec = wire::WorkloadSpec {
        r#type: "vm".into(),
        workload: body,
        metadata: [(packed::KEY.to_owned(), text), ("team".to_owned(), "a".to_owned())].into(),
        ..Default::default()
    };
    wire::ApplyWorkloadRequest { workload_id: "vm1".into(), spec: Some(spec), ..Default::default() }
}

fn apply(json: &str) -> Result<CheckedApply, Faults> {
    draft::apply(request(json, None))
}

fn vm(apply: CheckedApply) -> VmSpec {
    match apply.spec.unwrap().kind {
        Kind::Vm(vm) => vm,
        Kind::Container(_) | Kind::Compose(_) => panic!("not a VM"),
    }
}

const WHOLE: &str = r##"{
    "name": "guest", "vcpus": 2, "memory_mb": 2048,
    "disks": [{"path": "/img/a.qcow2", "device": "vda", "format": "qcow2", "size_gb": 10,
               "type": "disk", "boot": true}],
    "networks": [{"network": "default", "mac_address": "52:54:00:00:00:01", "ip_address": ""}],
    "cloud_init": "#cloud-config\n", "metadata": {"a": "b"}, "cloud_init_config": null,
    "managed_volumes": [{"name": "data", "driver": "local", "size_gb": 5, "mount_path": "/data"}]
}"##;

#[test]
fn it_replaces_the_body_and_leaves_the_metadata() {
    let body = wire::VmSpec { vcpus: 2, memory_mb: 2048, ..Default::default() };
    for body in [None, Some(Workload::Vm(body))] {
        let apply = draft::apply(request(WHOLE, body)).unwrap();
        let metadata = &apply.spec.as_ref().unwrap().metadata;
        assert_eq!(metadata.keys().map(|key| &**key).collect::<Vec<_>>(), ["team"]);
        let vm = vm(apply);
        assert_eq!(vm.name.as_deref(), Some("guest"));
        assert_eq!((vm.vcpus, vm.disks.len(), vm.managed_volumes.len()), (2, 1, 1));
        assert_eq!(vm.cloud_init.user_data.reveal(), "#cloud-config\n");
    }
}

/// Whatever is wrong is named at its place, and nothing of the value is repeated.
#[test]
fn faults_are_named_and_not_quoted() {
    let at = format!("spec.metadata[{}]", packed::KEY);
    let rows: &[(&str, &[&str])] = &[
        ("5", &[""]),
        ("[]", &[""]),
        ("{", &[""]),
        (r#"{"vcpus": "hunter2"}"#, &[".vcpus"]),
        (r#"{"vcpus": 1.5}"#, &[".vcpus"]),
        (r#"{"vcpus": 4294967296}"#, &[".vcpus"]),
        (r#"{"memory_mb": 9223372036854775808}"#, &[".memory_mb"]),
        (r#"{"disks": {}}"#, &[".disks"]),
        (
            r#"{"disks": ["hunter2", {"boot": "yes", "size_gb": true}]}"#,
            &[".disks[0]", ".disks[1].size_gb", ".disks[1].boot"],
        ),
        (r#"{"networks": [{"hunter": 1}]}"#, &[".networks[0][hunter]"]),
        (r#"{"metadata": {"a": 1}}"#, &[".metadata[a]"]),
        (r#"{"cloud_init_config": {"password": ["hunter2"]}}"#, &[".cloud_init_config.password"]),
        (r#"{"cloud_init_config": "hunter2"}"#, &[".cloud_init_config"]),
        (r#"{"priviledged": true}"#, &["[priviledged]"]),
    ];
    for (json, expected) in rows {
        let faults = apply(json).unwrap_err();
        let found: Vec<_> = faults.listed().iter().map(|fault| fault.path.clone()).collect();
        for path in *expected {
            assert!(found.contains(&format!("{at}{path}")), "{json}: {found:?}");
        }
        assert!(!faults.to_string().contains("hunter2"), "{faults}");
    }
}

#[test]
fn it_is_bounded() {
    let at = format!("spec.metadata[{}]", packed::KEY);
    let long = raw("A".repeat(packed::MOST_BYTES + 1), None);
    assert!(paths(draft::apply(long)).contains(&at));
    let not_base64 = raw("%%".into(), None);
    assert!(paths(draft::apply(not_base64)).contains(&at));
    let deep = format!("{{\"disks\": {}{}}}", "[".repeat(10_000), "]".repeat(10_000));
    assert!(paths(apply(&deep)).contains(&at));
    let many = format!("{{\"disks\": [{}{{}}]}}", "{},".repeat(1_000));
    assert!(paths(apply(&many)).contains(&format!("{at}.disks")));
}

#[test]
fn it_must_not_contradict_the_body() {
    let body =
        wire::VmSpec { vcpus: 3, memory_mb: 1024, os_image: "ubuntu".into(), ..Default::default() };
    let at_fault = paths(draft::apply(request(WHOLE, Some(Workload::Vm(body)))));
    assert_eq!(at_fault, ["spec.vm.vcpus", "spec.vm.memory_mb", "spec.vm.os_image"]);
    // persysctl gives the name of the machine there.
    let named = r#"{"name": "web-vm", "vcpus": 3, "memory_mb": 1024, "disks": [{"size_gb": 1}]}"#;
    let body =
        wire::VmSpec { vcpus: 3, memory_mb: 1024, os_image: "web-vm".into(), ..Default::default() };
    let applied = draft::apply(request(named, Some(Workload::Vm(body)))).unwrap();
    assert_eq!(applied.spec.unwrap().workload_type().word(), "vm");
    let body = wire::ContainerSpec { image: "x".into(), ..Default::default() };
    let at_fault = paths(draft::apply(request(WHOLE, Some(Workload::Container(body)))));
    assert!(at_fault.contains(&format!("spec.metadata[{}]", packed::KEY)), "{at_fault:?}");
}
