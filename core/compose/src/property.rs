//! Any document at all is read back, from what is emitted, as the same document.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::{btree_map, btree_set, vec};
use proptest::option::of;
use proptest::prelude::*;

use crate::document::{Document, Network, Subnet, Volume};
use crate::emit::Marks;
use crate::service::{
    Attachment, Condition, Endpoint, Health, Identity, Limits, Mount, MountSource, Names,
    Namespace, Port, Powers, Process, Protocol, Restart, SecretFile, Service,
};
use crate::signal::Signal;

fn name() -> impl Strategy<Value = String> {
    "[a-zA-Z0-9][a-zA-Z0-9_-]{0,8}"
}

/// Texts with everything that means something to YAML, JSON, a shell or the program.
fn text() -> impl Strategy<Value = String> {
    "([a-z$\\{\\}:'\"\\\\ \t\n#&*!|>%@`,\\[\\]-]|\\PC){0,12}"
}

fn path() -> impl Strategy<Value = String> {
    "(/[a-z$ é.-]{0,4}[a-z$é]){1,3}"
}

fn words() -> impl Strategy<Value = Vec<String>> {
    ("[a-z]", vec(text(), 0..3)).prop_map(|(first, mut rest)| {
        rest.insert(0, first);
        rest
    })
}

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    btree_map("[a-z0-9][a-z0-9./{}$-]{0,8}", text(), 0..3)
}

fn millis() -> impl Strategy<Value = Option<u64>> {
    of(0_u64..86_400_000)
}

fn ports() -> impl Strategy<Value = Vec<Port>> {
    let address = of(any::<std::net::Ipv4Addr>().prop_map(std::net::IpAddr::V4));
    let protocol = prop_oneof![Just(Protocol::Tcp), Just(Protocol::Udp)];
    let port =
        (address, of(1_u16..), 1_u16.., protocol).prop_map(|(address, host, port, protocol)| {
            Port { address, host, container: port, protocol }
        });
    btree_map(any::<u16>(), port, 0..3).prop_map(|ports| {
        // Each has a port of the node to itself, so that none is taken twice.
        let mut taken = BTreeSet::new();
        let fresh = ports.into_values().filter(|p| p.host.is_none_or(|host| taken.insert(host)));
        let ports: BTreeSet<Port> = fresh.collect();
        ports.into_iter().collect()
    })
}

fn mounts() -> impl Strategy<Value = Vec<Mount>> {
    let options = btree_map("(uid|gid)", "[0-9]{1,3}", 0..2);
    let source = prop_oneof![
        any::<bool>().prop_map(|nocopy| MountSource::Volume { name: "data".to_owned(), nocopy }),
        Just(MountSource::Anonymous),
        (path(), of(prop_oneof![Just('z'), Just('Z')])).prop_map(|(path, relabel)| {
            MountSource::Bind { path: format!("/srv{path}"), create: true, relabel }
        }),
        path().prop_map(|path| MountSource::Bind {
            path: format!("/srv{path}"),
            create: false,
            relabel: None
        }),
        options.prop_map(|options| MountSource::Tmpfs { options }),
    ];
    btree_map(path(), (source, any::<bool>()), 0..4).prop_map(|mounts| {
        let mount = |(target, (source, read_only))| Mount { source, target, read_only };
        mounts.into_iter().map(mount).collect()
    })
}

fn network() -> impl Strategy<Value = Attachment> {
    let endpoint =
        (btree_set(name(), 0..2), of(any::<std::net::Ipv4Addr>()), of(any::<std::net::Ipv6Addr>()))
            .prop_map(|(aliases, ipv4, ipv6)| Endpoint { aliases, ipv4, ipv6 });
    prop_oneof![
        Just(Attachment::default()),
        btree_map("(default|back|front)", endpoint, 1..3).prop_map(Attachment::Networks),
        Just(Attachment::Bridge),
    ]
}

fn limits() -> impl Strategy<Value = Limits> {
    let amounts = (of(1_u64..64_000), of(6_u64 << 20..1 << 40), of(1_u64..4096));
    let others = (of(6_u64 << 20..16 << 20), of(2_u64..262_144), of(1_u64..1 << 30));
    (amounts, others, any::<bool>()).prop_map(
        |((cpu, memory, pids), (aside, shares, shm), swap)| {
            let memory = memory.map(|bytes| bytes.max(16 << 20));
            Limits {
                cpu_millicores: cpu,
                memory_bytes: memory,
                pids,
                reserved_cpu_millicores: None,
                reserved_memory_bytes: aside,
                swap_bytes: memory.filter(|_| swap).map(|_| -1),
                cpu_shares: shares,
                shm_bytes: shm,
            }
        },
    )
}

fn health() -> impl Strategy<Value = Option<Health>> {
    let test = of(prop_oneof![
        text().prop_map(|text| vec!["CMD-SHELL".to_owned(), text]),
        words().prop_map(|mut words| {
            words.insert(0, "CMD".to_owned());
            words
        }),
    ]);
    let check = (test, millis(), millis(), of(0_u32..1000), millis()).prop_map(
        |(test, interval_ms, timeout_ms, retries, start_period_ms)| Health::Check {
            test,
            interval_ms,
            timeout_ms,
            retries,
            start_period_ms,
        },
    );
    of(prop_oneof![Just(Health::Disabled), check])
}

fn identity() -> impl Strategy<Value = Identity> {
    let user = of("[a-z0-9]{1,4}(:[a-z0-9]{1,4})?");
    let rest = (of(path()), of(name()), of("[a-z]{1,4}\\.[a-z]{1,4}"), of("linux/(amd|arm)64"));
    (user, btree_set("[a-z0-9]{1,4}", 0..2), rest).prop_map(
        |(user, groups, (working_dir, hostname, domainname, platform))| Identity {
            user,
            groups,
            working_dir,
            hostname,
            domainname,
            platform,
        },
    )
}

fn process() -> impl Strategy<Value = Process> {
    let truths = (of(any::<bool>()), any::<bool>(), any::<bool>(), any::<bool>());
    let ulimits = btree_map("[a-z]{1,6}", (0_i64..99).prop_map(|n| (n, n + 7)), 0..2);
    let sysctls = btree_map("net\\.[a-z0-9_.]{1,6}", "[a-z0-9]{1,4}", 0..2);
    let grace = of((0_u64..86_400).prop_map(|seconds| seconds * 1000));
    let stop = (of("SIG[A-Z]{2,5}"), grace, of(0_u16..1000));
    (truths, stop, ulimits, sysctls).prop_map(
        |((init, tty, stdin_open, read_only), (signal, grace, oom_score_adj), ulimits, sysctls)| {
            Process {
                init,
                tty,
                stdin_open,
                read_only,
                stop_signal: signal,
                stop_grace_ms: grace,
                ulimits,
                sysctls,
                oom_score_adj,
            }
        },
    )
}

fn powers() -> impl Strategy<Value = Powers> {
    let caps = || btree_set("[A-Z_]{2,8}", 0..2);
    let caps = (caps(), caps()).prop_map(|(add, drop)| {
        let bare = |all: BTreeSet<String>| all.into_iter().filter(|c| !c.starts_with("CAP_"));
        (bare(add).collect(), bare(drop).collect())
    });
    let options =
        btree_set("(seccomp=unconfined|apparmor=[a-z]{1,4}|no-new-privileges=false)", 0..2);
    let devices = btree_set("/dev/[a-z]{1,4}:/dev/[a-z]{1,4}:r?w", 0..2);
    let space = of(prop_oneof![
        Just(Namespace::Host),
        Just(Namespace::Shareable),
        Just(Namespace::Private)
    ]);
    let pid = of(Just(Namespace::Host));
    (any::<bool>(), caps, options, devices, pid, space, any::<bool>()).prop_map(
        |(privileged, (cap_add, cap_drop), security_opt, devices, pid, ipc, host_users)| Powers {
            privileged,
            cap_add,
            cap_drop,
            security_opt,
            devices,
            pid,
            ipc,
            host_users,
        },
    )
}

fn names() -> impl Strategy<Value = Names> {
    let address = any::<std::net::IpAddr>().prop_map(|ip| ip.to_string());
    let address = prop_oneof![address, Just("host-gateway".to_owned())];
    let hosts = btree_map("[a-z]{1,4}\\.[a-z]{1,4}", btree_set(address, 1..2), 0..2);
    (
        hosts,
        vec(any::<std::net::IpAddr>(), 0..2),
        vec("[a-z]{1,4}", 0..2),
        vec("[a-z]{1,4}:[0-9]", 0..2),
    )
        .prop_map(|(extra_hosts, dns, search, options)| Names {
            extra_hosts,
            dns,
            search,
            options,
        })
}

fn service() -> impl Strategy<Value = Service> {
    let run = (of(words()), of(words()), btree_map("[A-Z_][A-Z0-9_.-]{0,6}", text(), 0..3));
    let outside = (ports(), btree_set("[1-9][0-9]{0,3}/udp", 0..2), mounts(), network());
    let inside = (limits(), health(), labels(), identity(), process(), powers(), names());
    (run, outside, inside).prop_map(|(run, outside, inside)| {
        let (entrypoint, command, environment) = run;
        let (ports, expose, mounts, network) = outside;
        let (limits, healthcheck, labels, identity, process, powers, names) = inside;
        Service {
            name: String::new(),
            image: "example.com:5000/a/b:c".to_owned(),
            entrypoint,
            command,
            environment,
            ports,
            expose: expose.into_iter().collect(),
            mounts,
            network,
            links: Vec::new(),
            depends_on: BTreeMap::new(),
            restart: Restart::No,
            one_shot: true,
            replicas: 1,
            limits,
            healthcheck,
            labels,
            identity,
            process,
            powers,
            names,
            logging: None,
        }
    })
}

fn document() -> impl Strategy<Value = Document> {
    let condition =
        prop_oneof![Just(Condition::Started), Just(Condition::Healthy), Just(Condition::Completed)];
    let subnet = of((0_u8..=255).prop_map(|n| Subnet {
        range: Some(format!("10.{n}.0.0/16")),
        given_out: Some(format!("10.{n}.1.0/24")),
        gateway: Some(std::net::Ipv4Addr::new(10, n, 0, 1).into()),
    }));
    let network = (any::<bool>(), any::<bool>(), subnet, labels()).prop_map(
        |(internal, ipv6, subnet, labels)| Network {
            internal,
            ipv6,
            options: BTreeMap::new(),
            subnets: subnet.into_iter().collect(),
            labels,
        },
    );
    (btree_map(name(), service(), 1..4), condition, network, labels(), 1_u32..5).prop_map(
        |(mut services, condition, network, labels, replicas)| {
            // The first is what the others wait for; its ports are its own.
            let first = services.keys().next().cloned();
            for (nth, (name, service)) in services.iter_mut().enumerate() {
                service.name.clone_from(name);
                if nth > 0 {
                    service.ports.retain(|port| port.host.is_none());
                    service.replicas = replicas;
                    let first = first.clone().unwrap_or_default();
                    service.links.push(format!("{first}:other"));
                    service.depends_on.insert(first, condition);
                }
            }
            let networks = [("back".to_owned(), network), ("front".to_owned(), Network::default())];
            let volumes = [("data".to_owned(), Volume { labels })];
            let mut document =
                Document { services, networks: networks.into(), volumes: volumes.into() };
            document.settle_one_shots();
            document
        },
    )
}

/// The same, each service with its mounts by where they are seen.
fn sorted(mut document: Document) -> Document {
    for service in document.services.values_mut() {
        service.mounts.sort_by(|a, b| a.target.cmp(&b.target));
    }
    document
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    #[test]
    fn what_is_emitted_is_read_as_the_same(document in document(), labels in labels()) {
        let marks = Marks { labels, stop_grace_ms: Some(45_000), ..Marks::default() };
        let emitted = document.emit(&marks);
        let reading = crate::read(&emitted, &BTreeMap::new());
        let refused: Vec<_> = reading
            .findings
            .iter()
            .filter(|finding| finding.verdict == crate::Verdict::Refused)
            .collect();
        prop_assert!(refused.is_empty(), "{refused:?} in {emitted}");
        let expected = document.as_run(&marks);
        prop_assert!(reading.document.as_ref() == Some(&expected), "{emitted}\n{}",
            reading.document.map(|again| again.emit(&marks)).unwrap_or_default());
    }

    #[test]
    fn what_is_written_as_a_file_is_read_as_the_same(
        mut document in document(), cpu in of(1_u64..64_000), mode in 0_u32..0o777,
    ) {
        for service in document.services.values_mut() {
            let most = service.limits.cpu_millicores.unwrap_or(u64::MAX);
            service.limits.reserved_cpu_millicores = cpu.map(|cpu| cpu.min(most));
            let signal = Some(Signal::Usr1).filter(|_| mode % 2 == 0);
            let secret = SecretFile { name: "key".to_owned(), mode, uid: 3, gid: 4, signal };
            let source = MountSource::Secret(secret);
            let target = "/run/secrets/of the $stack".to_owned();
            service.mounts.push(Mount { source, target, read_only: true });
        }
        let file = document.to_file();
        let reading = crate::read(&file, &BTreeMap::new());
        let again = reading.document.map(sorted);
        prop_assert!(again == Some(sorted(document)), "{file}\n{:?}", reading.findings);
    }
}
