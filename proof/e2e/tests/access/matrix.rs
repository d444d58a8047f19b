//! Every method for every caller.

use std::collections::{BTreeMap, BTreeSet};

use persys_e2e::stack::{Stack, Wire};
use persys_identity::Role;
use persys_model::entry::UserRole;
use persys_proto::compute::v1 as api;
use persys_proto::control::v1 as wire;
use prost::Message as _;

use crate::call::{Caller, WEB, admitted, bind, deny, expire, namespace, revoke, token};

/// What is served to agents, and by others than the scheduler.
const NOT_SERVED: [&str; 3] =
    ["persys.agent.v1.AgentService/", "persys.compute.v1.Inside/", "persys.compute.v1.Enrol/"];

/// Every method there is, by its full name.
fn methods() -> BTreeSet<String> {
    let all = prost_types::FileDescriptorSet::decode(persys_proto::DESCRIPTOR).unwrap();
    let mut methods = BTreeSet::new();
    for file in &all.file {
        for service in &file.service {
            let service_name = format!("{}.{}/", file.package(), service.name());
            if NOT_SERVED.contains(&service_name.as_str()) {
                continue;
            }
            methods
                .extend(service.method.iter().map(|one| format!("{service_name}{}", one.name())));
        }
    }
    let health = ["Check", "Watch", "List"].map(|one| format!("grpc.health.v1.Health/{one}"));
    methods.extend(health);
    for version in ["v1", "v1alpha"] {
        let service = format!("grpc.reflection.{version}.ServerReflection");
        methods.insert(format!("{service}/ServerReflectionInfo"));
    }
    methods
}

/// Who may call what, as it was written by hand.
fn expected() -> BTreeMap<String, String> {
    let lines = include_str!("../../../../core/access/tests/expected.txt").lines();
    let rows = lines.filter(|line| !line.starts_with('#')).map(|line| {
        let (method, who) = line.split_once(' ').unwrap();
        (method.to_owned(), who.trim().to_owned())
    });
    let rows: Vec<_> = rows.collect();
    let count = rows.len();
    let map: BTreeMap<_, _> = rows.into_iter().collect();
    assert_eq!(map.len(), count, "a method stands twice");
    map
}

/// What an agent says is about a node; everything else is asked with nothing.
fn message(method: &str, node: &str) -> Vec<u8> {
    let node_id = node.to_owned();
    match method.rsplit('/').next().unwrap() {
        "RegisterNode" => {
            wire::RegisterNodeRequest { node_id, ..Default::default() }.encode_to_vec()
        }
        "Heartbeat" => wire::HeartbeatRequest { node_id, ..Default::default() }.encode_to_vec(),
        // Secrets are of a namespace: the one that some of them have a role in.
        "SetSecret" | "ListSecrets" | "GetSecret" | "DeleteSecret" => {
            api::ListSecretsRequest { namespace: WEB.to_owned() }.encode_to_vec()
        }
        _ => Vec::new(),
    }
}

/// Somebody, the letter they have in the list, and the node they speak of. Without a letter they
/// may what everybody may; `-` may nothing at all.
type Row = (&'static str, Caller, &'static str, &'static str);

async fn callers(stack: &Stack) -> Vec<Row> {
    namespace(stack, WEB).await;
    let mut rows: Vec<Row> = Vec::new();
    for (what, role, name, letter) in [
        ("operator", Role::Operator, "alice", "A"),
        ("scheduler", Role::Scheduler, "s1", ""),
        ("agent", Role::Agent, "n1", "G"),
        ("gateway alone", Role::Gateway, "g1", ""),
        ("user without a role", Role::User, "nobody", ""),
        ("metrics", Role::Metrics, "prometheus", ""),
        ("user, viewer", Role::User, "vera", "V"),
        ("user, viewer in web", Role::User, "vic", "v"),
        ("user, operator", Role::User, "otto", "O"),
        ("user, operator in web", Role::User, "olga", "o"),
        ("user, admin", Role::User, "ada", "A"),
        ("user, admin in web", Role::User, "abe", "a"),
        ("user, auditor", Role::User, "ulla", "U"),
    ] {
        rows.push((what, Caller::with(stack, role, name).await, letter, "n1"));
    }
    for (user, role, at) in [
        ("vera", UserRole::Viewer, &[][..]),
        ("vic", UserRole::Viewer, &[WEB]),
        ("otto", UserRole::Operator, &[]),
        ("olga", UserRole::Operator, &[WEB]),
        ("ada", UserRole::Admin, &[]),
        ("abe", UserRole::Admin, &[WEB]),
        ("ulla", UserRole::Auditor, &[]),
    ] {
        bind(stack, user, role, at).await;
    }
    let agent = Caller::with(stack, Role::Agent, "n1").await;
    rows.push(("agent n1 as n2", agent.clone(), "", "n2"));
    let nobody = Caller::with(stack, Role::User, "nobody").await;
    let gateway = Caller::with(stack, Role::Gateway, "g1").await;
    for (what, role, at, letter) in [
        ("token, viewer", UserRole::Viewer, &[][..], "V"),
        ("token, viewer in web", UserRole::Viewer, &[WEB], "v"),
        ("token, operator", UserRole::Operator, &[], "O"),
        ("token, operator in web", UserRole::Operator, &[WEB], "o"),
        ("token, admin", UserRole::Admin, &[], "A"),
        ("token, admin in web", UserRole::Admin, &[WEB], "a"),
        ("token, auditor", UserRole::Auditor, &[], "U"),
    ] {
        let (_, text) = token(stack, role, at).await;
        rows.push((what, nobody.clone().bearer(&text), letter, "n1"));
    }
    let (_, operator) = token(stack, UserRole::Operator, &[]).await;
    rows.push(("gateway with a token", gateway.clone().bearer(&operator), "O", "n1"));
    rows.push(("gateway for a user", gateway.clone().behalf("user/olga"), "o", "n1"));
    rows.push(("gateway as operator", gateway.behalf("operator/alice"), "-", "n1"));
    rows.push(("user for another", nobody.clone().behalf("user/ada"), "", "n1"));
    rows.push(("agent with a token", agent.bearer(&operator), "-", "n1"));
    // The source of bad tokens is not listened to after a while: few methods are tried with them.
    let (revoked, text) = token(stack, UserRole::Admin, &[]).await;
    revoke(stack, &revoked).await;
    rows.push(("revoked token", nobody.clone().bearer(&text), "-", "n1"));
    let (old, text) = token(stack, UserRole::Admin, &[]).await;
    expire(stack, &old).await;
    rows.push(("expired token", nobody.clone().bearer(&text), "-", "n1"));
    rows
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_method_lets_through_exactly_whom_the_list_says() {
    let expected = expected();
    let methods = methods();
    let named: BTreeSet<_> = expected.keys().cloned().collect();
    assert_eq!(methods, named, "the list and the contract differ");
    let stack = Stack::start(Wire::Mtls).await;
    let mut wrong = Vec::new();
    let mut asked = 0;
    for (what, caller, letter, node) in callers(&stack).await {
        for method in &methods {
            // Whom a stream is about is said inside it; `streams.rs` tries that.
            if node != "n1" && method.ends_with("/ControlStream") {
                continue;
            }
            let who = &expected[method];
            let may = letter != "-" && (who == "*" || (!letter.is_empty() && who.contains(letter)));
            let answer = caller.call(method, &message(method, node)).await;
            asked += 1;
            if admitted(&answer) != may {
                wrong.push(format!("{what}: {method}: should be {may}: {answer:?}"));
            }
        }
    }
    asked += nobody_else(&stack, &methods).await;
    println!("{asked} calls, {} wrong", wrong.len());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    stack.stop().await;
}

/// Those who are not believed at all, each with what an admin or an agent would need.
async fn nobody_else(stack: &Stack, methods: &BTreeSet<String>) -> usize {
    let mut asked = 0;
    let mut refused = async |what: &str, caller: &Caller| {
        for method in methods {
            let answer = caller.call(method, &message(method, "n7")).await;
            assert!(!admitted(&answer), "{what}: {method}: {answer:?}");
            asked += 1;
        }
    };
    // Believed until a moment ago, with a connection that is open.
    bind(stack, "rita", UserRole::Admin, &[]).await;
    for (what, role, name, by_serial) in [
        ("revoked user", Role::User, "rita", false),
        ("revoked agent", Role::Agent, "n7", false),
        ("revoked certificate of an operator", Role::Operator, "bob", true),
    ] {
        let issued = stack.issued(role, name).unwrap();
        let channel = stack.channel_of(&issued).await.unwrap();
        let caller = Caller { channel, headers: Vec::new() };
        caller.call("grpc.health.v1.Health/Check", &[]).await.unwrap();
        let serial = format!("serial/{}", issued.certificate.serial);
        deny(stack, &if by_serial { serial } else { format!("{role}/{name}") }).await;
        caller.until_refused("grpc.health.v1.Health/Check").await;
        refused(what, &caller).await;
    }
    let gateway = Caller::with(stack, Role::Gateway, "g1").await;
    refused("gateway for a revoked user", &gateway.behalf("user/rita")).await;
    for (what, connection) in [
        ("expired certificate", stack.expired_channel(Role::Operator, "alice").await),
        ("certificate of another authority", stack.strange_channel(Role::Operator, "alice").await),
        ("no certificate", stack.bare_channel().await),
    ] {
        let Ok(channel) = connection else { continue };
        refused(what, &Caller { channel, headers: Vec::new() }).await;
    }
    asked
}

/// Agents take orders from schedulers, and from nobody else; operators may look. One that has no
/// schedulers takes orders from operators.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_agent_answers_schedulers_and_lets_operators_look() {
    let mut stack = Stack::start(Wire::Mtls).await;
    stack.add_agent("n1").await;
    stack.add_lone_agent("lone").await;
    let all = prost_types::FileDescriptorSet::decode(persys_proto::DESCRIPTOR).unwrap();
    let mut methods = BTreeSet::new();
    for file in &all.file {
        for service in &file.service {
            let name = format!("{}.{}/", file.package(), service.name());
            if ["persys.agent.v1.AgentService/", "persys.compute.v1.Inside/"].contains(&&*name) {
                methods.extend(service.method.iter().map(|one| format!("{name}{}", one.name())));
            }
        }
    }
    assert!(methods.len() > 8, "{methods:?}");
    let looks = ["GetWorkloadStatus", "ListWorkloads", "HealthCheck", "ListActions", "Inspect"];
    let is_look = |method: &str| looks.iter().any(|look| method.ends_with(&format!("/{look}")));
    for (node, role, name) in [
        ("n1", Role::Scheduler, "s1"),
        ("n1", Role::Operator, "alice"),
        ("lone", Role::Operator, "alice"),
        ("n1", Role::Agent, "n2"),
        ("n1", Role::Agent, "n1"),
        ("n1", Role::Gateway, "g1"),
        ("n1", Role::User, "ada"),
        ("n1", Role::Metrics, "prometheus"),
    ] {
        let channel = stack.channel_to_agent(node, role, name).await;
        let caller = Caller { channel, headers: Vec::new() };
        for method in &methods {
            let may = match role {
                Role::Scheduler => true,
                Role::Operator => node == "lone" || is_look(method),
                Role::Agent | Role::Gateway | Role::User | Role::Metrics => false,
            };
            let answer = caller.call(method, &[]).await;
            assert_eq!(admitted(&answer), may, "{role} {name} at {node}: {method}: {answer:?}");
        }
        let missing = caller.call("persys.agent.v1.AgentService/Format", &[]).await;
        assert_eq!(missing.unwrap_err().code(), tonic::Code::Unimplemented);
    }
    stack.stop().await;
}
