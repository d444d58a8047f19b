//! Rules for managed volumes.

use super::*;
use crate::spec::draft::{BindDraft, VolumeDraft};
use crate::spec::volume::AccessMode;

fn volume() -> VolumeDraft {
    VolumeDraft {
        name: "pg".into(),
        size_gb: 5,
        mount_path: "/var/lib/pg".into(),
        ..VolumeDraft::default()
    }
}

fn with_volume() -> Draft {
    let mut draft = container_draft();
    container(&mut draft).managed_volumes = vec![volume()];
    draft
}

fn first(draft: &mut Draft) -> &mut VolumeDraft {
    &mut container(draft).managed_volumes[0]
}

#[test]
fn words_and_sizes() {
    run(
        with_volume,
        first,
        &[
            ("driver", |v| v.driver = "LOCAL".into(), &[]),
            ("ceph", |v| v.driver = "ceph-rbd".into(), &[]),
            ("nfs without size", |v| (v.driver, v.size_gb) = ("nfs".into(), 0), &[]),
            ("iscsi", |v| v.driver = "iscsi".into(), &["spec.container.managed_volumes[0].driver"]),
            ("no size", |v| v.size_gb = 0, &["spec.container.managed_volumes[0].size_gb"]),
            ("negative", |v| v.size_gb = -1, &["spec.container.managed_volumes[0].size_gb"]),
            ("huge", |v| v.size_gb = i64::MAX, &["spec.container.managed_volumes[0].size_gb"]),
            ("retain", |v| v.retain_policy = "retain".into(), &[]),
            (
                "recycle",
                |v| v.retain_policy = "Recycle".into(),
                &["spec.container.managed_volumes[0].retain_policy"],
            ),
            ("name", |v| v.name = "../x".into(), &["spec.container.managed_volumes[0].name"]),
            ("no name", |v| v.name = String::new(), &["spec.container.managed_volumes[0].name"]),
            (
                "path",
                |v| v.mount_path = "data".into(),
                &["spec.container.managed_volumes[0].mount_path"],
            ),
            (
                "no path",
                |v| v.mount_path = String::new(),
                &["spec.container.managed_volumes[0].mount_path"],
            ),
            (
                "root",
                |v| v.mount_path = "/".into(),
                &["spec.container.managed_volumes[0].mount_path"],
            ),
            (
                "all",
                |v| {
                    *v = VolumeDraft {
                        driver: "x".into(),
                        access_mode: "x".into(),
                        retain_policy: "x".into(),
                        size_gb: -1,
                        ..VolumeDraft::default()
                    }
                },
                &[
                    "spec.container.managed_volumes[0].name",
                    "spec.container.managed_volumes[0].driver",
                    "spec.container.managed_volumes[0].access_mode",
                    "spec.container.managed_volumes[0].retain_policy",
                    "spec.container.managed_volumes[0].mount_path",
                    "spec.container.managed_volumes[0].size_gb",
                ],
            ),
        ],
    );
}

#[test]
fn access_is_what_the_driver_can_do() {
    let rows = [
        ("", "local", Some(AccessMode::ReadWriteOnce)),
        ("rwo", "ceph-rbd", Some(AccessMode::ReadWriteOnce)),
        ("ReadWriteOnce", "nfs", Some(AccessMode::ReadWriteOnce)),
        ("ROX", "nfs", Some(AccessMode::ReadOnlyMany)),
        ("readonlymany", "ceph-rbd", Some(AccessMode::ReadOnlyMany)),
        ("RWX", "nfs", Some(AccessMode::ReadWriteMany)),
        ("ReadWriteMany", "ceph-rbd", None),
        ("RWX", "local", None),
        ("ROX", "local", None),
        ("RWOP", "nfs", None),
    ];
    for (word, driver, expected) in rows {
        let mut draft = with_volume();
        first(&mut draft).access_mode = word.into();
        first(&mut draft).driver = driver.into();
        match expected {
            None => assert_eq!(
                paths_at_fault(&draft),
                ["spec.container.managed_volumes[0].access_mode"],
                "{word} {driver}"
            ),
            Some(access) => {
                let volume = container_spec(&draft).managed_volumes.remove(0);
                assert_eq!(volume.access, access, "{word} {driver}");
                assert_eq!(volume.read_only, access == AccessMode::ReadOnlyMany);
            }
        }
    }
}

#[test]
fn file_systems_are_what_the_driver_can_make() {
    for (driver, fs_type, good) in [
        ("ceph-rbd", "XFS", true),
        ("ceph-rbd", "ntfs", false),
        ("nfs", "nfs4", true),
        ("nfs", "ext4", false),
        ("local", "", true),
        ("local", "ext4", false),
    ] {
        let mut draft = with_volume();
        first(&mut draft).driver = driver.into();
        first(&mut draft).fs_type = fs_type.into();
        assert_eq!(check(&draft).is_ok(), good, "{driver} {fs_type}");
    }
    let mut draft = vm_draft();
    vm(&mut draft).managed_volumes =
        vec![VolumeDraft { fs_type: "ext4".into(), mount_path: String::new(), ..volume() }];
    assert_eq!(&*vm_spec(&draft).managed_volumes[0].fs_type, "ext4");
}

#[test]
fn names_and_places_are_taken_once() {
    let mut draft = with_volume();
    let body = container(&mut draft);
    body.managed_volumes.push(volume());
    body.volumes = vec![BindDraft {
        host_path: "/a".into(),
        container_path: "/var/lib/pg/".into(),
        read_only: false,
    }];
    assert_eq!(
        paths_at_fault(&draft),
        [
            "spec.container.managed_volumes[1].name",
            "spec.container.managed_volumes[0].mount_path",
            "spec.container.managed_volumes[1].mount_path",
        ]
    );
    let mut draft = vm_draft();
    vm(&mut draft).managed_volumes = vec![volume(), VolumeDraft { name: "b".into(), ..volume() }];
    assert_eq!(paths_at_fault(&draft), ["spec.vm.managed_volumes[1].mount_path"]);
    let mut draft = container_draft();
    container(&mut draft).managed_volumes = vec![VolumeDraft::default(); 65];
    assert_eq!(paths_at_fault(&draft), ["spec.container.managed_volumes"]);
}
