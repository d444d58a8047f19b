//! `/v1/gateway/log-levels`: how much the log of this process tells, while it runs.
//!
//! A gateway has no records of who may do what. Whoever may ask the usual cluster the same of its
//! scheduler may ask it here, and that cluster is asked first, every time.

use axum::Json;
use axum::extract::{Extension, Request, State};
use axum::response::{IntoResponse as _, Response};
use persys_telemetry::log::{NotChanged, Override, Shown, Wanted};
use serde::Deserialize;
use serde_json::{Value, json};
use tonic::{Code, Status};

use crate::body;
use crate::caller::Caller;
use crate::clusters::Call;
use crate::gateway::Gateway;
use crate::problem::Problem;
use crate::serve::Origin;
use crate::who::Who;

/// Bytes of what is wanted.
const LONGEST: usize = 8 * 1024;
const LEVELS: &str = "/persys.compute.v1.Logging/LogLevels";

/// What somebody wants of the levels.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
struct Change {
    directives: String,
    seconds: u64,
    reset: bool,
}

/// `GET /v1/gateway/log-levels`.
pub(super) async fn show(
    State(gateway): State<Gateway>,
    Extension(origin): Extension<Origin>,
    Extension(who): Extension<Who>,
) -> Result<Response, Problem> {
    let caller = who.known()?;
    may(&gateway, caller, &origin).await?;
    carried_out(&Change::default(), caller)
}

/// `POST /v1/gateway/log-levels`.
pub(super) async fn change(
    State(gateway): State<Gateway>,
    Extension(origin): Extension<Origin>,
    Extension(who): Extension<Who>,
    request: Request,
) -> Result<Response, Problem> {
    let caller = who.known()?;
    let (parts, content) = request.into_parts();
    let within = gateway.limits.body_within;
    let bytes = body::read(&parts.headers, content, LONGEST, within).await?;
    let value = body::json(&parts.headers, &bytes)?;
    let value = value.ok_or_else(|| Problem::bad("the body does not say what is to change"))?;
    let change: Change =
        serde_json::from_value(value).map_err(|fault| Problem::bad(fault.to_string()))?;
    may(&gateway, caller, &origin).await?;
    carried_out(&change, caller)
}

/// Refuses whom the usual cluster would refuse; asking it changes nothing there.
async fn may(gateway: &Gateway, caller: &Caller, origin: &Origin) -> Result<(), Problem> {
    let call = Call::bare(LEVELS, caller, Some(origin.remote.ip()));
    match gateway.clusters.find(None)?.call(&call).await {
        Ok(_) => Ok(()),
        // It would have told them, had its log been one that it can look into.
        Err(why) if why.code() == Code::FailedPrecondition => Ok(()),
        Err(why) => Err(why.into()),
    }
}

fn carried_out(change: &Change, caller: &Caller) -> Result<Response, Problem> {
    let Change { directives, seconds, reset } = change;
    let who = &caller.shown();
    let wanted = Wanted { directives, seconds: *seconds, reset: *reset, who };
    let shown = wanted.carry_out().map_err(|why| match why {
        NotChanged::NotOurs => Status::failed_precondition(why.to_string()),
        NotChanged::Bad(_) | NotChanged::TooLong => Status::invalid_argument(why.to_string()),
    })?;
    Ok(Json(told(&shown)).into_response())
}

fn told(shown: &Shown) -> Value {
    let settings: Vec<_> = shown.settings.iter().map(ToString::to_string).collect();
    let change = |one: &Override| json!({"directive": one.directive.to_string(), "seconds_left": one.left.as_secs()});
    let changes: Vec<_> = shown.overrides.iter().map(change).collect();
    json!({"settings": settings.join(","), "changes": changes})
}
