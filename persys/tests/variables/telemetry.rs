//! Traces as a collector gets them, and what logs tell and do not tell: real processes, the real
//! protocol, and work that is simulated.

use std::collections::BTreeMap;
use std::net::TcpListener;
use std::time::{Duration, Instant};

use persys_collector::{Collector, Seen};
use serde_json::Value;
use tokio::runtime::{Builder, Runtime};

use crate::program::{Folder, Program, ends, free_port, healthy, page, ready_node, until};

const CANARY: &str = "canary-5b1c7f0e";

/// A scheduler, an agent and, if wanted, a gateway, each a process.
struct Site {
    folder: Folder,
    scheduler: Program,
    agent: Program,
    gateway: Option<(Program, String)>,
    way: String,
}

impl Site {
    /// With these variables for each of them.
    fn start(variables: &[(&str, &str)], with_gateway: bool) -> Self {
        let folder = Folder::new();
        let (state, agent_state) = (folder.at("scheduler"), folder.at("agent"));
        let (grpc, own) = (free_port(), free_port());
        let address = format!("127.0.0.1:{grpc}");
        let of = |more: &[(&'static str, String)]| {
            let mut all: Vec<(String, String)> = variables
                .iter()
                .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
                .collect();
            all.extend(more.iter().map(|(name, value)| ((*name).to_owned(), value.clone())));
            all
        };
        let start = |words: &[&str], all: Vec<(String, String)>| {
            let all: Vec<_> =
                all.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            Program::start(folder.path(), words, &all)
        };
        let scheduler = of(&[
            ("PERSYS_STATE_DIR", state),
            ("GRPC_PORT", grpc),
            ("METRICS_PORT", "0".to_owned()),
            ("PERSYS_DNS_ENABLED", "false".to_owned()),
        ]);
        let mut scheduler = start(&["scheduler", "-insecure"], scheduler);
        scheduler.says("the scheduler serves");
        let agent = of(&[
            ("PERSYS_NODE_ID", "n1".to_owned()),
            ("PERSYS_TLS_ENABLED", "false".to_owned()),
            ("PERSYS_STATE_PATH", agent_state),
            ("PERSYS_GRPC_PORT", "0".to_owned()),
            ("PERSYS_METRICS_PORT", free_port()),
            ("PERSYS_SCHEDULER_ADDR", address.clone()),
        ]);
        let agent = start(
            &["agent", "--runtime", "sim", "--admit-percent", "0", "--admit-disk-percent", "0"],
            agent,
        );
        let gateway = with_gateway.then(|| {
            let public = format!("127.0.0.1:{own}");
            let all = of(&[
                ("PERSYS_GATEWAY_HTTP_ADDR", "127.0.0.1:0".to_owned()),
                ("PERSYS_GATEWAY_HTTP_ADDR_PUBLIC", public.clone()),
                ("PERSYS_SCHEDULER_ADDR", address.clone()),
                ("PERSYS_STATE_DIR", folder.at("gateway")),
            ]);
            let mut gateway = start(&["gateway", "-insecure"], all);
            gateway.says("the gateway serves");
            (gateway, public)
        });
        let way = format!("--insecure --endpoint {address}");
        ready_node(&folder, &way);
        Self { folder, scheduler, agent, gateway, way }
    }

    /// What somebody types, with these variables.
    fn types(&self, line: &str, variables: &[(&str, &str)]) -> (i32, String, String) {
        let line = format!("{line} {}", self.way);
        let words: Vec<_> = line.split_whitespace().collect();
        let home = self.folder.at("home");
        ends(&words, &[&[("PERSYS_HOME", home.as_str())], variables].concat())
    }

    fn runs(&self, name: &str, options: &str, variables: &[(&str, &str)]) {
        let (code, out, err) = self.types(&format!("run nginx --name {name} {options}"), variables);
        assert_eq!(code, 0, "{out}{err}");
    }
}

fn collector() -> (Runtime, Collector, String) {
    let runtime = Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
    let collector = runtime.block_on(Collector::start()).unwrap();
    let at = format!("http://{}", collector.at);
    (runtime, collector, at)
}

/// The spans of the trace that has this one, once all these are there, each with the service it is of.
fn trace(collector: &Collector, first: &str, wanted: &[(&str, &str)]) -> Vec<Seen> {
    until(&format!("a trace of {first} with {wanted:?}"), || {
        let all = collector.spans();
        let root = all.iter().find(|span| span.name == first)?.trace.clone();
        let spans: Vec<_> = all.into_iter().filter(|span| span.trace == root).collect();
        let has = |(service, name): &(&str, &str)| {
            spans.iter().any(|span| span.service == *service && span.name == *name)
        };
        wanted.iter().all(has).then_some(spans)
    })
}

/// Who stands above whom, as `service name < service name`.
fn parents(spans: &[Seen]) -> BTreeMap<String, String> {
    let named = |span: &Seen| format!("{} {}", span.service, span.name);
    let by_id: BTreeMap<_, _> = spans.iter().map(|span| (span.id.as_str(), named(span))).collect();
    let above = |span: &Seen| by_id.get(span.parent.as_str()).cloned().unwrap_or_default();
    spans.iter().map(|span| (named(span), above(span))).collect()
}

const APPLY: &str = "persys.control.v1.AgentControl/ApplyWorkload";
const TAKE: &str = "persys.agent.v1.AgentService/ApplyWorkload";

/// What the scheduler and the agent write down of every workload, and below what.
fn assert_workload(above: &BTreeMap<String, String>) {
    for (span, parent) in [
        (
            "persys-scheduler commit",
            "persys-scheduler persys.control.v1.AgentControl/ApplyWorkload",
        ),
        (
            "persys-scheduler dispatch",
            "persys-scheduler persys.control.v1.AgentControl/ApplyWorkload",
        ),
        (
            "persys-scheduler settle",
            "persys-scheduler persys.control.v1.AgentControl/ApplyWorkload",
        ),
        ("persys-agent persys.agent.v1.AgentService/ApplyWorkload", "persys-scheduler dispatch"),
        ("persys-agent start", "persys-agent persys.agent.v1.AgentService/ApplyWorkload"),
        ("persys-agent prepare", "persys-agent start"),
        ("persys-agent run", "persys-agent start"),
        ("persys-agent report", "persys-agent persys.agent.v1.AgentService/ApplyWorkload"),
    ] {
        assert_eq!(above.get(span).map(String::as_str), Some(parent), "{span} in {above:#?}");
    }
}

const OF_A_WORKLOAD: [(&str, &str); 9] = [
    ("persys-scheduler", APPLY),
    ("persys-scheduler", "commit"),
    ("persys-scheduler", "dispatch"),
    ("persys-scheduler", "settle"),
    ("persys-agent", TAKE),
    ("persys-agent", "start"),
    ("persys-agent", "prepare"),
    ("persys-agent", "run"),
    ("persys-agent", "report"),
];

#[test]
fn one_trace_follows_a_workload_from_what_was_typed_until_it_runs() {
    let (_runtime, collector, at) = collector();
    let site = Site::start(&[("OTEL_EXPORTER_OTLP_ENDPOINT", &at)], true);
    // Whoever types decides that it is written down; the others follow.
    site.runs("web", "", &[("OTEL_EXPORTER_OTLP_ENDPOINT", &at)]);
    let spans = trace(&collector, "persys run", &OF_A_WORKLOAD);
    let above = parents(&spans);
    assert_workload(&above);
    assert_eq!(above[&format!("persys-scheduler {APPLY}")], "persys persys run");
    assert_eq!(above["persys persys run"], "", "it is the first");
    let settle = spans.iter().find(|span| span.name == "settle").unwrap();
    assert_eq!((settle.attributes["persys.state"].as_str(), &settle.failed), ("Running", &None));
    let dispatch = spans.iter().find(|span| span.name == "dispatch").unwrap();
    for (key, value) in
        [("persys.node", "n1"), ("persys.workload", "web"), ("persys.desired", "Running")]
    {
        assert_eq!(dispatch.attributes[key], value);
    }

    // The same by way of the gateway, from a client that has a trace of its own.
    let (_, public) = site.gateway.as_ref().unwrap();
    let trace_id = "0af7651916cd43dd8448eb211c80319c";
    let body = serde_json::json!({"workload_id": "shop", "spec": {"type": "container",
        "container": {"image": "nginx"}}});
    let header = format!("traceparent: 00-{trace_id}-b7ad6b7169203331-01");
    let said = post(public, "/v1/workloads", &header, &body.to_string());
    assert!(said.contains("\"success\":true"), "{said}");
    let wanted = [&OF_A_WORKLOAD[..], &[("persys-gateway", APPLY)]].concat();
    let spans = trace(&collector, "POST /v1/workloads", &wanted);
    assert!(spans.iter().all(|span| span.trace == trace_id), "{spans:#?}");
    let above = parents(&spans);
    assert_workload(&above);
    assert_eq!(above[&format!("persys-scheduler {APPLY}")], format!("persys-gateway {APPLY}"));
    assert_eq!(above[&format!("persys-gateway {APPLY}")], "persys-gateway POST /v1/workloads");
    let first = spans.iter().find(|span| span.name == "POST /v1/workloads").unwrap();
    assert_eq!(first.parent, "b7ad6b7169203331");
}

fn post(at: &str, path: &str, header: &str, body: &str) -> String {
    use std::io::{Read as _, Write as _};
    let mut stream = std::net::TcpStream::connect(at).unwrap();
    let length = body.len();
    let head = format!(
        "POST {path} HTTP/1.1\r\nhost: {at}\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n{header}\r\n\r\n"
    );
    stream.write_all(head.as_bytes()).unwrap();
    stream.write_all(body.as_bytes()).unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

#[test]
fn what_is_written_down_is_what_was_said() {
    let (_runtime, collector, at) = collector();
    let variables = [
        ("JAEGER_ENDPOINT", at.trim_start_matches("http://")),
        ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
        ("OTEL_TRACES_SAMPLER_ARG", "1"),
        ("OTEL_SERVICE_NAME", "mine"),
    ];
    let site = Site::start(&variables, false);
    // Nobody who types has a trace: the scheduler begins one.
    site.runs("web", "", &[]);
    let wanted = [("mine", APPLY), ("mine", "dispatch"), ("mine", "report")];
    let spans = trace(&collector, APPLY, &wanted);
    let first = spans.iter().find(|span| span.name == APPLY).unwrap();
    assert_eq!(first.parent, "");
    // A caller who does not want it written down is heard, and so are those behind the scheduler.
    let unwanted = "00-11111111111111111111111111111111-b7ad6b7169203331-00";
    site.runs("quiet", "", &[("TRACEPARENT", unwanted)]);
    site.runs("last", "", &[]);
    until("the last", || {
        let all = collector.spans();
        let of = |name: &str| {
            let about =
                |span: &&Seen| span.attributes.get("persys.workload").is_some_and(|id| id == name);
            all.iter().filter(about).count()
        };
        assert_eq!(of("quiet"), 0, "{all:#?}");
        (of("last") >= 4).then_some(())
    });
}

#[test]
fn a_collector_that_never_answers_holds_up_nothing() {
    // It takes connections, as far as the system does, and says nothing on them.
    let silent = TcpListener::bind("127.0.0.1:0").unwrap();
    let at = silent.local_addr().unwrap().to_string();
    let variables =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", at.as_str()), ("OTEL_TRACES_SAMPLER_ARG", "1")];
    let mut site = Site::start(&variables, false);
    for nth in 0..3 {
        site.runs(&format!("w{nth}"), "", &[]);
    }
    let line = site.scheduler.says("spans were dropped");
    assert!(line.contains("dropped="), "{line}");
    assert_eq!(site.scheduler.log().matches("spans were dropped").count(), 1);
    let begun = Instant::now();
    assert!(site.scheduler.stops(), "it ends well");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}", begun.elapsed());
}

/// Pages for probes are traced, and each tells the mode and what it knows of nodes.
#[test]
fn the_pages_of_every_component_are_traced_and_tell_the_mode() {
    let (_runtime, collector, at) = collector();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", at.as_str()),
        ("OTEL_TRACES_SAMPLER", "always_on"),
        ("PERSYS_LOG_FORMAT", "text"),
    ];
    let mut site = Site::start(&variables, true);
    let (scheduler, agent) = (site.scheduler.at("http"), site.agent.at("http"));
    let gateway = site.gateway.as_ref().unwrap().1.parse().unwrap();
    let health = |at| -> Option<Value> { serde_json::from_str(&page(at, "/health")?).ok() };
    let shown = healthy(scheduler);
    assert_eq!((&shown["mode"], &shown["nodes"]["ready"]), (&"normal".into(), &1.into()));
    let shown = until("the agent was told the mode", || {
        health(agent).filter(|shown| shown["mode"] == "normal")
    });
    assert_eq!(shown["nodeState"], "Ready", "{shown}");
    assert!(shown["modeChangedAt"].is_string(), "{shown}");
    let shown = until("the gateway was told the mode", || {
        health(gateway).filter(|shown| shown["clusters"][0]["nodes"]["ready"] == 1)
    });
    assert_eq!((&shown["status"], &shown["mode"]), (&"healthy".into(), &"normal".into()));
    assert_eq!(shown["clusters"][0]["schedulers"]["answering"], 1, "{shown}");
    for at in [scheduler, agent, gateway] {
        page(at, "/metrics").unwrap();
    }
    until("spans of all pages", || {
        let spans = collector.spans();
        let has = |service: &str, name: &str| {
            spans.iter().any(|span| span.service == service && span.name == name)
        };
        let services = ["persys-scheduler", "persys-agent", "persys-gateway"];
        let all = services.iter().all(|one| has(one, "GET /health") && has(one, "GET /metrics"));
        all.then_some(())
    });
}

#[test]
fn one_line_tells_of_each_operation() {
    let mut site = Site::start(&[("PERSYS_LOG_FORMAT", "auto")], true);
    let line = site.gateway.as_mut().unwrap().0.says("serves");
    let line: Value = serde_json::from_str(&line).unwrap_or_else(|_| panic!("{line}"));
    assert_eq!(line["level"], "INFO", "a gateway writes for programs too");
    site.runs("web", "", &[]);
    let (code, out, err) = site.types("delete web", &[]);
    assert_eq!(code, 0, "{out}{err}");
    let lines = |program: &mut Program, state: &str| {
        program.says(&format!("\"state\":\"{state}\""));
        let about = |line: &str| {
            let line: Value = serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"));
            (line["message"] == "operation" && line["state"] == state).then_some(line)
        };
        program.log().lines().filter_map(about).collect::<Vec<_>>()
    };
    // Not on a terminal, so each line is JSON.
    let of_scheduler = lines(&mut site.scheduler, "Running");
    assert_eq!(of_scheduler.len(), 1, "{of_scheduler:#?}");
    let of_agent = lines(&mut site.agent, "Running");
    assert_eq!(of_agent.len(), 1, "{of_agent:#?}");
    for line in of_scheduler.iter().chain(&of_agent) {
        for (key, value) in
            [("node", "n1"), ("workload", "web"), ("desired", "Running"), ("level", "INFO")]
        {
            assert_eq!(line[key], value, "{line}");
        }
        assert!(line["revision"].is_string() && line["ms"].is_u64(), "{line}");
    }
    assert_eq!(of_scheduler[0]["epoch"], of_agent[0]["epoch"], "what ties them together");
    assert_eq!(of_scheduler[0]["task"], of_agent[0]["task"], "and so does the task");
    let task = of_agent[0]["task"].as_str().unwrap();
    assert!(task.starts_with("task-"), "{of_agent:#?}");
    let requested = of_scheduler[0]["requested_at"].as_str().unwrap();
    assert!(requested.starts_with("20") && requested.ends_with('Z'), "{of_scheduler:#?}");
    assert_eq!(of_scheduler[0]["action"], "apply_workload");
    let deleted = lines(&mut site.scheduler, "Deleted");
    assert_eq!(deleted.len(), 1);
    assert_eq!(deleted[0]["revision"], of_scheduler[0]["revision"], "{deleted:#?}");
    assert_eq!(deleted[0]["action"], "delete_workload", "{deleted:#?}");
    assert!(deleted[0]["task"].is_string() && deleted[0]["node"] == "n1", "{deleted:#?}");
    // The same is in the event of the end.
    let (_, out, _) = site.types("events --workload web -o json", &[]);
    let events: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}"));
    let running = events.as_array().unwrap().iter().find(|one| one["type"] == "WorkloadRunning");
    let details = &running.unwrap()["details"];
    assert_eq!(details["task_id"], task, "{details}");
    assert_eq!(details["task_status"], "completed", "{details}");
    assert!(details["task_started_at"].is_string() && details["task_ended_at"].is_string());
    // What fails is told with the reason.
    site.types("run fail:IMAGE_NOT_FOUND --name bad", &[]);
    let failed = lines(&mut site.agent, "Failed");
    assert!(failed[0]["error"].is_string() && failed[0]["level"] == "WARN", "{failed:#?}");
    let failed = lines(&mut site.scheduler, "Failed");
    assert!(failed[0]["error"].as_str().unwrap().contains("IMAGE_NOT_FOUND"), "{failed:#?}");
    assert!(failed[0]["reason"].is_string() && failed[0]["level"] == "WARN", "{failed:#?}");
}

#[test]
fn levels_change_while_it_runs_and_go_back_by_themselves() {
    let mut site = Site::start(&[("LOG_LEVEL", "info,store=warn")], false);
    let (code, out, err) =
        site.types("log level agent=trace --component agent --node n1 --for 3s", &[]);
    assert_eq!(code, 0, "{err}");
    assert!(out.contains("info,persys_store=warn") && out.contains("persys_agent=trace"), "{out}");
    let line = site.agent.says("levels of the log were changed");
    assert!(line.contains("agent=trace") && line.contains("for_s=3"), "{line}");
    let (_, out, _) = site.types("log level --component agent --node n1 -o json", &[]);
    assert!(out.contains("persys_agent=trace"), "{out}");
    until("it is over", || {
        let (_, out, _) = site.types("log level --component agent --node n1", &[]);
        (!out.contains("trace")).then_some(())
    });
    // The scheduler that is asked has levels of its own.
    let (_, out, _) = site.types("log level scheduler::rpc=debug", &[]);
    assert!(out.contains("persys_scheduler::rpc=debug"), "{out}");
    let (_, out, _) = site.types("log level --reset", &[]);
    assert!(!out.contains("debug"), "{out}");
    for (line, fault) in [
        ("log level loud", "a level is error, warn"),
        ("log level schedular=debug", "no module \"schedular\""),
        ("log level h2=trace", "no module \"h2\""),
        ("log level debug --component agent --node n9", "there is no node n9"),
    ] {
        let (code, _, err) = site.types(line, &[]);
        assert!(code != 0 && err.contains(fault), "{line}: {err}");
    }
}

#[test]
fn the_levels_of_a_gateway_change_over_its_own_interface() {
    let mut site = Site::start(&[("LOG_LEVEL", "info,gateway=warn")], true);
    let public = site.gateway.as_ref().unwrap().1.clone();
    let change =
        |body: &str| post(&public, "/v1/gateway/log-levels", "x-persys-reason: test", body);
    let said = change(r#"{"directives": "gateway::rest=debug", "seconds": 3}"#);
    assert!(said.starts_with("HTTP/1.1 200"), "{said}");
    assert!(said.contains(r#""settings":"info,persys_gateway=warn""#), "{said}");
    assert!(said.contains(r#""directive":"persys_gateway::rest=debug""#), "{said}");
    let (gateway, _) = site.gateway.as_mut().unwrap();
    let line = gateway.says("levels of the log were changed");
    assert!(line.contains("gateway::rest=debug") && line.contains("for_s=3"), "{line}");
    // Those of the scheduler, which was asked whether this may be, are what they were.
    let (_, out, _) = site.types("log level", &[]);
    assert!(!out.contains("debug"), "{out}");
    let at = public.parse().unwrap();
    until("it is over", || {
        let shown = page(at, "/v1/gateway/log-levels")?;
        assert!(shown.contains("info,persys_gateway=warn"), "{shown}");
        (!shown.contains("debug")).then_some(())
    });
    assert!(change(r#"{"directives": "gateway=trace"}"#).contains("trace"));
    assert!(!change(r#"{"reset": true}"#).contains("trace"));
    for (body, fault) in [
        (r#"{"directives": "gatewey=debug"}"#, "no module"),
        (r#"{"directives": "loud"}"#, "a level is error, warn"),
        (r#"{"level": "debug"}"#, "unknown field"),
        ("", "what is to change"),
    ] {
        let said = change(body);
        assert!(said.starts_with("HTTP/1.1 400") && said.contains(fault), "{body}: {said}");
    }
}

#[test]
fn bad_directives_and_collectors_are_refused_with_the_fault_named() {
    for (name, value, fault) in [
        ("LOG_LEVEL", "info,schedular=debug", "no module \"schedular\""),
        ("PERSYS_LOG_LEVEL", "scheduler=loud", "a level is"),
        ("PERSYS_LOG_FORMAT", "xml", "text, json or auto"),
        ("OTEL_EXPORTER_JAEGER_ENDPOINT", "http://j:14268/api/traces", "4317"),
        ("OTEL_TRACES_SAMPLER", "sometimes", "always_on"),
    ] {
        let (code, _, err) = ends(&["scheduler", "-insecure"], &[(name, value)]);
        assert!(code == 64 && err.contains(fault), "{name}={value}: {code} {err}");
    }
}

#[test]
fn nothing_secret_is_told_even_when_everything_is() {
    let (_runtime, collector, at) = collector();
    let variables = [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", at.as_str()),
        ("OTEL_TRACES_SAMPLER_ARG", "1"),
        ("LOG_LEVEL", "trace"),
    ];
    let site = Site::start(&variables, true);
    let secret = site.folder.at("secret");
    std::fs::write(&secret, CANARY).unwrap();
    let (code, out, err) = site.types(&format!("secret set db --from-file {secret}"), &[]);
    assert_eq!(code, 0, "{out}{err}");
    let traced = [("OTEL_EXPORTER_OTLP_ENDPOINT", at.as_str())];
    // A token that is none is refused, and not repeated.
    let (code, out, err) = site.types("list", &[traced[0], ("PERSYS_TOKEN", CANARY)]);
    assert!(code != 0 && !out.contains(CANARY) && !err.contains(CANARY), "{out}{err}");
    site.runs("web", &format!("-e PASSWORD={CANARY} --secret db --secret-env TOKEN=db"), &traced);
    // By the gateway, where a token and the environment of a workload pass through.
    let body = serde_json::json!({"workload_id": "shop", "spec": {"type": "container",
        "container": {"image": "nginx", "env": {"KEY": CANARY}}}});
    let (_, public) = site.gateway.as_ref().unwrap();
    post(public, "/v1/workloads", &format!("authorization: Bearer {CANARY}"), &body.to_string());
    site.types("get shop", &[]);
    trace(&collector, "persys run", &OF_A_WORKLOAD);
    let spans = format!("{:?}", collector.spans());
    let (gateway, _) = site.gateway.as_ref().unwrap();
    for (whose, text) in [
        ("the scheduler's log", site.scheduler.log()),
        ("the agent's log", site.agent.log()),
        ("the gateway's log", gateway.log()),
        ("spans", spans),
    ] {
        assert!(!text.contains(CANARY), "{whose}: {text}");
        assert!(text.len() > 200, "{whose} tells something: {text}");
    }
}
