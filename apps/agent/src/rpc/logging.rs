//! `persys.compute.v1.Logging`: how much the log of this agent tells.

use persys_identity::Peer;
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::logging_server::{Logging, LoggingServer};
use persys_telemetry::log::{NotChanged, Override, Wanted};
use tonic::{Request, Response, Status};

use super::Guarded;

/// The service.
#[derive(Debug, Clone, Copy, Default)]
pub struct Service;

/// The service behind its guard; `alone` says that the agent has no schedulers.
#[must_use]
pub fn service(alone: bool) -> Guarded<LoggingServer<Service>> {
    Guarded::new(LoggingServer::new(Service), alone)
}

#[tonic::async_trait]
impl Logging for Service {
    async fn log_levels(
        &self,
        request: Request<api::LogLevelsRequest>,
    ) -> Result<Response<api::LogLevelsResponse>, Status> {
        let who = Peer::of(&request).map(|peer| format!("{} {}", peer.role, peer.name));
        let who = who.unwrap_or_default();
        let api::LogLevelsRequest { directives, seconds, reset, .. } = request.get_ref();
        let wanted = Wanted { directives, seconds: *seconds, reset: *reset, who: &who };
        let shown = wanted.carry_out().map_err(|why| match why {
            NotChanged::NotOurs => Status::failed_precondition(why.to_string()),
            NotChanged::Bad(_) | NotChanged::TooLong => Status::invalid_argument(why.to_string()),
        })?;
        let settings: Vec<_> = shown.settings.iter().map(ToString::to_string).collect();
        let change = |one: &Override| api::LogLevelChange {
            directive: one.directive.to_string(),
            seconds_left: one.left.as_secs(),
        };
        Ok(Response::new(api::LogLevelsResponse {
            settings: settings.join(","),
            changes: shown.overrides.iter().map(change).collect(),
        }))
    }
}
