//! What a container is really given, and what can be seen of it.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bollard::query_parameters::{
    CreateContainerOptions, InspectContainerOptions, RemoveImageOptions,
};
use futures::StreamExt;
use persys_model::failure::FailureReason;
use persys_model::spec::container::{Bind, Limits, Swap};
use persys_model::spec::secret::Secret;
use persys_model::spec::{ContainerSpec, Protocol};
use persys_model::time::Millis;
use persys_node::input::Existing;
use persys_runtime::docker::Docker;
use persys_runtime::inside::{ExecCommand, LogRange, Source};
use persys_runtime::{Clock, Error, Evidence, Exec, Logs, Owner, Runtime, Usage};
use tokio::io::AsyncWriteExt;

use super::bench::{bench, bench_with, owner, settings, shell, sleeper};
use crate::contract::{self, ended, start, state};

async fn printed(docker: &Docker, order: &persys_runtime::Start, range: LogRange) -> String {
    let mut output = docker.logs(&order.workload, range).await.unwrap();
    let mut text = String::new();
    while let Some(chunk) = output.next().await {
        text.push_str(&String::from_utf8_lossy(&chunk.unwrap().bytes));
    }
    text
}

#[tokio::test]
async fn limits_and_powers_are_as_promised() {
    let bench = bench();
    let container = ContainerSpec {
        limits: Limits {
            cpu_shares: Some(333),
            memory_bytes: Some(64 << 20),
            swap: Swap::TotalBytes(64 << 20),
            ..Limits::default()
        },
        ..bench.runs()
    };
    let order = start("shape", "r1", container);
    bench.docker.start(&order).await.unwrap();
    let name = bench.name("shape");
    let raw = bench.raw.inspect_container(&name, None::<InspectContainerOptions>).await.unwrap();
    let host = raw.host_config.unwrap();
    assert_eq!(
        (host.cpu_quota, host.cpu_period, host.cpu_shares),
        (Some(10_000), Some(100_000), Some(333))
    );
    assert_eq!(host.memory, Some(64 << 20));
    assert_eq!(host.pids_limit, Some(4096));
    assert_eq!(host.privileged, Some(false));
    assert_eq!(host.cap_drop.unwrap(), ["NET_RAW"]);
    assert_eq!(host.security_opt.unwrap(), ["no-new-privileges"]);
    assert_eq!(host.restart_policy.unwrap().name.unwrap().to_string(), "no");
    let log = host.log_config.unwrap();
    assert_eq!(log.typ.as_deref(), Some("json-file"));
    assert_eq!(log.config.unwrap()["max-size"], "10m");
    let labels = raw.config.unwrap().labels.unwrap();
    for (key, value) in [
        ("persys.managed", "true"),
        ("persys.cluster", bench.prefix.as_str()),
        ("persys.node", "n1"),
        ("persys.workload_id", "shape"),
        ("persys.revision_id", "r1"),
        ("persys.epoch", "7"),
        ("persys.test", "live"),
    ] {
        assert_eq!(labels.get(key).map(String::as_str), Some(value), "{key}");
    }
    bench.docker.remove(&order.workload, true).await.unwrap();
}

#[tokio::test]
async fn environment_arguments_binds_and_volumes_arrive() {
    let bench = bench();
    let folder = std::env::temp_dir().join(format!("{}with:colon", bench.prefix));
    std::fs::create_dir_all(&folder).unwrap();
    std::fs::write(folder.join("word"), "from the node\n").unwrap();
    let path: Arc<str> = Arc::from(folder.to_str().unwrap());
    let container = ContainerSpec {
        args: vec![Arc::from("zero"), Arc::from("first arg")],
        env: [(Arc::from("WORD"), Secret::new("two\nlines = $HOME"))].into(),
        binds: vec![Bind { host_path: path, container_path: Arc::from("/data"), read_only: true }],
        ..shell("cat /data/word; echo \"$WORD\"; echo \"$1\"; echo no > /data/x; echo done >&2")
    };
    let order = start("arrives", "r1", container);
    bench.docker.start(&order).await.unwrap();
    assert_eq!(ended(&bench, &order.workload).await, 0);
    let all = printed(&bench.docker, &order, LogRange::default()).await;
    for line in [
        "from the node\n",
        "two\nlines = $HOME\n",
        "first arg\n",
        "Read-only file system",
        "done\n",
    ] {
        assert!(all.contains(line), "{line:?} in {all:?}");
    }
    bench.docker.remove(&order.workload, true).await.unwrap();
    std::fs::remove_dir_all(&folder).unwrap();
}

#[tokio::test]
async fn what_cannot_start_says_why() {
    let bench = bench();
    let missing = Bind {
        host_path: Arc::from("/no/such/folder"),
        container_path: Arc::from("/data"),
        read_only: false,
    };
    let no_program = ContainerSpec { command: vec![Arc::from("/bin/nonesuch")], ..bench.runs() };
    let no_image = ContainerSpec { image: Arc::from("persys-test/none:1"), ..bench.runs() };
    for (name, container, reason) in [
        (
            "bind",
            ContainerSpec { binds: vec![missing], ..bench.runs() },
            FailureReason::StorageError,
        ),
        ("program", no_program, FailureReason::InvalidSpec),
        ("image", no_image, FailureReason::ImagePullFailed),
    ] {
        let order = start(name, "r1", container);
        let error = bench.docker.start(&order).await.unwrap_err();
        assert_eq!(error.reason(), reason, "{name}: {error}");
        assert!(!error.is_unknown());
        bench.docker.remove(&order.workload, true).await.unwrap();
    }
}

/// A port on one address is answered there and nowhere else, and is told with its address.
#[tokio::test]
async fn a_port_on_one_address_is_reached_on_no_other() {
    let bench = bench();
    let local: std::net::IpAddr = [127, 0, 0, 1].into();
    let port = |address| persys_model::spec::container::Port {
        address,
        host: None,
        container: 80,
        protocol: Protocol::Tcp,
    };
    let mut found = Vec::new();
    for (name, address) in [("local", Some(local)), ("every", None)] {
        let script = "mkdir -p /tmp/w && httpd -f -p 80 -h /tmp/w";
        let order =
            start(name, "r1", ContainerSpec { ports: vec![port(address)], ..shell(script) });
        bench.docker.start(&order).await.unwrap();
        let thing = bench.docker.inspect(&order.workload).await.unwrap().unwrap();
        let published = thing.ports.first().copied().expect("a port");
        assert_eq!((thing.ports.len(), published.address), (1, address), "{name}");
        let reached = |at: [u8; 4]| {
            let at = std::net::SocketAddr::from((at, published.host.port));
            std::net::TcpStream::connect_timeout(&at, Duration::from_secs(5)).is_ok()
        };
        // Both are addresses of this machine.
        found.push((reached([127, 0, 0, 1]), reached([127, 0, 0, 2])));
        bench.docker.remove(&order.workload, true).await.unwrap();
    }
    assert_eq!(found, [(true, false), (true, true)]);
}

#[tokio::test]
async fn a_datagram_reaches_a_published_port() {
    let bench = bench();
    let port = persys_model::spec::container::Port {
        address: None,
        host: None,
        container: 5353,
        protocol: Protocol::Udp,
    };
    // Nothing listens there: the kernel counts the datagrams that reach the container all the same.
    let script = "until awk '/^Udp: [0-9]/ { exit !($3 > 0) }' /proc/net/snmp; do usleep 50000; done; \
                  echo it came; sleep 60";
    let order = start("datagram", "r1", ContainerSpec { ports: vec![port], ..shell(script) });
    bench.docker.start(&order).await.unwrap();
    let thing = bench.docker.inspect(&order.workload).await.unwrap().unwrap();
    let published = thing.ports.first().copied().expect("a port");
    assert_eq!(published.host.protocol, Protocol::Udp);
    let socket = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
    let came = async {
        loop {
            // A refused datagram before this one is told by the socket here.
            let _unheard = socket.send_to(b"hello", ("127.0.0.1", published.host.port));
            if printed(&bench.docker, &order, LogRange::default()).await.contains("it came") {
                return;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    };
    tokio::time::timeout(Duration::from_secs(30), came).await.expect("the datagram came");
    bench.docker.remove(&order.workload, true).await.unwrap();
}

#[tokio::test]
async fn a_port_of_another_process_is_named() {
    let bench = bench();
    let listener = std::net::TcpListener::bind("0.0.0.0:0").unwrap();
    let number = listener.local_addr().unwrap().port();
    let port = persys_model::spec::container::Port {
        address: None,
        host: Some(number),
        container: 80,
        protocol: Protocol::Tcp,
    };
    let order = start("port", "r1", ContainerSpec { ports: vec![port], ..bench.runs() });
    let error = bench.docker.start(&order).await.unwrap_err();
    let words = error.to_string();
    assert!(matches!(error, Error::PortTaken { .. }), "{words}");
    let holder = format!("process {} (", std::process::id());
    assert!(words.contains(&number.to_string()) && words.contains(&holder), "{words}");
    drop(listener);
    bench.docker.start(&order).await.unwrap();
    bench.docker.remove(&order.workload, true).await.unwrap();
}

#[tokio::test]
async fn logs_have_an_end_a_beginning_and_a_follow_up() {
    let bench = bench();
    let order = start(
        "logs",
        "r1",
        shell("for i in 1 2 3 4 5; do echo line $i; done; echo bad >&2; exit 4"),
    );
    bench.docker.start(&order).await.unwrap();
    assert_eq!(ended(&bench, &order.workload).await, 4);
    let tail = LogRange { tail: Some(2), ..LogRange::default() };
    assert_eq!(printed(&bench.docker, &order, tail).await.lines().count(), 2);
    let followed = LogRange { follow: true, ..LogRange::default() };
    assert_eq!(
        printed(&bench.docker, &order, followed).await.lines().count(),
        6,
        "it ends with it"
    );
    let later = LogRange {
        since: Some(persys_model::time::WallMillis(4_000_000_000_000)),
        ..LogRange::default()
    };
    assert_eq!(printed(&bench.docker, &order, later).await, "");
    let end = bench.docker.evidence(&order.workload).await.unwrap().unwrap();
    assert_eq!((end.code, end.out_of_memory, end.last_lines.len()), (4, false, 6));
    assert!(end.last_lines.contains(&"bad".to_owned()));
    bench.docker.remove(&order.workload, true).await.unwrap();
}

#[tokio::test]
async fn want_of_memory_is_told_apart() {
    let bench = bench();
    let hungry = ContainerSpec {
        limits: Limits { swap: Swap::TotalBytes(32 << 20), ..Limits::default() },
        ..shell("x=aaaaaaaaaaaaaaaa; while true; do x=$x$x; done")
    };
    let order = start("hungry", "r1", hungry);
    bench.docker.start(&order).await.unwrap();
    let code = ended(&bench, &order.workload).await;
    let end = bench.docker.evidence(&order.workload).await.unwrap().unwrap();
    assert_eq!((code, end.signal, end.out_of_memory), (137, Some(9), true), "{end:?}");
    bench.docker.remove(&order.workload, true).await.unwrap();
}

#[tokio::test]
async fn usage_grows_with_work() {
    let bench = bench();
    let order = start("busy", "r1", shell("trap 'exit 0' TERM; while true; do :; done"));
    bench.docker.start(&order).await.unwrap();
    let first = bench.docker.usage(&order.workload).await.unwrap().unwrap();
    let begun = Instant::now();
    loop {
        let next = bench.docker.usage(&order.workload).await.unwrap().unwrap();
        assert!(next.memory_bytes > 0 && next.memory_bytes < 32 << 20, "{next:?}");
        if next.cpu_nanos > first.cpu_nanos {
            break;
        }
        assert!(begun.elapsed() < Duration::from_secs(10), "no CPU time is counted");
    }
    bench.docker.remove(&order.workload, true).await.unwrap();
}

#[tokio::test]
async fn a_command_inside_has_input_a_terminal_and_a_code() {
    let bench = bench();
    let order = start("inside", "r1", bench.runs());
    bench.docker.start(&order).await.unwrap();
    let argv = |script: &str| ["/bin/sh", "-c", script].map(ToOwned::to_owned).to_vec();
    let command = ExecCommand {
        argv: argv("read x; echo got $x >&2; exit 5"),
        input: true,
        ..ExecCommand::default()
    };
    let mut session = bench.docker.exec(&order.workload, &command).await.unwrap();
    assert_eq!(session.control.exit_code().await.unwrap(), None, "it waits for input");
    session.input.as_mut().unwrap().write_all(b"word\n").await.unwrap();
    let chunk = session.output.next().await.unwrap().unwrap();
    assert_eq!((chunk.source, chunk.bytes.as_ref()), (Source::Stderr, b"got word\n".as_slice()));
    assert!(session.output.next().await.is_none());
    assert_eq!(session.control.exit_code().await.unwrap(), Some(5));

    let command =
        ExecCommand { argv: argv("read x; stty size"), terminal: true, input: true, service: None };
    let mut session = bench.docker.exec(&order.workload, &command).await.unwrap();
    session.control.resize(40, 123).await.unwrap();
    session.input.as_mut().unwrap().write_all(b"\n").await.unwrap();
    let mut text = String::new();
    while let Some(chunk) = session.output.next().await {
        text.push_str(&String::from_utf8_lossy(&chunk.unwrap().bytes));
    }
    assert!(text.contains("40 123"), "{text:?}");

    let command = ExecCommand { argv: vec!["/bin/nonesuch".to_owned()], ..ExecCommand::default() };
    let mut session = bench.docker.exec(&order.workload, &command).await.unwrap();
    while session.output.next().await.is_some() {}
    assert!(matches!(session.control.exit_code().await.unwrap(), Some(126 | 127)));
    bench.docker.remove(&order.workload, true).await.unwrap();
}

#[tokio::test]
async fn what_ignores_the_signal_is_killed_after_its_grace() {
    let bench = bench();
    let order = start("stubborn", "r1", shell("trap '' TERM; while true; do sleep 1; done"));
    bench.docker.start(&order).await.unwrap();
    let begun = Instant::now();
    bench.docker.stop(&order.workload, Some(Duration::from_millis(900))).await.unwrap();
    let took = begun.elapsed();
    assert!(took > Duration::from_millis(900) && took < Duration::from_secs(10), "{took:?}");
    assert_eq!(state(&bench, &order.workload).await, Some(Existing::Exited { code: 137 }));
    bench.docker.remove(&order.workload, true).await.unwrap();
}

#[tokio::test]
async fn what_somebody_paused_is_started_stopped_and_removed() {
    let bench = bench();
    let order = start("paused", "r1", bench.runs());
    bench.docker.start(&order).await.unwrap();
    let name = bench.name("paused");
    bench.raw.pause_container(&name).await.unwrap();
    assert_eq!(state(&bench, &order.workload).await, Some(Existing::PAUSED));
    bench.docker.start(&order).await.unwrap();
    let raw = bench.raw.inspect_container(&name, None::<InspectContainerOptions>).await.unwrap();
    assert_eq!(raw.state.unwrap().paused, Some(false));
    bench.raw.pause_container(&name).await.unwrap();
    bench.docker.stop(&order.workload, Some(Duration::from_secs(1))).await.unwrap();
    assert!(matches!(state(&bench, &order.workload).await, Some(Existing::Exited { .. })));
    bench.docker.start(&order).await.unwrap();
    bench.raw.pause_container(&name).await.unwrap();
    bench.docker.remove(&order.workload, true).await.unwrap();
    assert_eq!(state(&bench, &order.workload).await, None);
}

#[tokio::test]
async fn another_node_and_another_cluster_are_foreign() {
    let bench = bench();
    let order = start("shared", "r1", bench.runs());
    bench.docker.start(&order).await.unwrap();
    let mut node = owner(&bench.prefix);
    node.node = persys_model::id::NodeId::fixed("n2");
    let cluster = Owner { cluster: Arc::from("other"), ..owner(&bench.prefix) };
    for stranger in [node, cluster] {
        let docker = Docker::new(stranger, settings(&bench.prefix), Clock::since_boot());
        let error = docker.start(&order).await.unwrap_err();
        let words = error.to_string();
        assert!(words.contains(&format!("node n1 of cluster {}", bench.prefix)), "{words}");
        docker.stop(&order.workload, Some(Duration::ZERO)).await.unwrap();
        docker.remove(&order.workload, true).await.unwrap();
        assert_eq!(docker.list().await.unwrap(), []);
    }
    assert_eq!(state(&bench, &order.workload).await, Some(Existing::Running));
    bench.docker.remove(&order.workload, true).await.unwrap();
}

#[tokio::test]
async fn the_beginning_of_an_id_is_not_a_name() {
    let bench = bench_with(|settings| settings.name_prefix.clear());
    let id = bench.plant(&bench.name("other"), sleeper()).await;
    let order = start(&id[..12], "r1", bench.runs());
    assert_eq!(bench.docker.inspect(&order.workload).await.unwrap(), None);
    bench.docker.start(&order).await.unwrap();
    assert_eq!(state(&bench, &order.workload).await, Some(Existing::Running));
    bench.docker.remove(&order.workload, true).await.unwrap();
    bench.docker.remove(&order.workload, true).await.unwrap();
    assert!(bench.is_up(&id).await);
    bench.dig_up(&id).await;
}

#[tokio::test]
async fn a_copy_with_our_labels_under_another_name_is_not_ours() {
    let bench = bench();
    let order = start("original", "r1", bench.runs());
    bench.docker.start(&order).await.unwrap();
    let name = bench.name("original");
    let image = format!("{}copy:1", bench.prefix);
    let (repo, tag) = image.split_once(':').unwrap();
    let options = bollard::query_parameters::CommitContainerOptionsBuilder::default()
        .container(&name)
        .repo(repo)
        .tag(tag)
        .build();
    bench.raw.commit_container(options, bollard::models::ContainerConfig::default()).await.unwrap();
    let body = bollard::models::ContainerCreateBody { image: Some(image.clone()), ..sleeper() };
    let made = bench.raw.create_container(None::<CreateContainerOptions>, body).await.unwrap();
    assert_eq!(bench.docker.list().await.unwrap().len(), 1, "the copy is nobody's workload");
    bench.docker.remove(&order.workload, true).await.unwrap();
    assert_eq!(bench.docker.list().await.unwrap(), []);
    bench.dig_up(&made.id).await;
    bench.raw.remove_image(&image, None::<RemoveImageOptions>, None).await.unwrap();
}

/// The lease is looked at again when Docker has answered: a start that took too long is undone.
#[tokio::test]
async fn a_start_that_came_through_too_late_is_undone() {
    let bench = bench();
    let moments = std::sync::atomic::AtomicU64::new(0);
    let clock =
        Clock::new(move || Millis(moments.fetch_add(20_000, std::sync::atomic::Ordering::Relaxed)));
    let docker = Docker::new(owner(&bench.prefix), settings(&bench.prefix), clock);
    let mut order = start("late", "r1", bench.runs());
    order.not_after = Some(Millis(10_000));
    let error = docker.start(&order).await.unwrap_err();
    assert!(matches!(error, Error::TooLate { .. }), "{error}");
    let thing = docker.inspect(&order.workload).await.unwrap().unwrap();
    assert!(thing.started_at.is_some(), "it did start");
    assert!(matches!(thing.seen.state, Existing::Exited { .. }), "and was ended");
    docker.remove(&order.workload, true).await.unwrap();
}

#[tokio::test]
async fn the_daemon_says_how_it_is() {
    let health = bench().docker.health().await.unwrap();
    assert!(!health.version.is_empty());
}

#[tokio::test]
async fn volumes_without_a_name_stay_when_their_container_goes() {
    let bench = bench();
    for purge in [false, true] {
        let order = start(
            "volume",
            "r1",
            ContainerSpec { image: volume_image(&bench).await, ..bench.runs() },
        );
        bench.docker.start(&order).await.unwrap();
        let name = bench.name("volume");
        let raw =
            bench.raw.inspect_container(&name, None::<InspectContainerOptions>).await.unwrap();
        let volume = raw.mounts.unwrap().pop().unwrap().name.unwrap();
        bench.docker.remove(&order.workload, purge).await.unwrap();
        // To remove it succeeds only if it is still there.
        bench
            .raw
            .remove_volume(&volume, None::<bollard::query_parameters::RemoveVolumeOptions>)
            .await
            .unwrap();
    }
    let image = volume_image(&bench).await;
    bench.raw.remove_image(&image, None::<RemoveImageOptions>, None).await.unwrap();
    contract::labels_are_listed(&bench).await;
}

/// The test image with a volume of its own.
async fn volume_image(bench: &super::bench::DockerBench) -> Arc<str> {
    let image = format!("{}volume:1", bench.prefix);
    if bench.raw.inspect_image(&image).await.is_err() {
        let id = bench.plant(&format!("{}maker", bench.prefix), sleeper()).await;
        let (repo, tag) = image.split_once(':').unwrap();
        let options = bollard::query_parameters::CommitContainerOptionsBuilder::default()
            .container(&id)
            .repo(repo)
            .tag(tag)
            .changes("VOLUME /kept")
            .build();
        let config = bollard::models::ContainerConfig::default();
        bench.raw.commit_container(options, config).await.unwrap();
        bench.dig_up(&id).await;
    }
    Arc::from(image)
}
