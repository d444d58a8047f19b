//! Stories about shadow mode: workloads that run without ports and names, beside another system.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test may stop")]

mod support;

use std::collections::BTreeMap;
use std::sync::Arc;

use persys_cluster::discovery::News;
use persys_cluster::effects::{RefusalCode, Reply};
use persys_cluster::input::{Ask, OrphanVerdict};
use persys_cluster::settings::Settings;
use persys_model::assignment::ReasonCode;
use persys_model::entry::{Entry, Namespace};
use persys_model::event::Happening;
use persys_model::failure::{Failure, FailureReason, FailureStage};
use persys_model::id::{NamespaceName, RevisionId};
use persys_model::inventory::State;
use persys_model::phase::Phase;
use persys_model::spec::compose::{ComposeSource, ComposeSpec};
use persys_model::spec::container::{Bind, Port, RestartPolicy};
use persys_model::spec::secret::Secret;
use persys_model::spec::volume::VolumeDriver;
use persys_model::spec::{ADOPT_ON_KEY, HostPort, Kind, NAMESPACE_KEY, Protocol, Spec};
use persys_model::workload::Desired;

use support::{Cluster, container, facts, node_id, volume, with_volume, workload_id};

fn shop(shadow: bool) -> Ask {
    let name = NamespaceName::fixed("shop");
    let namespace = Namespace { shadow, ..Namespace::new(name) };
    Ask::Keep(Arc::new(Entry::Namespace(namespace)))
}

fn in_shop(mut spec: Spec) -> Spec {
    spec.metadata.insert(NAMESPACE_KEY.into(), "shop".into());
    spec
}

/// A container that publishes a port.
fn web(port: u16) -> Spec {
    let mut spec = container(500, 512);
    let Kind::Container(body) = &mut spec.kind else { panic!("a container") };
    body.ports =
        vec![Port { address: None, host: Some(port), container: 8080, protocol: Protocol::Tcp }];
    in_shop(spec)
}

fn stack(port: u16) -> Spec {
    let file = format!("services: {{web: {{image: web, ports: ['{port}:8080']}}}}");
    let mut spec = container(500, 512);
    spec.kind = Kind::Compose(ComposeSpec {
        source: ComposeSource::Inline(Secret::new(&file)),
        project: None,
        env: BTreeMap::new(),
        host_ports: vec![HostPort { port, protocol: Protocol::Tcp }],
        has_named_volumes: false,
    });
    in_shop(spec)
}

fn cluster(nodes: usize) -> Cluster {
    let mut c = Cluster::with_nodes(nodes, 4000, 8192);
    assert!(matches!(c.ask(shop(true)), Reply::Done { .. }));
    c
}

fn refusal(reply: &Reply) -> (RefusalCode, String) {
    let Reply::Refused { code, why } = reply else { panic!("{reply:?}") };
    (*code, why.to_string())
}

/// Ports of a workload that its node was told to publish.
fn published(c: &Cluster, name: &str) -> Vec<HostPort> {
    let node = c.node_of(name).unwrap();
    let held = &c.agents[&node].held[&workload_id(name)];
    let spec = held.spec.as_ref().unwrap();
    if let Kind::Compose(stack) = &spec.kind {
        let ports = stack.read().document.unwrap().host_ports();
        assert_eq!(ports.is_empty(), stack.host_ports.is_empty(), "the file is what counts");
    }
    spec.host_ports()
}

fn announced(c: &Cluster) -> Vec<String> {
    News::whole(&c.world).workloads.iter().map(|(id, _)| id.to_string()).collect()
}

/// Every event that tells of shadow: the namespace, on or off, and how many workloads.
fn changes(c: &Cluster) -> Vec<(Option<NamespaceName>, bool, usize)> {
    let change = |what: &Happening| {
        let Happening::Shadow { namespace, on, workloads } = what else { return None };
        Some((namespace.clone(), *on, *workloads))
    };
    c.store.events.iter().filter_map(|event| change(&event.what)).collect()
}

fn epoch(c: &Cluster, name: &str) -> u64 {
    c.assignment(name).place.unwrap().epoch.0
}

#[test]
fn it_runs_without_ports_and_names_and_its_spec_stays_as_given() {
    let mut c = cluster(1);
    for (name, spec) in [("web", web(80)), ("stack", stack(81))] {
        c.apply(name, spec.clone(), "r1");
        assert_eq!(c.phase(name), Some(Phase::Running));
        assert_eq!(published(&c, name), []);
        let view = c.world.workload(&workload_id(name)).unwrap();
        assert_eq!((&view.workload.spec, view.shadow), (&Arc::new(spec), true));
        assert_eq!(view.workload.revision, RevisionId::fixed("r1"));
        assert_eq!(c.assignment(name).place.unwrap().ports, [], "no port is reserved");
    }
    assert_eq!(announced(&c), Vec::<String>::new());
    assert_eq!(c.world.held_back(&workload_id("web")), ["port 80/tcp is not published"]);
    assert_eq!(c.world.tally().shadow, 2);
    // The same again is nothing new.
    let before = epoch(&c, "web");
    c.apply("web", web(80), "r1");
    assert_eq!(epoch(&c, "web"), before);
}

#[test]
fn leaving_shadow_brings_ports_and_names_and_entering_takes_them_away() {
    let mut c = cluster(1);
    c.apply("web", web(80), "r1");
    c.apply("stack", stack(81), "r1");
    let hidden = epoch(&c, "web");
    c.ask(shop(false));
    assert_eq!(announced(&c), ["stack", "web"]);
    assert_eq!((published(&c, "web").len(), published(&c, "stack").len()), (1, 1));
    assert!(epoch(&c, "web") > hidden, "by a new decision");
    let shown = epoch(&c, "web");
    c.ask(shop(true));
    assert_eq!(announced(&c), Vec::<String>::new());
    assert_eq!((published(&c, "web"), published(&c, "stack")), (vec![], vec![]));
    assert!(epoch(&c, "web") > shown);
    assert_eq!((c.phase("web"), c.phase("stack")), (Some(Phase::Running), Some(Phase::Running)));
    let told: Vec<_> = changes(&c).into_iter().map(|(_, on, workloads)| (on, workloads)).collect();
    assert_eq!(told, [(true, 0), (false, 2), (true, 2)]);
}

#[test]
fn the_record_of_a_namespace_is_all_that_keeps_it_in_shadow() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    let usual = Namespace { shadow: true, ..Namespace::new(NamespaceName::default_one()) };
    c.ask(Ask::Keep(Arc::new(Entry::Namespace(usual.clone()))));
    let mut spec = web(80);
    spec.metadata.clear();
    c.apply("web", spec, "r1");
    assert_eq!(published(&c, "web"), []);
    c.ask(Ask::Forget(Entry::Namespace(usual).key()));
    assert_eq!(published(&c, "web").len(), 1, "without its record nothing is in shadow");
}

#[test]
fn a_port_that_is_taken_when_shadow_ends_is_waited_for() {
    let mut c = cluster(1);
    let mut other = web(80);
    other.metadata.clear();
    c.apply("other", other, "r1");
    c.apply("web", web(80), "r1");
    assert_eq!(c.phase("web"), Some(Phase::Running), "in shadow the port is not reserved");
    c.ask(shop(false));
    let reason = c.assignment("web").reason;
    assert_eq!((c.phase("web"), reason.code), (Some(Phase::Running), ReasonCode::UpdateWaits));
    assert!(reason.message.contains("port 80/tcp"), "{}", reason.message);
    assert!(reason.message.contains("goes on in shadow"), "{}", reason.message);
    assert_eq!((published(&c, "web"), announced(&c)), (vec![], vec!["other".to_owned()]));
    // A leader that reads the store now tells its node the same.
    c.reopen();
    c.tell_all(&node_id(0));
    assert_eq!(published(&c, "web"), []);
    c.ask(Ask::Delete(workload_id("other")));
    c.pass(2_000);
    assert_eq!((published(&c, "web").len(), announced(&c)), (1, vec!["web".to_owned()]));
}

#[test]
fn the_next_leader_knows_what_is_in_shadow_and_what_was_decided_there() {
    let mut c = cluster(2);
    c.apply("web", web(80), "r1");
    c.reopen();
    for n in 0..2 {
        c.tell_all(&node_id(n));
    }
    assert_eq!((published(&c, "web"), c.world.shadow_count()), (vec![], 1));
    assert_eq!(announced(&c), Vec::<String>::new());
    // Its node is away while shadow ends: it is told when it is back.
    let node = c.node_of("web").unwrap();
    c.deaf.push(node.clone());
    c.pass(7_000);
    let before = epoch(&c, "web");
    c.ask(shop(false));
    assert_eq!((epoch(&c, "web"), announced(&c).len()), (before, 0), "no name without its port");
    c.reopen();
    c.deaf.clear();
    c.register(&node);
    c.pass(2_000);
    assert_eq!((published(&c, "web").len(), announced(&c)), (1, vec!["web".to_owned()]));
}

#[test]
fn a_workload_that_moves_in_shadow_stays_there() {
    let mut c = cluster(2);
    c.apply("web", web(80), "r1");
    let node = c.node_of("web").unwrap();
    c.ask(Ask::Drain(node.clone(), Arc::from("")));
    c.pass(2_000);
    assert_ne!(c.node_of("web"), Some(node));
    assert_eq!((published(&c, "web"), c.phase("web")), (vec![], Some(Phase::Running)));
}

#[test]
fn what_is_over_is_not_run_again_because_shadow_ends() {
    let mut c = cluster(1);
    let mut job = web(80);
    let Kind::Container(body) = &mut job.kind else { panic!("a container") };
    body.restart = RestartPolicy::No;
    c.apply("job", job, "r1");
    c.say(&node_id(0), "job", State::Completed);
    c.apply("idle", web(81), "r1");
    c.set_desired("idle", Desired::Stopped);
    c.pass(1_000);
    let before = (epoch(&c, "job"), epoch(&c, "idle"));
    c.ask(shop(false));
    assert_eq!((c.phase("job"), c.phase("idle")), (Some(Phase::Completed), Some(Phase::Stopped)));
    assert_eq!((epoch(&c, "job"), epoch(&c, "idle")), before);
    c.set_desired("idle", Desired::Running);
    assert_eq!(published(&c, "idle").len(), 1, "once it runs again it has its port");
}

#[test]
fn a_stack_whose_update_failed_loses_its_ports_too() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.ask(shop(false));
    c.apply("stack", stack(80), "r1");
    let reason = FailureReason::InvalidSpec;
    let (stage, message) = (FailureStage::Start, Arc::from("no"));
    c.starts_as = State::Failed(Failure { reason, stage, message });
    c.apply("stack", stack(81), "r2");
    c.pass(600_000);
    assert_eq!(c.phase("stack"), Some(Phase::Failed));
    c.starts_as = State::Running;
    c.ask(shop(true));
    assert_eq!((c.phase("stack"), published(&c, "stack")), (Some(Phase::Running), vec![]));
}

#[test]
fn what_another_system_may_use_is_refused_by_name() {
    let mut c = cluster(1);
    let mut writes = web(80);
    let Kind::Container(body) = &mut writes.kind else { panic!("a container") };
    let bind = |read_only| Bind {
        host_path: Arc::from("/srv/data"),
        container_path: Arc::from("/data"),
        read_only,
    };
    body.binds = vec![bind(false)];
    let (code, why) = refusal(&c.apply("web", writes, "r1"));
    assert_eq!(code, RefusalCode::Forbidden);
    assert!(why.contains("shadow: /srv/data would be written"), "{why}");
    assert!(why.contains("make it read_only or leave shadow"), "{why}");

    let mut imported = web(80);
    imported.metadata.insert(ADOPT_ON_KEY.into(), "n0".into());
    let (_, why) = refusal(&c.apply("web", imported, "r1"));
    assert!(why.contains("would be taken over"), "{why}");

    // Data that is kept of another workload.
    c.ask(shop(false));
    c.apply("old", in_shop(with_volume(volume(VolumeDriver::Local, "data", true))), "r1");
    c.ask(Ask::Delete(workload_id("old")));
    c.pass(2_000);
    c.ask(shop(true));
    let (_, why) = refusal(&c.apply(
        "new",
        in_shop(with_volume(volume(VolumeDriver::Local, "data", true))),
        "r1",
    ));
    assert!(why.contains("shadow: disk"), "{why}");
    let own = in_shop(with_volume(volume(VolumeDriver::Local, "own", true)));
    assert!(matches!(c.apply("new", own, "r1"), Reply::Done { .. }), "its own it may have");
}

#[test]
fn a_namespace_does_not_enter_shadow_with_what_shadow_refuses() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    let name = NamespaceName::fixed("shop");
    let mut namespace = Namespace::new(name);
    namespace.allowance.host_paths.insert(Arc::from("/srv"));
    c.ask(Ask::Keep(Arc::new(Entry::Namespace(namespace.clone()))));
    let mut writes = web(80);
    let Kind::Container(body) = &mut writes.kind else { panic!("a container") };
    body.binds = vec![Bind {
        host_path: Arc::from("/srv/data"),
        container_path: Arc::from("/data"),
        read_only: false,
    }];
    c.apply("web", writes, "r1");
    namespace.shadow = true;
    let (code, why) = refusal(&c.ask(Ask::Keep(Arc::new(Entry::Namespace(namespace)))));
    assert_eq!(code, RefusalCode::Conflict);
    assert!(why.contains("cannot enter shadow: web: ") && why.contains("/srv/data"), "{why}");
    assert_eq!(published(&c, "web").len(), 1);
}

#[test]
fn the_whole_cluster_may_be_in_shadow() {
    let mut c = Cluster::new(Settings { shadow: true, ..Settings::default() });
    c.join(facts(&node_id(0), 4000, 8192));
    let mut spec = web(80);
    spec.metadata.clear();
    c.apply("web", spec, "r1");
    assert_eq!((published(&c, "web"), c.phase("web")), (vec![], Some(Phase::Running)));
    let news = News::whole(&c.world);
    assert!(news.nodes.is_empty() && news.workloads.is_empty(), "not even nodes have names");
    // The setting changes with a restart.
    c.settings.shadow = false;
    c.reopen();
    c.tell_all(&node_id(0));
    c.pass(1_000);
    assert_eq!((published(&c, "web").len(), announced(&c)), (1, vec!["web".to_owned()]));
    c.settings.shadow = true;
    c.reopen();
    c.tell_all(&node_id(0));
    c.pass(1_000);
    assert_eq!(published(&c, "web"), []);
    assert_eq!(changes(&c).pop(), Some((None, true, 1)));
}

#[test]
fn what_nobody_knows_is_left_alone_in_shadow() {
    let mut c = cluster(1);
    c.apply("web", web(80), "r1");
    let held = c.agents[&node_id(0)].held[&workload_id("web")].clone();
    c.ask(Ask::Delete(workload_id("web")));
    c.pass(1_000);
    // It is there again under another name, which nobody applied.
    let mut stray = held;
    stray.report.workload = workload_id("stray");
    c.agents.get_mut(&node_id(0)).unwrap().held.insert(workload_id("stray"), stray);
    c.tell_all(&node_id(0));
    for verdict in [OrphanVerdict::Adopt, OrphanVerdict::Delete] {
        let ask = Ask::Orphan(node_id(0), workload_id("stray"), verdict);
        let (code, why) = refusal(&c.ask(ask));
        assert_eq!(code, RefusalCode::Conflict);
        assert!(why.contains("shadow: stray was not started from here"), "{why}");
    }
    assert!(c.agents[&node_id(0)].held.contains_key(&workload_id("stray")));
    c.ask(shop(false));
    let ask = Ask::Orphan(node_id(0), workload_id("stray"), OrphanVerdict::Delete);
    assert!(matches!(c.ask(ask), Reply::Done { .. }));
}

#[test]
fn what_fits_nowhere_any_more_loses_its_ports_where_it_is() {
    let mut c = Cluster::with_nodes(1, 4000, 8192);
    c.ask(shop(false));
    c.apply("plain", web(80), "r1");
    c.apply("waits", web(81), "r1");
    let mut large = web(81);
    large.resources.compute.cpu_millicores = 100_000;
    c.apply("waits", large, "r2");
    assert_eq!(c.assignment("waits").reason.code, ReasonCode::UpdateWaits);
    // The node takes nothing new.
    c.ask(Ask::Drain(node_id(0), Arc::from("")));
    c.pass(1_000);
    c.ask(shop(true));
    c.pass(1_000);
    for name in ["plain", "waits"] {
        assert_eq!((c.phase(name), published(&c, name)), (Some(Phase::Running), vec![]), "{name}");
    }
    assert_eq!(announced(&c), Vec::<String>::new());
    let waits = c.assignment("waits").place.unwrap();
    assert_eq!(waits.version.unwrap().revision.as_str(), "r1", "the old version goes on");
}
