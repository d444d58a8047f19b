//! A machine's life: first boot, addresses, stop and start, changes, crashes, the end of it.

use std::time::Duration;

use futures::StreamExt as _;
use persys_model::failure::FailureReason;
use persys_model::spec::Kind;
use persys_model::spec::vm::{Address, VmNetwork};
use persys_node::input::Existing;
use persys_runtime::inside::{Console as _, ConsoleSession, ExecCommand, LogRange};
use persys_runtime::{Error, Evidence as _, Exec as _, Logs as _, Runtime as _, Usage as _};
use tokio::io::AsyncWriteExt as _;

use super::bench::{GRACE, bench, external, lends_addresses, order, vm};
use super::daemon::{PATIENCE, until};

#[tokio::test]
async fn it_boots_reads_its_seed_and_gets_an_address() {
    let bench = bench().await;
    bench.daemon.start_network();
    let mut spec = vm("value from-the-seed");
    spec.networks.push(lends_addresses());
    let ip = std::net::IpAddr::from([192, 168, 122, 77]);
    spec.networks
        .push(VmNetwork { address: Address::Static { ip, prefix: Some(24) }, ..lends_addresses() });
    let order = order("web", "r1", spec);
    let id = &order.workload;
    bench.machines.prepare(&order.spec, &|_| ()).await.unwrap();
    bench.machines.start(&order).await.unwrap();
    assert_eq!(bench.state(id).await, Some(Existing::Running));
    assert_eq!(bench.fact(id, "value", 1).await, "from-the-seed");
    assert_eq!(bench.fact(id, "hostname", 1).await, "web");
    let mut told = vec![bench.fact(id, "ip_eth0", 1).await, bench.fact(id, "ip_eth1", 1).await];
    assert_eq!(told.last(), Some(&ip.to_string()), "the fixed address is the guest's");
    let thing = bench.machines.inspect(id).await.unwrap().unwrap();
    let mut addresses: Vec<_> = thing.addresses.iter().map(ToString::to_string).collect();
    told.sort();
    addresses.sort();
    assert_eq!(addresses, told, "the node and the guest say the same");
    assert_eq!(bench.daemon.virsh(&["list", "--autostart", "--all", "--name"]), "");

    let health = bench.machines.health().await.unwrap();
    assert!(health.version.contains("libvirt 9"), "{health:?}");
    assert!(health.warnings.iter().any(|warning| warning.contains("TCG")), "{health:?}");
    let used = bench.machines.usage(id).await.unwrap().unwrap();
    assert_eq!(used.memory_limit_bytes, 128 << 20);
    assert!(used.cpu_nanos > 0 && used.memory_bytes > 0 && used.network_in_bytes > 0, "{used:?}");
    assert!(used.disk_read_bytes > 1 << 20, "it booted from its disk: {used:?}");

    let command = ExecCommand { argv: vec!["ls".to_owned()], ..ExecCommand::default() };
    let error = bench.machines.exec(id, &command).await.unwrap_err().to_string();
    assert!(error.contains("persys console web"), "{error}");
    until("the last line is the last", async || {
        let tail = LogRange { tail: Some(1), ..LogRange::default() };
        let mut output = bench.machines.logs(id, tail).await.unwrap();
        let last = output.next().await.unwrap().unwrap().bytes;
        String::from_utf8_lossy(&last).trim() == "guest: ready=yes"
    })
    .await;
    bench.machines.remove(id, true).await.unwrap();
}

#[tokio::test]
async fn memory_changes_and_disks_grow_with_their_content_intact() {
    let bench = bench().await;
    let first = order("db", "r1", vm("mark vda kept-through-it-all"));
    let id = &first.workload;
    bench.machines.start(&first).await.unwrap();
    assert_eq!(bench.fact(id, "marked_vda", 1).await, "kept-through-it-all");
    let small: u64 = bench.fact(id, "memory_kib", 1).await.parse().unwrap();
    let uuid = bench.machines.inspect(id).await.unwrap().unwrap().id;

    bench.machines.stop(id, Some(GRACE)).await.unwrap();
    assert_eq!(bench.state(id).await, Some(Existing::Exited { code: 0 }), "it heard the button");
    bench.machines.start(&first).await.unwrap();
    assert_eq!(bench.fact(id, "marker_vda", 2).await, "kept-through-it-all");

    let Kind::Vm(mut larger) = first.spec.kind.clone() else { unreachable!() };
    larger.memory_mib = 256;
    larger.vcpus = 2;
    larger.disks[0].source = persys_model::spec::vm::DiskSource::Pool { pool: None, size_gib: 2 };
    let second = order("db", "r2", larger);
    bench.machines.start(&second).await.unwrap();
    let large: u64 = bench.fact(id, "memory_kib", 3).await.parse().unwrap();
    assert!(large > small + 100 * 1024, "{small} KiB, then {large} KiB");
    assert_eq!(bench.fact(id, "vcpus", 3).await, "2");
    assert_eq!(bench.fact(id, "marker_vda", 3).await, "kept-through-it-all");
    assert_eq!(bench.fact(id, "disk_vda", 3).await, (2_u64 << 30).to_string());
    let thing = bench.machines.inspect(id).await.unwrap().unwrap();
    assert_eq!(thing.seen.revision, second.revision);
    assert_eq!(thing.id, uuid, "it is still the same machine");

    // What cannot be is refused, and what runs goes on.
    let shrunk = order("db", "r3", vm(""));
    let error = bench.machines.start(&shrunk).await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::InvalidSpec, "{error}");
    assert_eq!(bench.machines.inspect(id).await.unwrap().unwrap(), thing);
    bench.machines.remove(id, true).await.unwrap();
}

#[tokio::test]
async fn an_update_of_words_alone_restarts_nothing() {
    let bench = bench().await;
    let first = order("calm", "r1", vm(""));
    let id = &first.workload;
    bench.machines.start(&first).await.unwrap();
    let before = bench.machines.inspect(id).await.unwrap().unwrap();
    let Kind::Vm(mut same) = first.spec.kind.clone() else { unreachable!() };
    same.metadata.insert("owner".into(), "team <blue> & \"co\"".into());
    let second = order("calm", "r2", same);
    bench.machines.start(&second).await.unwrap();
    let after = bench.machines.inspect(id).await.unwrap().unwrap();
    assert_eq!(after.seen.revision, second.revision);
    assert_eq!(after.started_at, before.started_at);
    let xml = bench.daemon.virsh(&["dumpxml", "--inactive", "persys-calm"]);
    assert!(xml.contains("team &lt;blue&gt; &amp; "), "{xml}");
    bench.machines.remove(id, true).await.unwrap();
}

#[tokio::test]
async fn a_crash_is_seen_with_its_evidence_and_a_good_end_is_good() {
    let bench = bench().await;
    let bad = order("bad", "r1", vm("panic"));
    let good = order("good", "r1", vm("off"));
    bench.machines.start(&bad).await.unwrap();
    bench.machines.start(&good).await.unwrap();
    assert_eq!(bench.ended(&bad.workload).await, 1);
    assert_eq!(bench.ended(&good.workload).await, 0);

    let end = bench.machines.evidence(&bad.workload).await.unwrap().unwrap();
    assert_eq!(end.code, 1);
    let words = end.runtime_error.unwrap();
    assert!(words.contains("the guest crashed"), "{words}");
    let screen = words.rsplit(' ').next().unwrap();
    assert!(std::fs::metadata(screen).unwrap().len() > 1000, "{words}");
    assert_eq!(end.last_lines.len(), 20, "{:?}", end.last_lines);
    assert!(bench.console(&bad.workload).await.contains("Kernel panic"));
    let end = bench.machines.evidence(&good.workload).await.unwrap().unwrap();
    assert_eq!((end.code, end.runtime_error), (0, None));
    assert_eq!(bench.machines.usage(&bad.workload).await.unwrap(), None);

    // It can be started again, stopped as it crashed, and removed.
    bench.machines.start(&bad).await.unwrap();
    assert_eq!(bench.fact(&bad.workload, "boot", 2).await, "yes");
    assert_eq!(bench.ended(&bad.workload).await, 1);
    bench.machines.stop(&bad.workload, Some(GRACE)).await.unwrap();
    assert_eq!(bench.state(&bad.workload).await, Some(Existing::Exited { code: 1 }));
    for workload in [&bad.workload, &good.workload] {
        bench.machines.remove(workload, true).await.unwrap();
        assert_eq!(bench.state(workload).await, None);
    }
}

#[tokio::test]
async fn a_machine_that_finds_nothing_to_boot_has_ended_and_can_be_started_again() {
    let bench = bench().await;
    let mut empty = vm("");
    empty.os_image = None;
    let order = order("empty", "r1", empty);
    let id = &order.workload;
    bench.machines.start(&order).await.unwrap();
    assert_eq!(bench.state(id).await, Some(Existing::Running), "it may still be about to boot");
    assert_eq!(bench.ended(id).await, 1);
    let end = bench.machines.evidence(id).await.unwrap().unwrap();
    let words = end.runtime_error.clone().unwrap();
    assert!(words.contains("the machine found nothing to boot"), "{words}");
    let screen = words.rsplit(' ').next().unwrap();
    assert!(std::fs::metadata(screen).unwrap().len() > 1000, "{words}");
    assert!(end.last_lines.iter().any(|line| line.contains("No bootable device")), "{end:?}");
    // What it was is kept until it is started again, which begins from the beginning.
    assert_eq!(bench.daemon.virsh(&["domstate", "persys-empty"]), "running");
    let before = bench.daemon.virsh(&["domid", "persys-empty"]);
    bench.machines.start(&order).await.unwrap();
    assert_eq!(bench.state(id).await, Some(Existing::Running), "the next boot has its own time");
    assert_ne!(bench.daemon.virsh(&["domid", "persys-empty"]), before);
    assert_eq!(bench.ended(id).await, 1);
    bench.machines.stop(id, Some(GRACE)).await.unwrap();
    assert_eq!(bench.daemon.virsh(&["domstate", "persys-empty"]), "shut off");
    assert_eq!(bench.state(id).await, Some(Existing::Exited { code: 1 }));
    bench.machines.remove(id, true).await.unwrap();
}

/// Reads a console until it shows `wanted`, or ends.
async fn shown(session: &mut ConsoleSession, wanted: &str) -> bool {
    let mut text = Vec::new();
    let reading = async {
        while let Some(Ok(chunk)) = session.output.next().await {
            text.extend_from_slice(&chunk.bytes);
            if String::from_utf8_lossy(&text).contains(wanted) {
                return true;
            }
        }
        false
    };
    tokio::time::timeout(PATIENCE, reading).await.expect("something is shown, or it ends")
}

#[tokio::test]
async fn a_console_is_typed_on_by_one_at_a_time() {
    let bench = bench().await;
    let order = order("talk", "r1", vm(""));
    let id = &order.workload;
    bench.machines.start(&order).await.unwrap();
    bench.fact(id, "ready", 1).await;
    let mut first = bench.machines.console(id, false).await.unwrap();
    first.input.write_all(b"value typed-by-hand\n").await.unwrap();
    assert!(shown(&mut first, "guest: value=typed-by-hand").await);
    let error = bench.machines.console(id, false).await.unwrap_err().to_string();
    assert!(error.contains("--force"), "{error}");
    let mut second = bench.machines.console(id, true).await.unwrap();
    assert!(!shown(&mut first, "never").await, "the first one lost it");
    second.input.write_all(b"value by-another\n").await.unwrap();
    assert!(shown(&mut second, "guest: value=by-another").await);
    drop(second);
    assert_eq!(bench.fact(id, "value", 2).await, "by-another", "it is in the log as well");
    bench.machines.stop(id, Some(GRACE)).await.unwrap();
    let error = bench.machines.console(id, true).await.unwrap_err();
    assert!(matches!(error, Error::Refused { .. }), "{error}");
    bench.machines.remove(id, true).await.unwrap();
    let error = bench.machines.console(id, true).await.unwrap_err();
    assert!(matches!(error, Error::Absent { .. }), "{error}");
}

#[tokio::test]
async fn a_guest_that_does_not_listen_is_ended() {
    let bench = bench().await;
    let order = order("deaf", "r1", vm("deaf"));
    let id = &order.workload;
    bench.machines.start(&order).await.unwrap();
    bench.fact(id, "ready", 1).await;
    let begun = std::time::Instant::now();
    bench.machines.stop(id, Some(Duration::from_secs(2))).await.unwrap();
    assert!(begun.elapsed() >= Duration::from_secs(2), "it had its grace");
    assert_eq!(bench.state(id).await, Some(Existing::Exited { code: 137 }));
    assert!(bench.console(id).await.contains("guest: button=ignored"));
    bench.machines.remove(id, true).await.unwrap();
}

#[tokio::test]
async fn a_machine_that_is_removed_is_asked_to_go_down_first() {
    let bench = bench().await;
    let order = order("asked", "r1", vm(""));
    let id = &order.workload;
    bench.machines.start(&order).await.unwrap();
    bench.fact(id, "ready", 1).await;
    let range = LogRange { follow: true, ..LogRange::default() };
    let mut output = bench.machines.logs(id, range).await.unwrap();
    let heard = tokio::spawn(async move {
        let mut text = String::new();
        while let Some(Ok(piece)) = output.next().await {
            text.push_str(&String::from_utf8_lossy(&piece.bytes));
            if text.contains("guest: button=off") {
                return true;
            }
        }
        false
    });
    let begun = std::time::Instant::now();
    bench.machines.remove(id, true).await.unwrap();
    assert!(begun.elapsed() < GRACE, "it went down by itself");
    assert!(tokio::time::timeout(PATIENCE, heard).await.unwrap().unwrap(), "it heard the button");
    assert_eq!(bench.state(id).await, None);
}

#[tokio::test]
async fn a_delete_leaves_only_what_is_the_users() {
    let bench = bench().await;
    let mine = bench.daemon.folder.join("mine/data.img");
    let file = std::fs::File::create(&mine).unwrap();
    file.set_len(128 << 20).unwrap();
    let mut spec = vm("mark vdb on-my-disk");
    spec.disks.push(external("vdb", &mine, None));
    let order = order("full", "r1", spec);
    let id = &order.workload;
    bench.machines.start(&order).await.unwrap();
    assert_eq!(bench.fact(id, "marked_vdb", 1).await, "on-my-disk");
    assert_eq!(bench.files("pool"), ["persys-full-vda.qcow2"]);

    bench.machines.remove(id, false).await.unwrap();
    assert_eq!(bench.state(id).await, None);
    assert_eq!(bench.files("pool"), ["persys-full-vda.qcow2"], "data goes only with a purge");
    bench.machines.start(&order).await.unwrap();
    assert_eq!(bench.fact(id, "marker_vdb", 1).await, "on-my-disk");
    for _ in 0..2 {
        bench.machines.remove(id, true).await.unwrap();
        assert_eq!(bench.files("pool"), Vec::<String>::new());
        assert_eq!(bench.files("machines"), Vec::<String>::new());
        assert_eq!(bench.files("mine"), ["data.img"]);
    }
    assert_eq!(bench.daemon.virsh(&["list", "--all", "--name"]), "");
}

#[tokio::test]
async fn what_is_not_ours_is_not_touched() {
    let bench = bench().await;
    let xml = "<domain type='qemu'><name>persys-theirs</name><memory unit='MiB'>32</memory>\
        <vcpu>1</vcpu><os><type>hvm</type></os></domain>";
    let path = bench.daemon.folder.join("theirs.xml");
    std::fs::write(&path, xml).unwrap();
    bench.daemon.virsh(&["define", path.to_str().unwrap()]);
    bench.daemon.virsh(&["start", "persys-theirs"]);
    let before = (bench.daemon.virsh(&["dumpxml", "persys-theirs"]), bench.daemon.virsh(&["list"]));
    let order = order("theirs", "r1", vm(""));
    let id = &order.workload;
    let error = bench.machines.start(&order).await.unwrap_err();
    assert!(matches!(error, Error::Foreign { .. }), "{error}");
    bench.machines.stop(id, Some(Duration::ZERO)).await.unwrap();
    bench.machines.remove(id, true).await.unwrap();
    assert_eq!(bench.machines.inspect(id).await.unwrap(), None);
    assert_eq!(bench.machines.list().await.unwrap(), []);
    let logs = bench.machines.logs(id, LogRange::default()).await;
    assert!(matches!(logs, Err(Error::Absent { .. })));
    assert_eq!(bench.machines.evidence(id).await.unwrap(), None);
    let after = (bench.daemon.virsh(&["dumpxml", "persys-theirs"]), bench.daemon.virsh(&["list"]));
    assert_eq!(after, before);
}

#[tokio::test]
async fn what_cannot_be_started_says_why() {
    let bench = bench().await;
    let mut nowhere = vm("");
    nowhere.networks.push(lends_addresses());
    let error = bench.machines.start(&order("a", "r1", nowhere)).await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::NetworkError, "{error}");
    let mut nothing = vm("");
    nothing.os_image = Some("no-such-image".into());
    let order_b = order("b", "r1", nothing);
    for error in [
        bench.machines.prepare(&order_b.spec, &|_| ()).await.unwrap_err(),
        bench.machines.start(&order_b).await.unwrap_err(),
    ] {
        assert_eq!(error.reason(), FailureReason::ImageNotFound, "{error}");
    }
    let mut lost = vm("");
    lost.disks.push(external("vdb", &bench.daemon.folder.join("mine/no.img"), None));
    let error = bench.machines.start(&order("c", "r1", lost)).await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::StorageError, "{error}");
    let mut vast = vm("");
    vast.memory_mib = 64 << 20;
    let vast = order("d", "r1", vast);
    let error = bench.machines.start(&vast).await.unwrap_err();
    assert_eq!(error.reason(), FailureReason::InsufficientResources, "{error}");
    for name in ["a", "b", "c", "d"] {
        let id = persys_model::id::WorkloadId::new(name).unwrap();
        assert_ne!(bench.state(&id).await, Some(Existing::Running));
        bench.machines.remove(&id, true).await.unwrap();
    }
    assert_eq!(bench.files("pool"), Vec::<String>::new());
}
