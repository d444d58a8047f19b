//! What is known before an upgrade: asked of the schedulers, read from what was named.

use std::path::Path;
use std::time::{Duration, SystemTime};

use persys_identity::authority::Stage;
use persys_identity::{Authority, Expected};
use persys_proto::compute::v1 as compute;
use persys_proto::control::v1 as wire;
use persys_store::archive;
use semver::Version;

use crate::args::UpgradeCheck;
use crate::connect::{Client, checked_addresses};
use crate::problem::Problem;
use crate::shell::Shell;
use crate::stores::{self, Place, Way};

/// A scheduler at its address: how it stands, or why it does not say.
pub(super) type Told = (String, Result<compute::StandingResponse, String>);

/// A copy of the store, as this program reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Copy {
    pub(super) file: String,
    /// The cluster's identity, if its head can be read.
    pub(super) cluster: Option<String>,
    pub(super) taken: SystemTime,
    pub(super) records: usize,
    /// Records this program cannot read, each with the reason.
    pub(super) unreadable: Vec<String>,
}

/// What is known before an upgrade. Where something was not looked at, nobody named it.
#[derive(Debug, Clone)]
pub(super) struct Facts {
    /// The version that is to be installed: that of this program.
    pub(super) own: Version,
    pub(super) schedulers: Vec<Told>,
    pub(super) nodes: Result<Vec<wire::NodeView>, String>,
    pub(super) workloads: Result<Vec<wire::WorkloadView>, String>,
    pub(super) drifts: Result<Vec<compute::Drift>, String>,
    pub(super) secrets: Result<Vec<compute::SecretView>, String>,
    pub(super) copy: Option<Result<Copy, String>>,
    /// How old a copy may be.
    pub(super) fresh: Duration,
    /// How far a replacement of the root is.
    pub(super) stage: Option<Result<Stage, String>>,
    pub(super) alarms: Option<Result<Vec<String>, String>>,
}

/// Asks and reads everything.
pub(super) async fn gather(shell: &Shell, wanted: UpgradeCheck) -> Result<Facts, Problem> {
    let own = Version::parse(env!("CARGO_PKG_VERSION"))
        .map_err(|why| Problem::new("this program has no version").why(why.to_string()))?;
    let way = Way::new(wanted.options, shell.world.var("ETCD_PASSWORD"));
    way.check(&wanted.etcd.iter().collect::<Vec<_>>())?;
    let schedulers = ask_all(shell).await?;
    let leader = leader(shell, &schedulers)?;
    let (mut nodes, mut workloads) = (leader.control(), leader.control());
    let (mut drifts, mut secrets) = (leader.compute(), leader.secrets());
    let (nodes, workloads, drifts, secrets) = tokio::join!(
        leader.answer(nodes.list_nodes(wire::ListNodesRequest::default())),
        leader.answer(workloads.list_workloads(wire::ListWorkloadsRequest::default())),
        leader.answer(drifts.list_drifts(compute::ListDriftsRequest::default())),
        leader.answer(secrets.list_secrets(compute::ListSecretsRequest { namespace: "*".into() })),
    );
    let why = |status: tonic::Status| told(&leader.refused("", &status));
    let alarms = match &wanted.etcd {
        Some(Place::Etcd(endpoints)) => {
            Some(stores::alarms(endpoints, &way).await.map_err(|problem| told(&problem)))
        }
        Some(Place::Folder(_)) | None => None,
    };
    Ok(Facts {
        own,
        schedulers,
        nodes: nodes.map(|answer| answer.nodes).map_err(why),
        workloads: workloads.map(|answer| answer.workloads).map_err(why),
        drifts: drifts.map(|answer| answer.drifts).map_err(why),
        secrets: secrets.map(|answer| answer.secrets).map_err(why),
        copy: wanted.snapshot.as_deref().map(copy),
        fresh: wanted.fresh,
        stage: wanted.ca_dir.as_deref().map(stage),
        alarms,
    })
}

/// The reason alone: what it is about is said beside it.
fn told(problem: &Problem) -> String {
    problem.why.first().cloned().unwrap_or_else(|| problem.what.clone())
}

/// Asks every scheduler that is named how it stands, all at once.
async fn ask_all(shell: &Shell) -> Result<Vec<Told>, Problem> {
    let mut under_way = tokio::task::JoinSet::new();
    for (nth, address) in checked_addresses(&shell.settings)?.into_iter().enumerate() {
        let client = Client::to(&shell.settings, &address, Expected::Scheduler, "scheduler")?;
        under_way.spawn(async move {
            let request = compute::StandingRequest {};
            let standing = client.answer(client.compute().standing(request)).await;
            let standing = standing.map_err(|status| told(&client.refused("", &status)));
            (nth, (address, standing))
        });
    }
    let mut all = under_way.join_all().await;
    all.sort_by_key(|(nth, _)| *nth);
    Ok(all.into_iter().map(|(_, told)| told).collect())
}

/// The way to the one that leads: only it hears the versions of agents. Where none is known, to any.
fn leader(shell: &Shell, schedulers: &[Told]) -> Result<Client, Problem> {
    let answered = || schedulers.iter().filter_map(|(at, told)| Some((at, told.as_ref().ok()?)));
    let leads = answered().find(|(_, standing)| standing.role == "leader").map(|(at, _)| at);
    let named = answered().map(|(_, standing)| &standing.leader).find(|leader| !leader.is_empty());
    match leads.or(named) {
        Some(address) => Client::to(&shell.settings, address, Expected::Scheduler, "scheduler"),
        None => Ok(shell.client()?.silent()),
    }
}

fn copy(file: &Path) -> Result<Copy, String> {
    let archive = archive::open(file).map_err(|why| why.to_string())?;
    let contents = archive.contents();
    let unreadable = contents.loaded.quarantined.iter();
    let taken = SystemTime::UNIX_EPOCH
        .checked_add(Duration::from_millis(archive.header.taken.0))
        .unwrap_or(SystemTime::UNIX_EPOCH);
    Ok(Copy {
        file: file.display().to_string(),
        cluster: archive.header.cluster.as_deref().map(str::to_owned),
        taken,
        records: archive.pairs.len(),
        unreadable: unreadable.map(|bad| format!("{}: {}", bad.key, bad.why)).collect(),
    })
}

fn stage(folder: &Path) -> Result<Stage, String> {
    let authority = Authority::open(folder, SystemTime::now()).map_err(|why| why.to_string())?;
    Ok(authority.stage())
}
