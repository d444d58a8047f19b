//! Webhooks: pushes that others tell us of, and events that others are told of.
//!
//! ```text
//!   push ──► size ──► signature over the raw bytes ──► seen before? ──► kept ──► 202
//!                                                                        │
//!                                              Sources.Refresh ◄── work ─┘   until it is done
//!   event ──► who wants it ──► signed ──► sent, in order, until it is taken
//! ```
//!
//! Who cannot prove themselves costs a bounded body and one hash. Of a payload only the repository
//! and the reference are believed; what is fetched is what the workloads' own specs say.

mod ledger;
mod out;
mod push;
mod signature;
mod work;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use aws_lc_rs::digest::{SHA256, digest};
use axum::extract::{Request, State};
use axum::http::StatusCode;
use axum::response::{IntoResponse as _, Response};
use axum::routing::post;
use axum::{Json, Router};
use persys_identity::Name;
use serde_json::json;
use tokio::sync::{Semaphore, mpsc};

pub use self::ledger::LedgerError;
use self::ledger::{Ledger, Taken};
pub use self::out::{Listener, parse as parse_listeners};
pub use self::push::Push;
pub use self::signature::Provider;
use crate::body;
use crate::caller::{Caller, Secret};
use crate::gateway::Gateway;
use crate::problem::Problem;
use persys_model::hex::hex;

/// Bytes of a payload.
const LARGEST: usize = 5 * 1024 * 1024;
/// Payloads that are read at a time.
const AT_A_TIME: usize = 16;
/// Pushes on their way to be dealt with; those beyond are found in the ledger.
const BUFFER: usize = 64;

/// What webhooks are told.
#[derive(Debug, Clone)]
pub struct Settings {
    /// Where is kept what must survive a restart.
    pub folder: PathBuf,
    /// What senders prove themselves with. Who has none here is refused.
    pub secrets: BTreeMap<Provider, Vec<Secret>>,
    /// In whose name workloads are applied again, and events are followed.
    pub user: Name,
    /// How long deliveries are remembered.
    pub window: Duration,
    /// Who is told of events.
    pub listeners: Vec<Listener>,
}

/// Webhooks that are taken.
#[derive(Debug)]
pub struct Webhooks {
    settings: Settings,
    ledger: Arc<Ledger>,
    room: Semaphore,
    work: mpsc::Sender<(u64, Push)>,
}

/// What has to run beside.
#[derive(Debug)]
pub struct Beside {
    ledger: Arc<Ledger>,
    settings: Settings,
    work: mpsc::Receiver<(u64, Push)>,
}

impl Webhooks {
    /// Opens what is kept.
    pub fn open(settings: Settings) -> Result<(Self, Beside), LedgerError> {
        let path = settings.folder.join("webhooks.redb");
        let ledger = Arc::new(Ledger::open(&path)?);
        let (work_to, work) = mpsc::channel(BUFFER);
        let beside = Beside { ledger: Arc::clone(&ledger), settings: settings.clone(), work };
        let room = Semaphore::new(AT_A_TIME);
        Ok((Self { settings, ledger, room, work: work_to }, beside))
    }
}

impl Beside {
    /// Deals with pushes and tells of events; ends when dropped.
    pub async fn run(self, gateway: Gateway) {
        let Self { ledger, settings, work } = self;
        let caller = Settings::caller(&settings, gateway.is_open);
        let telling = out::run(&gateway, &settings.listeners, &caller, &ledger);
        tokio::join!(work::run(&gateway, &caller, &ledger, work), telling);
    }
}

impl Settings {
    fn caller(&self, is_open: bool) -> Caller {
        if is_open {
            return Caller::anonymous();
        }
        Caller::certified(persys_identity::Role::User, self.user.clone(), None)
    }
}

/// The routes.
pub(crate) fn router() -> Router<Gateway> {
    let of = |provider| {
        post(move |State(gateway): State<Gateway>, request: Request| async move {
            receive(&gateway, provider, request).await
        })
    };
    Router::new()
        .route("/webhooks/github", of(Provider::Github))
        .route("/webhooks/gitlab", of(Provider::Gitlab))
        .route("/webhooks/gitea", of(Provider::Gitea))
}

async fn receive(gateway: &Gateway, provider: Provider, request: Request) -> Response {
    match taken(gateway, provider, request).await {
        Ok((outcome, response)) => {
            gateway.metrics.webhook("in", outcome);
            response
        }
        Err(problem) => {
            gateway.metrics.webhook("in", "refused");
            problem.into_response()
        }
    }
}

async fn taken(
    gateway: &Gateway,
    provider: Provider,
    request: Request,
) -> Result<(&'static str, Response), Problem> {
    let secrets = gateway.webhooks.as_ref().and_then(|hooks| hooks.settings.secrets.get(&provider));
    let (Some(hooks), Some(secrets)) = (&gateway.webhooks, secrets.filter(|all| !all.is_empty()))
    else {
        let sentence =
            format!("there is no secret for {}, so nobody can prove anything", provider.word());
        let next = "give the gateway the secret that the sender signs with";
        return Err(Problem::new(StatusCode::FORBIDDEN, "no_secret", sentence, next));
    };
    let (parts, content) = request.into_parts();
    let Some(head) = signature::head(provider, &parts.headers) else {
        return Err(Problem::bad("the headers do not say event, delivery and signature"));
    };
    let Ok(_turn) = hooks.room.try_acquire() else {
        return Err(Problem::unavailable("too many payloads are being read; send it again"));
    };
    let bytes = body::read(&parts.headers, content, LARGEST, gateway.limits.body_within).await?;
    if !signature::is_proven(provider, &head, &bytes, secrets) {
        let next = "give sender and gateway the same secret";
        let sentence = "the signature does not fit the body";
        return Err(Problem::new(StatusCode::UNAUTHORIZED, "bad_signature", sentence, next));
    }
    // From here on it is known who sent it.
    let id = head.id;
    let told = |status: StatusCode, word: &'static str| {
        (word, (status, Json(json!({"status": word, "delivery_id": id}))).into_response())
    };
    if !push::is_push(head.event) {
        return Ok(told(StatusCode::OK, "ignored"));
    }
    let now = SystemTime::now();
    let window = hooks.settings.window;
    let push =
        push::read(provider, &bytes, now, window).map_err(|why| Problem::bad(why.to_string()))?;
    let word = provider.word();
    let body = hex(digest(&SHA256, &bytes).as_ref());
    let names = vec![format!("{word}/id/{id}"), format!("{word}/body/{body}")];
    let seconds = now.duration_since(UNIX_EPOCH).unwrap_or_default().as_secs();
    let (ledger, kept) = (Arc::clone(&hooks.ledger), push.clone());
    let taken = tokio::task::spawn_blocking(move || ledger.take(&names, &kept, seconds, window));
    match taken.await {
        Ok(Ok(Taken::New(nth))) => {
            // Where there is no room the worker finds it in the ledger.
            drop(hooks.work.try_send((nth, push)));
            Ok(told(StatusCode::ACCEPTED, "accepted"))
        }
        Ok(Ok(Taken::Again)) => {
            let next = "nothing is to be done";
            let sentence = "this delivery was there before";
            Err(Problem::new(StatusCode::CONFLICT, "replayed", sentence, next))
        }
        Ok(Ok(Taken::Full)) => {
            Err(Problem::unavailable("too many pushes wait; send it again later"))
        }
        Ok(Err(fault)) => Err(Problem::unavailable(fault.to_string())),
        Err(_) => Err(Problem::unavailable("keeping it broke off; send it again")),
    }
}
