//! Secrets that Vault keeps: what agents get of them, and what they do not.

use std::time::Duration;

use persys_identity::vault::{Auth, Secret};
use persys_identity::{Exposure, Role};
use persys_model::command::{Command, Order};
use persys_model::id::SecretName;
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::access_client::AccessClient;
use persys_proto::compute::v1::secrets_client::SecretsClient;
use persys_proto::control::v1 as wire;
use persys_scheduler::app::{self, Security, VaultSettings};
use serde_json::json;
use tempfile::TempDir;
use tonic::Code;
use tonic::transport::Channel;

use crate::agent::FakeAgent;
use crate::bench::{Bench, config, container, leads, node};
use crate::double::{Double, ROLE_ID, SECRET_ID};

struct Site {
    double: Double,
    bench: Bench,
    secrets: SecretsClient<Channel>,
    agent: FakeAgent,
}

const PATIENCE: Duration = Duration::from_secs(20);

impl Site {
    async fn start() -> Self {
        Self::with_agent(true).await
    }

    /// With an agent that can signal what runs, or one of an earlier release.
    async fn with_agent(can_signal: bool) -> Self {
        let double = Double::start().await;
        let folder = tempfile::tempdir().unwrap();
        let bench = run(folder, &double).await;
        let channel = bench.channel(Role::Operator, "alice").await;
        let secrets = SecretsClient::new(channel.clone());
        let namespace = api::AccessNamespace {
            name: "team-a".to_owned(),
            vault_paths: vec!["secret/data/team-a".to_owned(), "kv/team-a".to_owned()],
            ..Default::default()
        };
        let request = api::PutNamespaceRequest {
            namespace: Some(namespace),
            only_new: true,
            ..Default::default()
        };
        AccessClient::new(channel).put_namespace(request).await.unwrap();
        let agent = FakeAgent::start(None).await;
        let mut as_agent = bench.client(Role::Agent, "n1").await;
        let joining = wire::RegisterNodeRequest { can_signal, ..node("n1", agent.address) };
        let joined = as_agent.register_node(joining).await.unwrap();
        assert!(joined.into_inner().accepted);
        Self { double, bench, secrets, agent }
    }

    async fn set(
        &mut self,
        namespace: &str,
        vault: api::VaultSource,
    ) -> Result<api::SetSecretResponse, tonic::Status> {
        let request = api::SetSecretRequest {
            namespace: namespace.to_owned(),
            name: "db".to_owned(),
            value: Vec::new(),
            vault: Some(vault),
        };
        self.secrets.set_secret(request).await.map(tonic::Response::into_inner)
    }

    async fn view(&mut self) -> api::SecretView {
        let request =
            api::GetSecretRequest { namespace: "team-a".to_owned(), name: "db".to_owned() };
        self.secrets.get_secret(request).await.unwrap().into_inner().secret.unwrap()
    }

    /// Waits until the secret is as wanted.
    async fn until(
        &mut self,
        what: &str,
        wanted: impl Fn(&api::SecretView) -> bool,
    ) -> api::SecretView {
        let begun = tokio::time::Instant::now();
        loop {
            let view = self.view().await;
            if wanted(&view) {
                return view;
            }
            assert!(begun.elapsed() < PATIENCE, "never {what}: {view:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    /// What the agent got with the last order for a workload, once that is as wanted.
    async fn got(
        &self,
        id: &str,
        wanted: impl Fn(&Result<Vec<u8>, String>) -> bool,
    ) -> Result<Vec<u8>, String> {
        let begun = tokio::time::Instant::now();
        loop {
            let last = self.agent.notes.commands.lock().unwrap().iter().rev().find_map(|command| {
                let Order::Apply(apply) = &command.order else { return None };
                let value = apply.secrets.get(&SecretName::fixed("db"))?;
                let value = value.as_ref().map(|value| value.value.reveal().to_vec());
                (command.workload.as_str() == id).then(|| value.map_err(ToString::to_string))
            });
            if let Some(value) = last.clone().filter(|value| wanted(value)) {
                return value;
            }
            assert!(begun.elapsed() < PATIENCE, "never, but {last:?}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }

    async fn apply(&self, id: &str) {
        self.apply_signalled(id, "").await;
    }

    async fn apply_signalled(&self, id: &str, signal: &str) {
        let mut request = container(id);
        let spec = request.spec.as_mut().unwrap();
        spec.metadata.insert("persys.io/namespace".to_owned(), "team-a".to_owned());
        let (name, signal) = ("db".to_owned(), signal.to_owned());
        spec.secrets = vec![wire::SecretUse { name, signal, ..Default::default() }];
        let mut client = self.bench.operator().await;
        let applied = client.apply_workload(request).await.unwrap().into_inner();
        assert!(applied.success, "{}", applied.error_message);
    }
}

async fn run(folder: TempDir, double: &Double) -> Bench {
    let auth = Auth::AppRole { role_id: ROLE_ID.to_owned(), secret_id: Secret::new(SECRET_ID) };
    let (refresh, retry) = (Duration::from_millis(200), Duration::from_millis(200));
    let vault = Some(VaultSettings { address: double.url(), auth, refresh, retry });
    let told = config(folder.path(), Security::Insecure(Exposure::Loopback));
    let running = app::start(app::Config { vault, ..told }).await.unwrap();
    leads(&running).await;
    Bench::of(folder, running)
}

fn at(path: &str, field: &str) -> api::VaultSource {
    api::VaultSource {
        mount: "secret".to_owned(),
        path: path.to_owned(),
        field: field.to_owned(),
        ..Default::default()
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_value_of_vault_reaches_the_agent_and_follows_vault() {
    let mut site = Site::start().await;
    site.double.put("secret/data/team-a/db", json!({"password": "first"}));
    let set = site.set("team-a", at("team-a/db", "password")).await.unwrap();
    let view = set.secret.unwrap();
    assert!(view.readable && view.fetched_at.is_some(), "{view:?}");
    site.apply("web").await;
    assert_eq!(site.got("web", Result::is_ok).await.unwrap(), b"first");

    // A new value is a new version; what runs is left alone, what starts next gets it.
    site.double.put("secret/data/team-a/db", json!({"password": "rotated-9"}));
    let view = site.until("version 2", |view| view.version == 2).await;
    assert_eq!(view.vault.unwrap().on_change, "leave");
    site.apply("next").await;
    assert_eq!(site.got("next", Result::is_ok).await.unwrap(), b"rotated-9");

    // Vault goes: the last value is given, and says that nobody confirms it.
    site.double.with(|held| held.sealed = true);
    let view = site.until("sealed", |view| view.problem.contains("sealed")).await;
    assert!(view.readable && view.confirmed_at.is_some(), "{view:?}");
    site.apply("later").await;
    assert_eq!(site.got("later", Result::is_ok).await.unwrap(), b"rotated-9");
    let page = site.bench.page("/metrics").await;
    assert!(
        page.contains("persys_scheduler_vault_secret_reads_total{result=\"sealed\"}"),
        "{page}"
    );
    assert!(page.contains("persys_scheduler_vault_secret_oldest_age_seconds"), "{page}");
    site.double.with(|held| held.sealed = false);
    site.until("well again", |view| view.problem.is_empty()).await;
    // Nothing in what is stored or shown holds a value.
    assert!(!format!("{:?}", site.view().await).contains("rotated-9"));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_value_the_reason_reaches_the_agent_and_the_value_once_it_is_there() {
    let mut site = Site::start().await;
    let set = site.set("team-a", at("team-a/db", "password")).await.unwrap();
    assert!(set.note.contains("nothing at secret/data/team-a/db"), "{}", set.note);
    let view = set.secret.unwrap();
    assert!(!view.readable && view.fetched_at.is_none(), "{view:?}");
    site.apply("web").await;
    let why = site.got("web", Result::is_err).await.unwrap_err();
    assert!(why.contains("the secret db has no value") && why.contains("nothing at"), "{why}");
    // Each fault in turn, as its own reason.
    site.double.put("secret/data/team-a/db", json!({"user": "x"}));
    site.until("field", |view| view.problem.contains("no field password")).await;
    site.double.with(|held| held.forbidden.insert("secret/data/team-a/db".to_owned()));
    site.until("forbidden", |view| view.problem.contains("permission denied")).await;
    site.double.with(|held| held.sealed = true);
    site.until("sealed", |view| view.problem.contains("is sealed")).await;
    site.double.with(|held| {
        held.sealed = false;
        held.forbidden.clear();
        held.values.insert("secret/data/team-a/db".to_owned(), json!({"password": "v"}));
    });
    let view = site.until("a value", |view| view.readable).await;
    assert_eq!((view.problem.as_str(), view.version), ("", 2));
    site.apply("next").await;
    assert_eq!(site.got("next", Result::is_ok).await.unwrap(), b"v");
}

/// The scheduler's login reads more than a tenant may.
#[tokio::test(flavor = "multi_thread")]
async fn a_namespace_reads_only_what_it_was_allowed() {
    let mut site = Site::start().await;
    for path in [
        "secret/data/team-a/db",
        "secret/data/team-b/db",
        "secret/data/team-ab/db",
        "kv/data/team-a/db",
    ] {
        site.double.put(path, json!({"password": "x"}));
    }
    let v1 = |mount: &str, path: &str| api::VaultSource {
        mount: mount.to_owned(),
        kv_version: 1,
        ..at(path, "password")
    };
    for (namespace, source) in [
        ("team-a", at("team-b/db", "password")),
        ("team-a", at("team-ab/db", "password")),
        ("team-a", v1("secret", "metadata/team-a/db")),
        // Version 2 said of the engine of version 1 would be another path there.
        ("team-a", api::VaultSource { mount: "kv".to_owned(), ..at("team-a/db", "password") }),
        ("team-a", v1("sys", "mounts")),
        ("default", at("team-a/db", "password")),
    ] {
        let refused = site.set(namespace, source.clone()).await.unwrap_err();
        assert_eq!(refused.code(), Code::PermissionDenied, "{source:?}: {refused}");
        assert!(refused.message().contains("--allow-vault-path"), "{refused}");
    }
    for bad in [at("../team-b/db", "password"), at("team-a/db?x", "password"), at("team-a/db", "")]
    {
        let refused = site.set("team-a", bad).await.unwrap_err();
        assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    }
    assert_eq!(site.double.with(|held| held.reads), 0, "nothing was asked of Vault for them");

    // What was allowed and is not any more is not given out, whatever was read before.
    site.set("team-a", at("team-a/db", "password")).await.unwrap();
    let namespace = api::AccessNamespace { name: "team-a".to_owned(), ..Default::default() };
    let request = api::PutNamespaceRequest {
        namespace: Some(namespace),
        only_new: false,
        ..Default::default()
    };
    let channel = site.bench.channel(Role::Operator, "alice").await;
    AccessClient::new(channel).put_namespace(request).await.unwrap();
    site.until("denied", |view| !view.readable && view.problem.contains("may not read")).await;
    site.apply("web").await;
    let why = site.got("web", Result::is_err).await.unwrap_err();
    assert!(why.contains("may not read secret/data/team-a/db"), "{why}");
}

/// The next process, on the same files, gives what was read before although Vault is away.
#[tokio::test(flavor = "multi_thread")]
async fn what_was_read_outlives_the_scheduler_and_vault() {
    let mut site = Site::start().await;
    site.double.put("kv/team-a/db", json!({"password": "kept"}));
    let source =
        api::VaultSource { mount: "kv".to_owned(), kv_version: 1, ..at("team-a/db", "password") };
    site.set("team-a", source).await.unwrap();
    site.double.with(|held| held.sealed = true);
    let Bench { folder, running, .. } = site.bench;
    running.stop().await;
    site.bench = run(folder, &site.double).await;
    site.secrets = SecretsClient::new(site.bench.channel(Role::Operator, "alice").await);
    site.agent = FakeAgent::start(None).await;
    let mut as_agent = site.bench.client(Role::Agent, "n1").await;
    as_agent.register_node(node("n1", site.agent.address)).await.unwrap();
    site.until("sealed", |view| view.problem.contains("sealed")).await;
    site.apply("web").await;
    assert_eq!(site.got("web", Result::is_ok).await.unwrap(), b"kept");
}

impl Site {
    /// The orders that the agent got for a workload: revision, whether to run, and the value.
    fn orders(&self, id: &str) -> Vec<(String, bool, Vec<u8>)> {
        let commands = self.agent.notes.commands.lock().unwrap();
        let orders = commands.iter().filter(|command| command.workload.as_str() == id);
        let order = |command: &Command| match &command.order {
            Order::Apply(apply) => {
                let value = apply.secrets.get(&SecretName::fixed("db"))?.as_ref().ok()?;
                Some((apply.revision.to_string(), apply.run, value.value.reveal().to_vec()))
            }
            Order::Remove { .. } => None,
        };
        let mut all: Vec<_> = orders.filter_map(order).collect();
        // An order is sent again until the agent reports on it.
        all.dedup();
        all
    }

    /// Messages of events about new values.
    async fn told(&self, id: &str) -> Vec<String> {
        let mut client = self.bench.operator().await;
        let request = wire::ListEventsRequest { workload_id: id.to_owned(), ..Default::default() };
        let events = client.list_events(request).await.unwrap().into_inner().events;
        let changed = events.into_iter().filter(|event| event.r#type == "SecretChanged");
        changed.map(|event| event.reason).collect()
    }

    async fn rotate(&mut self, value: &str) {
        let version = self.view().await.version;
        self.double.put("secret/data/team-a/db", json!({ "password": value }));
        self.until("rotated", |view| view.version > version).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_brings_what_is_signalled_the_new_value_under_the_same_revision() {
    let mut site = Site::start().await;
    site.double.put("secret/data/team-a/db", json!({"password": "first"}));
    // The spec of a workload says more than the secret: only others are restarted.
    let source =
        api::VaultSource { on_change: "restart".to_owned(), ..at("team-a/db", "password") };
    site.set("team-a", source).await.unwrap();
    site.apply_signalled("web", "SIGHUP").await;
    site.got("web", |value| value == &Ok(b"first".to_vec())).await.unwrap();
    site.rotate("second").await;
    site.got("web", |value| value == &Ok(b"second".to_vec())).await.unwrap();
    let [(first, true, a), (second, true, b)] = &*site.orders("web") else {
        panic!("{:?}", site.orders("web"))
    };
    assert_eq!((first, a.as_slice(), b.as_slice()), (second, &b"first"[..], &b"second"[..]));
    assert_eq!(
        site.told("web").await,
        ["its files get the new value, and it is sent SIGHUP for db"]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_rotation_restarts_what_an_older_agent_cannot_signal() {
    let mut site = Site::with_agent(false).await;
    site.double.put("secret/data/team-a/db", json!({"password": "first"}));
    site.set("team-a", at("team-a/db", "password")).await.unwrap();
    site.apply_signalled("web", "SIGHUP").await;
    site.apply("plain").await;
    site.got("web", |value| value == &Ok(b"first".to_vec())).await.unwrap();
    site.rotate("second").await;
    site.got("web", |value| value == &Ok(b"second".to_vec())).await.unwrap();
    let runs: Vec<_> = site.orders("web").into_iter().map(|(_, run, _)| run).collect();
    assert_eq!(runs[..2], [true, false], "it is stopped, and started when it rests");
    let told = site.told("web").await;
    assert!(told[0].contains("restarted") && told[0].contains("cannot signal"), "{told:?}");
    let plain = site.orders("plain");
    assert!(plain.iter().all(|(_, run, _)| *run), "nobody asked for that: {plain:?}");
}
