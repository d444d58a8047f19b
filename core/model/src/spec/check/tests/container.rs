//! Rules for containers.

use super::*;
use crate::spec::Protocol;
use crate::spec::check::limits;
use crate::spec::container::{RestartPolicy, Swap};
use crate::spec::draft::{BindDraft, PortDraft};

fn port(host_port: i32, container_port: i32, protocol: &str) -> PortDraft {
    PortDraft { host_port, container_port, protocol: protocol.into(), host_ip: String::new() }
}

fn on(host_ip: &str, port: PortDraft) -> PortDraft {
    PortDraft { host_ip: host_ip.into(), ..port }
}

fn bind(host_path: &str, container_path: &str) -> BindDraft {
    BindDraft {
        host_path: host_path.into(),
        container_path: container_path.into(),
        read_only: false,
    }
}

#[test]
fn images() {
    let digest = format!("sha256:{}", "0af3".repeat(16));
    let good = [
        "nginx",
        "nginx:latest",
        "library/nginx:1.27-alpine",
        "localhost/app",
        "localhost:5000/app:v1",
        "registry.example.com/team/app__x/y--z:_tag.1-A",
        "10.0.0.1:5000/a/b",
        "[2001:db8::1]:5000/a",
        "Registry/app",
        &format!("ghcr.io/a/b@{digest}"),
        &format!("ghcr.io/a/b:v1@{digest}"),
    ];
    for text in good {
        let mut draft = container_draft();
        container(&mut draft).image = text.into();
        assert_eq!(&*container_spec(&draft).image, text);
    }
    let long = format!("a/{}", long(511));
    let bad = [
        "",
        " ",
        "-rm",
        "--privileged",
        "nginx latest",
        "Nginx",
        "a//b",
        "/a",
        "a/",
        "a:",
        ":tag",
        "a:-x",
        "a:b:c",
        "a@sha256:00",
        "a@md5:00",
        "a@",
        "a..b",
        "a___b",
        "_a",
        "a-",
        "a.-b",
        "ex_ample.com/a",
        "host:0/a",
        "host:99999/a",
        "host:+80/a",
        "-h.example/a",
        "a\0b",
        "a\nb",
        "ä",
        "http://x/y",
        "../a",
        "a/../b",
        "$(id)",
        &digest[7..],
        &format!("a@{}", digest.to_uppercase()),
        &long,
    ];
    for text in bad {
        let mut draft = container_draft();
        container(&mut draft).image = text.into();
        assert_eq!(paths_at_fault(&draft), ["spec.container.image"], "{text:?} was accepted");
    }
}

#[test]
fn commands() {
    run(
        container_draft,
        container,
        &[
            ("words", |c| c.command = vec!["sh".into(), "-c".into(), String::new()], &[]),
            ("lines", |c| c.args = vec!["a\nb".into()], &[]),
            ("no program", |c| c.command = vec![String::new()], &["spec.container.command[0]"]),
            ("NUL", |c| c.args = vec!["a".into(), "\0".into()], &["spec.container.args[1]"]),
            ("word too long", |c| c.args = vec![long(32 * 1024 + 1)], &["spec.container.args[0]"]),
            ("too many", |c| c.args = vec![String::new(); 257], &["spec.container.command"]),
            ("too much", |c| c.args = vec![long(32 * 1024); 5], &["spec.container.command"]),
        ],
    );
}

#[test]
fn environments() {
    run(
        container_draft,
        container,
        &[
            ("lines in a value", |c| drop(c.env.insert("_A1".into(), "x\ny=z".into())), &[]),
            ("LD_PRELOAD inside", |c| drop(c.env.insert("LD_PRELOAD".into(), "x".into())), &[]),
            (
                "empty name",
                |c| drop(c.env.insert(String::new(), "x".into())),
                &["spec.container.env[]"],
            ),
            ("digit", |c| drop(c.env.insert("1A".into(), "x".into())), &["spec.container.env[1A]"]),
            ("=", |c| drop(c.env.insert("A=B".into(), "x".into())), &["spec.container.env[A=B]"]),
            ("unicode", |c| drop(c.env.insert("Ä".into(), "x".into())), &["spec.container.env[Ä]"]),
            (
                "escape in a path",
                |c| drop(c.env.insert("A\u{1b}[2J".into(), "x".into())),
                &["spec.container.env[A\\u{1b}[2J]"],
            ),
            ("NUL", |c| drop(c.env.insert("A".into(), "\0".into())), &["spec.container.env[A]"]),
            (
                "value too long",
                |c| drop(c.env.insert("A".into(), long(limits::ENV_VALUE_BYTES + 1))),
                &["spec.container.env[A]"],
            ),
            (
                "too many",
                |c| c.env = (0..257).map(|n| (format!("A{n}"), String::new())).collect(),
                &["spec.container.env"],
            ),
            (
                "too much",
                |c| c.env = (0..9).map(|n| (format!("A{n}"), long(32_000))).collect(),
                &["spec.container.env"],
            ),
        ],
    );
}

#[test]
fn binds() {
    run(
        container_draft,
        container,
        &[
            ("plain", |c| c.volumes = vec![bind("/srv/x", "/data/"), bind("/", "/host")], &[]),
            (
                "both wrong",
                |c| c.volumes = vec![bind("srv", "data")],
                &[
                    "spec.container.volumes[0].host_path",
                    "spec.container.volumes[0].container_path",
                ],
            ),
            (
                "parent",
                |c| c.volumes = vec![bind("/srv/../etc", "/a")],
                &["spec.container.volumes[0].host_path"],
            ),
            (
                "dot",
                |c| c.volumes = vec![bind("/./a", "/a")],
                &["spec.container.volumes[0].host_path"],
            ),
            (
                "double",
                |c| c.volumes = vec![bind("//a", "/a")],
                &["spec.container.volumes[0].host_path"],
            ),
            (
                "NUL",
                |c| c.volumes = vec![bind("/a\0", "/a")],
                &["spec.container.volumes[0].host_path"],
            ),
            (
                "colon",
                |c| c.volumes = vec![bind("/a:rw", "/a")],
                &["spec.container.volumes[0].host_path"],
            ),
            (
                "empty",
                |c| c.volumes = vec![bind("", "/a")],
                &["spec.container.volumes[0].host_path"],
            ),
            (
                "root inside",
                |c| c.volumes = vec![bind("/a", "/")],
                &["spec.container.volumes[0].container_path"],
            ),
            (
                "too long",
                |c| c.volumes = vec![bind(&format!("/{}", long(1024)), "/a")],
                &["spec.container.volumes[0].host_path"],
            ),
            (
                "same place",
                |c| c.volumes = vec![bind("/a", "/x"), bind("/b", "/x/")],
                &["spec.container.volumes[1].container_path"],
            ),
            (
                "too many",
                |c| c.volumes = (0..65).map(|n| bind("/a", &format!("/x{n}"))).collect(),
                &["spec.container.volumes"],
            ),
        ],
    );
}

#[test]
fn ports() {
    run(
        container_draft,
        container,
        &[
            ("chosen by the runtime", |c| c.ports = vec![port(0, 80, ""), port(0, 80, "")], &[]),
            ("both transports", |c| c.ports = vec![port(53, 53, "TCP"), port(53, 53, "Udp")], &[]),
            (
                "host below",
                |c| c.ports = vec![port(-1, 80, "")],
                &["spec.container.ports[0].host_port"],
            ),
            (
                "host above",
                |c| c.ports = vec![port(65536, 80, "")],
                &["spec.container.ports[0].host_port"],
            ),
            (
                "all of the third wrong",
                |c| c.ports = vec![port(1, 1, ""), port(2, 2, ""), port(i32::MIN, 0, "sctp")],
                &[
                    "spec.container.ports[2].host_port",
                    "spec.container.ports[2].container_port",
                    "spec.container.ports[2].protocol",
                ],
            ),
            (
                "taken",
                |c| c.ports = vec![port(80, 80, ""), port(80, 81, "tcp")],
                &["spec.container.ports[1].host_port"],
            ),
            ("too many", |c| c.ports = vec![port(0, 1, ""); 257], &["spec.container.ports"]),
            (
                "one port on two addresses",
                |c| c.ports = vec![on("127.0.0.1", port(80, 80, "")), on("::1", port(80, 80, ""))],
                &[],
            ),
            (
                "one port on every address and on one",
                |c| c.ports = vec![port(80, 80, ""), on("127.0.0.1", port(80, 80, ""))],
                &["spec.container.ports[1].host_port"],
            ),
            (
                "one port twice on one address",
                |c| c.ports = vec![on("::1", port(80, 80, "")), on("0::1", port(80, 81, ""))],
                &["spec.container.ports[1].host_port"],
            ),
            (
                "no addresses",
                |c| {
                    c.ports = ["localhost", "127.0.0.1:80", "[::1]", "256.0.0.1", " "]
                        .map(|ip| on(ip, port(0, 80, "")))
                        .to_vec();
                },
                &[
                    "spec.container.ports[0].host_ip",
                    "spec.container.ports[1].host_ip",
                    "spec.container.ports[2].host_ip",
                    "spec.container.ports[3].host_ip",
                    "spec.container.ports[4].host_ip",
                ],
            ),
        ],
    );
    let mut draft = container_draft();
    container(&mut draft).ports = vec![port(0, 80, "udp"), port(8080, 80, "")];
    let ports = container_spec(&draft).ports;
    assert_eq!((ports[0].host, ports[0].protocol), (None, Protocol::Udp));
    assert_eq!((ports[1].host, ports[1].protocol), (Some(8080), Protocol::Tcp));
    container(&mut draft).ports =
        vec![on("127.0.0.1", port(80, 80, "")), on("::1", port(80, 80, ""))];
    let spec = container_spec(&draft);
    assert_eq!(spec.host_ports().len(), 1, "the node has the port taken once");
    let taken = spec.host_ports()[0];
    assert_eq!(spec.addresses_of(taken).len(), 2);
}

#[test]
fn restarts() {
    let policy = |word: &str, count| {
        let mut draft = container_draft();
        container(&mut draft).restart_policy = word.into();
        container(&mut draft).max_retry_count = count;
        check(&draft).map(|_| container_spec(&draft).restart).ok()
    };
    assert_eq!(policy("", 0), Some(RestartPolicy::No));
    assert_eq!(policy("no", 0), Some(RestartPolicy::No));
    assert_eq!(policy("Always", 0), Some(RestartPolicy::Always));
    assert_eq!(policy("on-failure", 3), Some(RestartPolicy::OnFailure { max_retries: 3 }));
    assert_eq!(policy("unless-stopped", 0), Some(RestartPolicy::UnlessStopped));
    assert_eq!(policy("unless-stopped", 3), Some(RestartPolicy::AlwaysUpTo { max_retries: 3 }));
    assert_eq!(policy("always", 1), Some(RestartPolicy::AlwaysUpTo { max_retries: 1 }));
    run(
        container_draft,
        container,
        &[
            (
                "unknown",
                |c| c.restart_policy = "sometimes".into(),
                &["spec.container.restart_policy"],
            ),
            (
                "none, thrice",
                |c| c.max_retry_count = 3,
                &["spec.container.restart_policy.max_retry_count"],
            ),
            (
                "negative",
                |c| c.max_retry_count = -1,
                &["spec.container.restart_policy.max_retry_count"],
            ),
            (
                "both",
                |c| {
                    c.restart_policy = "x".into();
                    c.max_retry_count = i32::MAX;
                },
                &["spec.container.restart_policy", "spec.container.restart_policy.max_retry_count"],
            ),
        ],
    );
}

#[test]
fn labels() {
    run(
        container_draft,
        container,
        &[
            (
                "of a proxy",
                |c| {
                    let rule = "Host(`a.example`) && Path(`/x`)";
                    drop(
                        c.labels.insert("traefik.http.r.x.tls.domains[0].main".into(), rule.into()),
                    );
                },
                &[],
            ),
            (
                "ours",
                |c| drop(c.labels.insert("persys.managed".into(), "true".into())),
                &["spec.container.labels[persys.managed]"],
            ),
            (
                "space",
                |c| drop(c.labels.insert("a b".into(), String::new())),
                &["spec.container.labels[a b]"],
            ),
            (
                "key too long",
                |c| drop(c.labels.insert(long(129), String::new())),
                &["spec.container.labels[aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa…]"],
            ),
            (
                "too many",
                |c| c.labels = (0..65).map(|n| (format!("k{n}"), String::new())).collect(),
                &["spec.container.labels"],
            ),
        ],
    );
}

#[test]
fn limits_of_a_container() {
    const MIB: i64 = 1024 * 1024;
    run(
        container_draft,
        container,
        &[
            ("shares", |c| c.resources.cpu_shares = 2, &[]),
            (
                "too few shares",
                |c| c.resources.cpu_shares = 1,
                &["spec.container.resources.cpu_shares"],
            ),
            ("negative", |c| c.resources.cpu_shares = -5, &["spec.container.resources.cpu_shares"]),
            (
                "too little memory",
                |c| c.resources.memory_bytes = 6 * MIB - 1,
                &["spec.container.resources.memory_bytes"],
            ),
            (
                "overflowing",
                |c| c.resources.memory_bytes = i64::MAX,
                &["spec.container.resources.memory_bytes"],
            ),
            ("swap without end", |c| c.resources.memory_swap_bytes = -1, &[]),
            (
                "swap alone",
                |c| c.resources.memory_swap_bytes = MIB,
                &["spec.container.resources.memory_swap_bytes"],
            ),
            (
                "swap below memory",
                |c| {
                    c.resources.memory_bytes = 20 * MIB;
                    c.resources.memory_swap_bytes = 10 * MIB;
                },
                &["spec.container.resources.memory_swap_bytes"],
            ),
            (
                "swap below nothing",
                |c| c.resources.memory_swap_bytes = -2,
                &["spec.container.resources.memory_swap_bytes"],
            ),
        ],
    );
    let mut draft = container_draft();
    container(&mut draft).resources.memory_bytes = 64 * MIB;
    container(&mut draft).resources.memory_swap_bytes = 96 * MIB;
    let limits = container_spec(&draft).limits;
    assert_eq!(limits.memory_bytes, Some(64 << 20));
    assert_eq!(limits.swap, Swap::TotalBytes(96 << 20));
    draft.resources.memory_mb = 65;
    assert_eq!(paths_at_fault(&draft), ["spec.resources.memory_mb"]);
    draft.resources.memory_mb = 32;
    assert_eq!(accepted(&draft).resources.compute.memory_mib, 32);
}

#[test]
fn many_faults_of_one_container_come_at_once() {
    let mut draft = container_draft();
    let body = container(&mut draft);
    body.image = String::new();
    drop(body.env.insert("1".into(), String::new()));
    body.volumes = vec![bind("/a", "..")];
    body.ports = vec![port(1, 1, ""), port(1, 70_000, "icmp")];
    body.restart_policy = "?".into();
    draft.resources.cpu_millicores = -1;
    draft.placement.class = "gold".into();
    assert_eq!(
        paths_at_fault(&draft),
        [
            "spec.container.image",
            "spec.container.env[1]",
            "spec.container.volumes[0].container_path",
            "spec.container.ports[1].container_port",
            "spec.container.ports[1].protocol",
            "spec.container.restart_policy",
            "spec.resources.cpu_millicores",
            "spec.placement.class",
        ]
    );
}
