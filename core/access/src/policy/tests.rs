//! Every power through every kind of workload, in every kind of namespace.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use persys_model::entry::{Entry, Namespace};
use persys_model::resources::Resources;
use persys_model::spec::compose::{ComposeSource, ComposeSpec};
use persys_model::spec::container::Bind;
use persys_model::spec::secret::Secret;
use persys_model::spec::vm::{Address, CloudInit, DiskFormat, NicModel, VmDisk, VmNetwork};
use persys_model::spec::{NAMESPACE_KEY, Placement};

use super::*;

fn spec(namespace: &str, kind: impl Into<Kind>) -> Spec {
    Spec {
        kind: kind.into(),
        resources: Resources::default(),
        placement: Placement::default(),
        metadata: BTreeMap::from([(Arc::from(NAMESPACE_KEY), Arc::from(namespace))]),
        secrets: Vec::new(),
        stop_grace_ms: None,
        health: persys_model::spec::health::HealthChecks::default(),
    }
}

fn entries(name: &'static str, allowance: Allowance) -> Entries {
    let namespace = Namespace { name: NamespaceName::fixed(name), allowance, shadow: false };
    [Arc::new(Entry::Namespace(namespace))].into_iter().collect()
}

fn rules(spec: &Spec, entries: &Entries) -> Vec<&'static str> {
    refusals(spec, entries).iter().map(|refusal| refusal.rule).collect()
}

fn with_bind(path: &str, read_only: bool) -> ContainerSpec {
    let bind = Bind { host_path: Arc::from(path), container_path: Arc::from("/inside"), read_only };
    ContainerSpec { binds: vec![bind], ..ContainerSpec::default() }
}

fn privileged() -> ContainerSpec {
    ContainerSpec { privileged: true, ..ContainerSpec::default() }
}

fn stack(service: &str) -> ComposeSpec {
    let file = format!("services:\n  a:\n    image: alpine\n    {service}\n");
    ComposeSpec {
        source: ComposeSource::Inline(Secret::new(file.as_str())),
        project: None,
        env: BTreeMap::new(),
        host_ports: Vec::new(),
        has_named_volumes: false,
    }
}

fn machine(path: &str, attach: Attach) -> VmSpec {
    VmSpec {
        name: None,
        vcpus: 1,
        memory_mib: 64,
        disks: vec![VmDisk {
            device: Arc::from("vda"),
            source: DiskSource::External { path: Arc::from(path), create_gib: None },
            format: DiskFormat::Raw,
            cdrom: false,
            boot: true,
            backing_file: None,
        }],
        networks: vec![VmNetwork {
            attach,
            mac: None,
            address: Address::Dhcp,
            model: NicModel::default(),
        }],
        cloud_init: CloudInit::default(),
        os_image: None,
        managed_volumes: Vec::new(),
        metadata: BTreeMap::new(),
    }
}

fn plugged() -> Attach {
    Attach::Network(Arc::from("default"))
}

/// What asks for a power beyond the ordinary, by the rule that gives it.
fn reaching(namespace: &str) -> Vec<(&'static str, Spec)> {
    vec![
        ("privileged", spec(namespace, privileged())),
        ("privileged", spec(namespace, stack("privileged: true"))),
        ("privileged", spec(namespace, stack("pid: host"))),
        ("privileged", spec(namespace, stack("ipc: host"))),
        ("privileged", spec(namespace, stack("cap_add: [NET_ADMIN]"))),
        ("privileged", spec(namespace, stack("security_opt: ['seccomp=unconfined']"))),
        ("host-network", spec(namespace, stack("network_mode: host"))),
        ("devices", spec(namespace, stack("devices: ['/dev/fuse']"))),
        ("host-paths", spec(namespace, with_bind("/srv/data", false))),
        ("host-paths", spec(namespace, stack("volumes: ['/srv/data:/data']"))),
        ("host-paths", spec(namespace, machine("/srv/data/a.img", plugged()))),
        (
            "host-network",
            spec(namespace, machine("/srv/data/a.img", Attach::Bridge(Arc::from("br0")))),
        ),
    ]
}

#[test]
fn the_default_namespace_gives_what_can_be_given() {
    for (rule, spec) in reaching("default") {
        assert_eq!(refusals(&spec, &Entries::default()), [], "{rule}");
    }
}

#[test]
fn every_other_namespace_gives_nothing_unless_it_says_so() {
    let nothing = entries("web", Allowance::default());
    for (rule, spec) in reaching("web") {
        assert!(rules(&spec, &nothing).contains(&rule), "{rule}: {:?}", refusals(&spec, &nothing));
    }
    let everything = entries(
        "web",
        Allowance {
            privileged: true,
            host_network: true,
            devices: true,
            host_paths: BTreeSet::from([Arc::from("/srv/data")]),
            ..Allowance::default()
        },
    );
    for (rule, spec) in reaching("web") {
        assert_eq!(refusals(&spec, &everything), [], "{rule}");
    }
    assert_eq!(refusals(&spec("web", ContainerSpec::default()), &nothing), []);
    assert_eq!(refusals(&spec("web", stack("restart: always")), &nothing), []);
}

#[test]
fn the_default_namespace_can_be_closed_too() {
    let closed = entries("default", Allowance::default());
    for (rule, spec) in reaching("default") {
        assert!(rules(&spec, &closed).contains(&rule), "{rule}");
    }
}

#[test]
fn a_folder_is_allowed_with_what_is_below_and_nothing_beside() {
    let host_paths = BTreeSet::from([Arc::from("/srv/data/")]);
    let given = entries("web", Allowance { host_paths, ..Allowance::default() });
    for (path, allowed) in [
        ("/srv/data", true),
        ("/srv/data/a/b", true),
        ("/srv/database", false),
        ("/srv", false),
        ("/", false),
    ] {
        let refused = refusals(&spec("web", with_bind(path, true)), &given);
        assert_eq!(refused.is_empty(), allowed, "{path}: {refused:?}");
    }
}

#[test]
fn some_of_a_node_is_given_to_nobody_by_itself() {
    let host_paths = BTreeSet::from([Arc::from("/")]);
    let wide = Allowance {
        privileged: true,
        host_network: true,
        devices: true,
        host_paths,
        ..Allowance::default()
    };
    let paths =
        ["/var", "/var/run/docker.sock", "/run/docker.sock", "/var/lib/persys", "/etc/persys"];
    for given in [Entries::default(), entries("default", wide)] {
        for path in paths {
            let refused = rules(&spec("default", with_bind(path, true)), &given);
            assert_eq!(refused, ["withheld-paths"], "{path}");
        }
        let image = machine("/var/lib/persys/vm1.qcow2", plugged());
        assert_eq!(refusals(&spec("default", image), &given), []);
        for path in ["/etc/shadow", "/var/lib/persys/known.json", "/var/lib/docker/a.img"] {
            let refused = rules(&spec("default", machine(path, plugged())), &given);
            assert_eq!(refused, ["withheld-paths"], "{path}");
        }
    }
}

#[test]
fn what_is_withheld_is_given_where_a_record_names_it() {
    let whole = spec("default", with_bind("/", true));
    assert_eq!(rules(&whole, &Entries::default()), ["withheld-paths"]);
    let socket = "volumes: ['/var/run/docker.sock:/s']";
    let named = |path: &str| {
        let host_paths = BTreeSet::from([Arc::from(path)]);
        entries("infra", Allowance { host_paths, ..Allowance::default() })
    };
    assert_eq!(rules(&spec("default", stack(socket)), &Entries::default()), ["withheld-paths"]);
    for (path, expected) in [("/", 1), ("/var", 1), ("/var/run/docker.sock", 0), ("/var/run", 0)] {
        let refused = rules(&spec("infra", stack(socket)), &named(path));
        assert_eq!(refused.len(), expected, "{path}: {refused:?}");
    }
    let refused = refusals(&spec("default", stack(socket)), &Entries::default());
    assert!(refused[0].why.contains("--allow-host-path /var/run/docker.sock"), "{refused:?}");
}

#[test]
fn what_others_have_on_the_node_is_for_the_namespace_to_give() {
    let file = |text: &str| ComposeSpec {
        source: ComposeSource::Inline(Secret::new(text)),
        project: None,
        env: BTreeMap::new(),
        host_ports: Vec::new(),
        has_named_volumes: false,
    };
    let lan = file("services: {a: {image: a, networks: [l]}}\nnetworks: {l: {external: true}}");
    let data = file(
        "services: {a: {image: a, volumes: ['d:/d']}}\nvolumes: {d: {external: true, name: old}}",
    );
    let nothing = entries("web", Allowance::default());
    assert_eq!(rules(&spec("web", lan.clone()), &nothing), ["host-network"]);
    assert_eq!(rules(&spec("web", data.clone()), &nothing), ["host-paths"]);
    assert_eq!(
        rules(&spec("web", stack("network_mode: container:db")), &nothing),
        ["host-network"]
    );
    assert_eq!(rules(&spec("web", stack("runtime: runsc")), &nothing), ["privileged"]);
    for given in [lan.clone(), data.clone()] {
        assert_eq!(rules(&spec("default", given), &Entries::default()), Vec::<&str>::new());
    }
    let host_paths = BTreeSet::from([Arc::from("/var/lib/docker/volumes/old")]);
    let allowed = Allowance { host_network: true, host_paths, ..Allowance::default() };
    let allowed = entries("web", allowed);
    for given in [lan, data] {
        assert_eq!(rules(&spec("web", given), &allowed), Vec::<&str>::new());
    }
}

#[test]
fn a_refusal_names_the_field_the_rule_and_the_next_step() {
    let nothing = entries("web", Allowance::default());
    let refused = refusals(&spec("web", privileged()), &nothing);
    assert_eq!(
        refused.first().map(ToString::to_string).as_deref(),
        Some(
            "container.privileged: the namespace web does not allow all powers of the node; do \
             without it, or have an admin run `persys namespace set web --allow-privileged` (rule \
             privileged)"
        )
    );
}

fn in_shadow(kind: impl Into<Kind>) -> Vec<String> {
    let refused = shadow_refusals(&spec("default", kind));
    assert!(refused.iter().all(|one| one.rule == "shadow" && one.why.starts_with("shadow: ")));
    refused.into_iter().map(|one| one.field).collect()
}

#[test]
fn in_shadow_nothing_is_touched_that_another_system_may_use() {
    assert_eq!(in_shadow(with_bind("/srv/data", false)), ["container.volumes[0].host_path"]);
    assert_eq!(in_shadow(with_bind("/srv/data", true)), Vec::<String>::new());
    assert_eq!(in_shadow(privileged()), ["container.privileged"]);
    for (service, field) in [
        ("network_mode: host", "services.a.network_mode"),
        ("volumes: ['/srv/data:/data']", "services.a.volumes"),
        // Compose would make the path where it is not there.
        ("volumes: ['/srv/data:/data:ro']", "services.a.volumes"),
        ("devices: ['/dev/fuse:/dev/fuse']", "services.a.devices"),
        ("cap_add: [SYS_ADMIN]", "services.a.cap_add"),
    ] {
        assert_eq!(in_shadow(stack(service)), [field], "{service}");
    }
    let read = "volumes: [{type: bind, source: /srv/data, target: /data, read_only: true, bind: \
                {create_host_path: false}}]";
    for service in ["ports: ['80:80']", "volumes: ['/data']", read] {
        assert_eq!(in_shadow(stack(service)), Vec::<String>::new(), "{service}");
    }
}

#[test]
fn a_machine_in_shadow_has_disks_and_addresses_of_its_own() {
    let mut guest =
        machine("/var/lib/libvirt/images/a.qcow2", Attach::Network(Arc::from("default")));
    assert_eq!(in_shadow(guest.clone()), ["vm.disks[vda]"]);
    guest.disks[0].cdrom = true;
    assert_eq!(in_shadow(guest.clone()), Vec::<String>::new());
    guest.disks[0].cdrom = false;
    guest.disks[0].source = DiskSource::Pool { pool: None, size_gib: 1 };
    guest.networks[0].address = Address::Static { ip: [10, 0, 0, 5].into(), prefix: Some(24) };
    guest.networks[0].mac = Some([2, 0, 0, 0, 0, 1]);
    let both = ["vm.networks[0].ip_address", "vm.networks[0].mac_address"];
    assert_eq!(in_shadow(guest), both);
}
