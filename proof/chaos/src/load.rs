//! The load: users who create, update, stop, start, restart and delete, each workload one request at
//! a time, through whichever scheduler.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use persys_proto::compute::v1 as compute;
use persys_proto::compute::v1::compute_client::ComputeClient;
use persys_proto::control::v1 as api;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use tokio::task::JoinHandle;
use tokio::time::{sleep, timeout};
use tonic::transport::Channel;
use tonic::{Code, Status};

use crate::Fault;
use crate::history::{Ask, History, Outcome, Wanted};
use crate::names::Names;
use crate::rng::Rng;
use crate::wish::{self, Kind};

/// Longest time a user waits for an answer.
const PATIENCE: Duration = Duration::from_secs(6);
/// Between two requests.
const PAUSE: Duration = Duration::from_millis(180);
/// More possible states than this are too many to go on asking.
const MOST_STATES: usize = 12;

/// How many workloads of each kind there are at a time.
#[derive(Debug, Clone, Copy)]
pub struct Slots {
    /// Without a runtime.
    pub simulated: usize,
    /// Containers, and as many with a volume, and the same again exclusive.
    pub docker: usize,
}

#[derive(Debug)]
struct Slot {
    kind: Kind,
    nth: usize,
    life: u64,
    busy: bool,
}

impl Slot {
    fn id(&self) -> String {
        format!("{}{}-{}", self.kind.letter(), self.nth, self.life)
    }
}

/// What users and the rest of the run share.
#[derive(Debug)]
pub struct Shared {
    history: Mutex<History>,
    slots: Mutex<Vec<Slot>>,
    going: Mutex<bool>,
    channels: Vec<Channel>,
    folder: String,
}

/// Users at work. Dropping it ends them.
#[derive(Debug)]
pub struct Load {
    shared: Arc<Shared>,
    task: JoinHandle<()>,
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Load {
    /// Users who begin when they are told, at these addresses of schedulers.
    pub fn start(
        (names, doors, folder): (&Names, &[SocketAddr], &str),
        slots: Slots,
        history: History,
        rng: Rng,
    ) -> Result<Self, Fault> {
        let channels: Result<Vec<_>, _> =
            doors.iter().map(|at| names.to_scheduler(*at, PATIENCE)).collect();
        let of = |kind, count: usize| {
            (0..count).map(move |nth| Slot { kind, nth, life: 1, busy: false })
        };
        let all = of(Kind::Simulated, slots.simulated).chain(
            Kind::ALL
                .into_iter()
                .filter(|kind| *kind != Kind::Simulated)
                .flat_map(|kind| of(kind, slots.docker)),
        );
        let shared = Arc::new(Shared {
            history: Mutex::new(history),
            slots: Mutex::new(all.collect()),
            going: Mutex::new(false),
            channels: channels?,
            folder: folder.to_owned(),
        });
        let task = tokio::spawn(go(Arc::clone(&shared), rng));
        Ok(Self { shared, task })
    }

    /// Lets users ask from now on.
    pub fn go(&self) {
        *lock(&self.shared.going) = true;
    }

    /// Has users ask nothing, and waits until all requests have ended.
    pub async fn rest(&self) {
        *lock(&self.shared.going) = false;
        while lock(&self.shared.slots).iter().any(|slot| slot.busy) {
            sleep(Duration::from_millis(50)).await;
        }
    }

    /// The history so far.
    pub fn history(&self) -> MutexGuard<'_, History> {
        lock(&self.shared.history)
    }

    /// Asks for every workload once, so that the cluster has something to do.
    pub async fn fill(&self) -> Result<(), Fault> {
        let all: Vec<_> =
            lock(&self.shared.slots).iter().map(|slot| (slot.id(), slot.kind)).collect();
        for (nth, (id, _)) in all.into_iter().enumerate() {
            ask(&self.shared, nth, &id, &Ask::Apply("r1".to_owned())).await?;
        }
        Ok(())
    }

    /// Asks until every workload is deleted.
    pub async fn delete_all(&self, ids: &BTreeSet<String>) -> Result<(), Fault> {
        for (nth, id) in ids.iter().enumerate() {
            ask(&self.shared, nth, id, &Ask::Delete).await?;
        }
        Ok(())
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn go(shared: Arc<Shared>, mut rng: Rng) {
    let mut revision = 1_u64;
    loop {
        sleep(PAUSE).await;
        if !*lock(&shared.going) {
            continue;
        }
        revision += 1;
        let Some((slot, id, ask_for)) = choose(&shared, &mut rng, revision) else { continue };
        let (shared, through) = (Arc::clone(&shared), usize::try_from(rng.below(64)).unwrap_or(0));
        tokio::spawn(async move {
            // A log that cannot be written is missed at the next round.
            ask(&shared, through, &id, &ask_for).await.ok();
            if let Some(slot) = lock(&shared.slots).get_mut(slot) {
                slot.busy = false;
            }
        });
    }
}

/// What is asked next, for which slot.
fn choose(shared: &Shared, rng: &mut Rng, revision: u64) -> Option<(usize, String, Ask)> {
    let mut slots = lock(&shared.slots);
    let free: Vec<_> =
        slots.iter().enumerate().filter(|(_, slot)| !slot.busy).map(|(nth, _)| nth).collect();
    let nth = *rng.pick(&free)?;
    let slot = slots.get_mut(nth)?;
    let allowed = lock(&shared.history).model.allowed(&slot.id());
    if allowed.len() > MOST_STATES {
        return None;
    }
    let apply = Ask::Apply(format!("r{revision}"));
    let gone = allowed.iter().all(|wanted| *wanted == Wanted::Absent);
    let ask = match rng.below(100) {
        _ if gone => apply,
        0..35 => apply,
        35..50 => Ask::Stop,
        50..72 => Ask::Start,
        72..85 => Ask::Restart,
        _ => Ask::Delete,
    };
    slot.busy = true;
    let id = slot.id();
    // A name is not used again: what comes late for it must not meet the next workload.
    slot.life += u64::from(ask == Ask::Delete);
    Some((nth, id, ask))
}

/// Sends one request, and writes it down before and after.
async fn ask(shared: &Shared, through: usize, id: &str, ask: &Ask) -> Result<(), Fault> {
    let number = lock(&shared.history).begins(id, ask)?;
    let channel = shared.channels.get(through % shared.channels.len().max(1)).ok_or("no way")?;
    let sent = timeout(PATIENCE, send(channel.clone(), &shared.folder, id, ask)).await;
    let (outcome, said) = match sent {
        Err(_) => (Outcome::Unknown, "no answer".to_owned()),
        Ok(Ok((true, said))) => (Outcome::Ok, said),
        Ok(Ok((false, said))) => (Outcome::Fail, said),
        Ok(Err(status)) => (judge(&status), format!("{:?}: {}", status.code(), status.message())),
    };
    lock(&shared.history).ends(number, (id, ask), outcome, &said)
}

async fn send(
    channel: Channel,
    folder: &str,
    id: &str,
    ask: &Ask,
) -> Result<(bool, String), Status> {
    let mut client = AgentControlClient::new(channel.clone());
    let to_be = |desired: &str| api::ApplyWorkloadRequest {
        workload_id: id.to_owned(),
        desired_state: desired.to_owned(),
        ..api::ApplyWorkloadRequest::default()
    };
    let request = match ask {
        Ask::Apply(revision) => {
            wish::request(id, Kind::of(id).unwrap_or(Kind::Simulated), revision, folder)
        }
        Ask::Stop => to_be("Stopped"),
        Ask::Start => to_be("Running"),
        Ask::Restart => {
            let request = compute::RestartRequest { workload_id: id.to_owned() };
            ComputeClient::new(channel).restart(request).await?;
            return Ok((true, String::new()));
        }
        Ask::Delete => {
            let request = api::DeleteWorkloadRequest { workload_id: id.to_owned(), volumes: true };
            let answer = client.delete_workload(request).await?.into_inner();
            return Ok((answer.success, answer.error_message));
        }
    };
    let answer = client.apply_workload(request).await?.into_inner();
    Ok((answer.success, answer.error_message))
}

/// What an error says about whether the request is carried out.
fn judge(status: &Status) -> Outcome {
    match status.code() {
        Code::InvalidArgument
        | Code::NotFound
        | Code::AlreadyExists
        | Code::FailedPrecondition
        | Code::PermissionDenied
        | Code::Unauthenticated
        | Code::ResourceExhausted
        | Code::OutOfRange
        | Code::Unimplemented => Outcome::Fail,
        Code::Ok
        | Code::Cancelled
        | Code::Unknown
        | Code::DeadlineExceeded
        | Code::Aborted
        | Code::Internal
        | Code::Unavailable
        | Code::DataLoss => Outcome::Unknown,
    }
}
