//! Any workload, with every field of every kind.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::Arc;

use persys_model::history::{History, Origin};
use persys_model::id::{RevisionId, SecretName, VolumeName};
use persys_model::labels::{Constraint, Rule, Toleration};
use persys_model::secret::{SecretSeen, SecretUse, Signal};
use persys_model::spec::compose::ComposeSource;
use persys_model::spec::container::{Bind, Limits, Open, Port, RestartPolicy, Swap};
use persys_model::spec::health::{Check, HealthChecks, Probe, Ready};
use persys_model::spec::secret::Secret;
use persys_model::spec::vm::{
    Address, Attach, CloudInit, DiskFormat, DiskSource, Login, NicModel, VmDisk, VmNetwork,
};
use persys_model::spec::volume::{AccessMode, ManagedVolume, VolumeDriver};
use persys_model::spec::{
    Class, ComposeSpec, ContainerSpec, Kind, OnNodeLoss, Placement, Spec, Strategy as Choice,
    VmSpec,
};
use persys_model::time::WallMillis;
use persys_model::token::Generation;
use persys_model::workload::{Desired, Workload};
use proptest::collection::{btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::select;

use super::draw::{host_port, name, pool, protocol, resources, text, texts, workload_id};

fn secret() -> impl Strategy<Value = Secret> {
    any::<String>().prop_map(|text| Secret::new(&text))
}

fn env() -> impl Strategy<Value = BTreeMap<Arc<str>, Secret>> {
    texts().prop_map(|texts| {
        texts.into_iter().map(|(key, value)| (key, Secret::new(&value))).collect()
    })
}

fn volume() -> impl Strategy<Value = ManagedVolume> {
    let access = select(vec![
        AccessMode::ReadWriteOnce,
        AccessMode::ReadOnlyMany,
        AccessMode::ReadWriteMany,
    ]);
    let name = name().prop_map(|text| VolumeName::new(&text).unwrap());
    let driver = select(VolumeDriver::ALL.to_vec());
    (name, driver, any::<u64>(), access, text(), text(), any::<(bool, bool)>()).prop_map(
        |(name, driver, size_gib, access, fs_type, mount_path, (read_only, retain))| {
            ManagedVolume { name, driver, size_gib, access, fs_type, mount_path, read_only, retain }
        },
    )
}

fn limits() -> impl Strategy<Value = Limits> {
    let swap = prop_oneof![
        Just(Swap::RuntimeDefault),
        Just(Swap::Unlimited),
        any::<u64>().prop_map(Swap::TotalBytes)
    ];
    let open = (any::<bool>(), any::<bool>()).prop_map(|(cpu, memory)| Open { cpu, memory });
    (of(any::<u32>()), of(any::<u64>()), swap, open).prop_map(
        |(cpu_shares, memory_bytes, swap, open)| Limits { cpu_shares, memory_bytes, swap, open },
    )
}

fn restart() -> impl Strategy<Value = RestartPolicy> {
    prop_oneof![
        Just(RestartPolicy::No),
        Just(RestartPolicy::Always),
        Just(RestartPolicy::UnlessStopped),
        any::<u32>().prop_map(|max_retries| RestartPolicy::AlwaysUpTo { max_retries }),
        any::<u32>().prop_map(|max_retries| RestartPolicy::OnFailure { max_retries }),
    ]
}

fn container() -> impl Strategy<Value = ContainerSpec> {
    let bind =
        (text(), text(), any::<bool>()).prop_map(|(host_path, container_path, read_only)| Bind {
            host_path,
            container_path,
            read_only,
        });
    let port = (of(any::<IpAddr>()), of(1..=u16::MAX), 1..=u16::MAX, protocol()).prop_map(
        |(address, host, container, protocol)| Port { address, host, container, protocol },
    );
    let words = || vec(text(), 0..3);
    let first = (text(), words(), words(), words(), env(), vec(bind, 0..3));
    let rest = (vec(port, 0..3), restart(), any::<bool>(), texts(), limits(), vec(volume(), 0..3));
    (first, rest).prop_map(
        |(
            (image, entrypoint, command, args, env, binds),
            (ports, restart, privileged, labels, limits, managed_volumes),
        )| ContainerSpec {
            image,
            entrypoint,
            command,
            args,
            env,
            binds,
            ports,
            restart,
            privileged,
            labels,
            limits,
            managed_volumes,
        },
    )
}

fn compose() -> impl Strategy<Value = ComposeSpec> {
    let source = prop_oneof![
        secret().prop_map(ComposeSource::Inline),
        (text(), text(), text(), text(), secret()).prop_map(
            |(repository, reference, path, commit, file)| ComposeSource::Git {
                repository,
                reference,
                path,
                commit,
                file,
            }
        ),
    ];
    (source, of(text()), env(), vec(host_port(), 0..3), any::<bool>()).prop_map(
        |(source, project, env, host_ports, has_named_volumes)| ComposeSpec {
            source,
            project,
            env,
            host_ports,
            has_named_volumes,
        },
    )
}

fn disk() -> impl Strategy<Value = VmDisk> {
    let source = prop_oneof![
        (of(pool()), any::<u64>()).prop_map(|(pool, size_gib)| DiskSource::Pool { pool, size_gib }),
        (text(), of(any::<u64>()))
            .prop_map(|(path, create_gib)| DiskSource::External { path, create_gib }),
        (select(VolumeDriver::ALL.to_vec()), any::<u64>())
            .prop_map(|(driver, size_gib)| DiskSource::Driver { driver, size_gib }),
        (text(), text()).prop_map(|(pool, image)| DiskSource::Rbd { pool, image }),
        (text(), of(any::<u16>()), text()).prop_map(|(host, port, path)| DiskSource::Nfs {
            host,
            port,
            path
        }),
    ];
    let format = select(vec![DiskFormat::Qcow2, DiskFormat::Raw, DiskFormat::Iso]);
    (text(), source, format, any::<(bool, bool)>(), of(text())).prop_map(
        |(device, source, format, (cdrom, boot), backing_file)| VmDisk {
            device,
            source,
            format,
            cdrom,
            boot,
            backing_file,
        },
    )
}

fn network() -> impl Strategy<Value = VmNetwork> {
    let attach = prop_oneof![text().prop_map(Attach::Network), text().prop_map(Attach::Bridge)];
    let address = prop_oneof![
        Just(Address::Dhcp),
        (any::<IpAddr>(), of(any::<u8>())).prop_map(|(ip, prefix)| Address::Static { ip, prefix }),
    ];
    let model =
        select(vec![NicModel::Virtio, NicModel::E1000, NicModel::E1000e, NicModel::Rtl8139]);
    (attach, of(any::<[u8; 6]>()), address, model)
        .prop_map(|(attach, mac, address, model)| VmNetwork { attach, mac, address, model })
}

fn cloud_init() -> impl Strategy<Value = CloudInit> {
    let login = (of(text()), of(text()), of(secret())).prop_map(
        |(username, ssh_public_key, password_hash)| Login {
            username,
            ssh_public_key,
            password_hash,
        },
    );
    (secret(), secret(), secret(), secret(), of(login)).prop_map(
        |(user_data, meta_data, network_config, vendor_data, login)| CloudInit {
            user_data,
            meta_data,
            network_config,
            vendor_data,
            login,
        },
    )
}

fn vm() -> impl Strategy<Value = VmSpec> {
    let size = any::<(u32, u64)>();
    let devices = (vec(disk(), 0..3), vec(network(), 0..3), vec(volume(), 0..2));
    (of(text()), size, devices, cloud_init(), of(text()), texts()).prop_map(
        |(
            name,
            (vcpus, memory_mib),
            (disks, networks, managed_volumes),
            cloud_init,
            os_image,
            metadata,
        )| VmSpec {
            name,
            vcpus,
            memory_mib,
            disks,
            networks,
            cloud_init,
            os_image,
            managed_volumes,
            metadata,
        },
    )
}

fn placement() -> impl Strategy<Value = Placement> {
    let rule = prop_oneof![
        Just(Rule::Exists),
        Just(Rule::Absent),
        btree_set(text(), 0..3).prop_map(Rule::In),
        btree_set(text(), 0..3).prop_map(Rule::NotIn),
    ];
    let constraint = (text(), rule).prop_map(|(key, rule)| Constraint { key, rule });
    let toleration = (text(), of(text())).prop_map(|(key, value)| Toleration { key, value });
    (
        vec(constraint, 0..3),
        vec(toleration, 0..3),
        select(vec![Choice::Spread, Choice::BinPack]),
        select(vec![Class::Default, Class::Exclusive]),
        select(vec![OnNodeLoss::Auto, OnNodeLoss::Move, OnNodeLoss::Stay]),
    )
        .prop_map(|(constraints, tolerations, strategy, class, on_node_loss)| Placement {
            constraints,
            tolerations,
            strategy,
            class,
            on_node_loss,
        })
}

pub(super) fn spec() -> impl Strategy<Value = Spec> {
    let kind = prop_oneof![
        container().prop_map(Kind::Container),
        compose().prop_map(Kind::Compose),
        vm().prop_map(Kind::Vm),
    ];
    let rest = (vec(used(), 0..3), of(any::<u64>()), health());
    (kind, resources(), placement(), texts(), rest).prop_map(
        |(kind, resources, placement, metadata, (secrets, stop_grace_ms, health))| Spec {
            kind,
            resources,
            placement,
            metadata,
            secrets,
            stop_grace_ms,
            health,
        },
    )
}

fn health() -> impl Strategy<Value = HealthChecks> {
    let probe = prop_oneof![
        (any::<u16>(), text()).prop_map(|(port, path)| Probe::Http { port, path }),
        any::<u16>().prop_map(|port| Probe::Tcp { port }),
        vec(text(), 0..3).prop_map(Probe::Exec),
    ];
    let check = (probe, any::<(u64, u64, u64, u32)>()).prop_map(|(probe, numbers)| {
        let (interval_ms, timeout_ms, start_period_ms, retries) = numbers;
        Ready::Check(Arc::new(Check { probe, interval_ms, timeout_ms, start_period_ms, retries }))
    });
    of(prop_oneof![Just(Ready::Disabled), check]).prop_map(|ready| HealthChecks { ready })
}

fn used() -> impl Strategy<Value = SecretUse> {
    let signal = of(select(Signal::ALL.to_vec()));
    let file = ("[/a-z]{1,9}", 0_u32..0o1000, any::<u32>(), any::<u32>(), signal).prop_map(
        |(path, mode, uid, gid, signal)| SecretSeen::File {
            path: path.into(),
            mode,
            uid,
            gid,
            signal,
        },
    );
    let env = "[A-Z]{1,9}".prop_map(|name| SecretSeen::Env(name.into()));
    ("[a-z]{1,9}", prop_oneof![file, env])
        .prop_map(|(name, seen)| SecretUse { secret: SecretName::new(&name).unwrap(), seen })
}

pub(super) fn revision() -> impl Strategy<Value = RevisionId> {
    "[!-~]{1,128}".prop_map(|text| RevisionId::new(&text).unwrap())
}

pub(super) fn workload() -> impl Strategy<Value = Workload> {
    let desired = select(vec![Desired::Running, Desired::Stopped, Desired::Deleted]);
    let rest = (any::<u64>(), history());
    (workload_id(), spec(), revision(), any::<u64>(), desired, rest).prop_map(
        |(id, spec, revision, generation, desired, (created, history))| Workload {
            id,
            spec: Arc::new(spec),
            revision,
            generation: Generation(generation),
            desired,
            created_at: WallMillis(created),
            history,
        },
    )
}

/// A history after so many revisions, of few contents.
fn history() -> impl Strategy<Value = History> {
    vec((0_u128..4, any::<u64>(), of(1_u32..9)), 0..14).prop_map(|steps| {
        let mut history = History::default();
        for (content, at, rolled_back_to) in steps {
            let origin = Origin { at: WallMillis(at), by: "user ada".into(), rolled_back_to };
            drop(history.supersede(RevisionId::of_content(content), content % 2 == 0, origin));
        }
        history
    })
}
