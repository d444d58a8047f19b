//! `persys.compute.v1.Logging`: how much the log tells, here or on a node.

use std::sync::Arc;
use std::time::Duration;

use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::logging_client::LoggingClient;
use persys_proto::compute::v1::logging_server::Logging;
use persys_telemetry::log::{NotChanged, Wanted};
use tokio::time::timeout;
use tonic::{Request, Response, Status};

use super::refusal::{node_id, unavailable};
use crate::author;
use crate::handle::Handle;
use crate::links::Target;
use crate::links::grpc::GrpcLinks;

/// How long an agent may take.
const PATIENCE: Duration = Duration::from_secs(5);

/// The service.
#[derive(Debug)]
pub(crate) struct LoggingService {
    pub(crate) handle: Handle,
    pub(crate) links: Arc<GrpcLinks>,
}

#[tonic::async_trait]
impl Logging for LoggingService {
    async fn log_levels(
        &self,
        request: Request<api::LogLevelsRequest>,
    ) -> Result<Response<api::LogLevelsResponse>, Status> {
        let request = request.into_inner();
        if !request.node_id.is_empty() {
            return self.pass_on(request).await;
        }
        let author = author::current().author;
        let api::LogLevelsRequest { directives, seconds, reset, .. } = &request;
        let wanted = Wanted { directives, seconds: *seconds, reset: *reset, who: &author.who };
        let shown = wanted.carry_out().map_err(|why| match why {
            NotChanged::NotOurs => Status::failed_precondition(why.to_string()),
            NotChanged::Bad(_) | NotChanged::TooLong => Status::invalid_argument(why.to_string()),
        })?;
        let settings: Vec<_> = shown.settings.iter().map(ToString::to_string).collect();
        let change = |one: &persys_telemetry::log::Override| api::LogLevelChange {
            directive: one.directive.to_string(),
            seconds_left: one.left.as_secs(),
        };
        Ok(Response::new(api::LogLevelsResponse {
            settings: settings.join(","),
            changes: shown.overrides.iter().map(change).collect(),
        }))
    }
}

impl LoggingService {
    /// Asks the agent of a node.
    async fn pass_on(
        &self,
        request: api::LogLevelsRequest,
    ) -> Result<Response<api::LogLevelsResponse>, Status> {
        let node = node_id(&request.node_id)?;
        let wanted = node.clone();
        let target = self.handle.look(move |world| {
            let facts = &world.node(&wanted)?.node.facts;
            let (endpoint, host) = (Arc::clone(&facts.endpoint), Arc::clone(&facts.host));
            Some(Target { node: wanted, endpoint, host, context: None })
        });
        let target = target.await?.value;
        let target = target.ok_or_else(|| Status::not_found(format!("there is no node {node}")))?;
        let channel = self.links.channel(&target);
        let channel = channel.map_err(|why| unavailable(format!("{node}: {why}")))?;
        let request = api::LogLevelsRequest { node_id: String::new(), ..request };
        let mut client = LoggingClient::new(channel);
        match timeout(PATIENCE, client.log_levels(request)).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(why)) => Err(Status::new(why.code(), format!("{node}: {}", why.message()))),
            Err(_) => Err(unavailable(format!("{node} does not answer"))),
        }
    }
}
