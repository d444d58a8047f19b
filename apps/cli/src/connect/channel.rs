//! One connection to a scheduler or an agent.

use std::future::Future;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use persys_identity::{Connector, Credentials, Expected, Source};
use persys_proto::agent::v1::agent_service_client::AgentServiceClient;
use persys_proto::compute::v1::compute_client::ComputeClient;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use tokio::time::timeout;
use tonic::transport::{Channel, Endpoint};
use tonic::{Response, Status};

use super::refusal;
use super::settings::{Origin, Settings, address};
use crate::problem::Problem;

/// Largest answer that is read: a list of ten thousand workloads.
const LARGEST: usize = 64 * 1024 * 1024;

/// One connection, made when it is first used.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    channel: Channel,
    /// Who answers and where, for a person.
    pub(crate) whom: String,
    longest: Duration,
}

impl Client {
    /// The way to the scheduler.
    pub(crate) fn scheduler(settings: &Settings) -> Result<Self, Problem> {
        let address = checked_address(settings)?;
        Self::to(settings, &address, Expected::Scheduler, "scheduler")
    }

    /// The way to somebody at an address.
    pub(crate) fn to(
        settings: &Settings,
        address: &str,
        expected: Expected,
        word: &str,
    ) -> Result<Self, Problem> {
        let connector = connector(settings, expected)?;
        let endpoint = Endpoint::from_shared(format!("http://{address}")).map_err(|why| {
            Problem::usage(format!("{address:?} is not an address")).why(why.to_string())
        })?;
        let endpoint = endpoint
            .http2_keep_alive_interval(Duration::from_secs(20))
            .keep_alive_timeout(Duration::from_secs(10));
        Ok(Self {
            channel: endpoint.connect_with_connector_lazy(connector),
            whom: format!("the {word} at {address}"),
            longest: settings.rpc_timeout.value,
        })
    }

    pub(crate) fn control(&self) -> AgentControlClient<Channel> {
        AgentControlClient::new(self.channel.clone()).max_decoding_message_size(LARGEST)
    }

    pub(crate) fn compute(&self) -> ComputeClient<Channel> {
        ComputeClient::new(self.channel.clone()).max_decoding_message_size(LARGEST)
    }

    pub(crate) fn agent(&self) -> AgentServiceClient<Channel> {
        AgentServiceClient::new(self.channel.clone()).max_decoding_message_size(LARGEST)
    }

    /// The answer to a question, within the time there is for one.
    pub(crate) async fn answer<T>(
        &self,
        question: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Status> {
        match timeout(self.longest, question).await {
            Ok(answered) => answered.map(Response::into_inner),
            Err(_) => Err(Status::deadline_exceeded(format!(
                "no answer within {}",
                humantime::format_duration(self.longest)
            ))),
        }
    }

    /// The same, with a refusal as a person reads it.
    pub(crate) async fn ask<T>(
        &self,
        what: &str,
        question: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Problem> {
        self.answer(question).await.map_err(|status| self.refused(what, &status))
    }

    /// A refusal as a person reads it. `what` was to be done, such as "nodes cannot be listed".
    pub(crate) fn refused(&self, what: &str, status: &Status) -> Problem {
        refusal::explain(what, &self.whom, status)
    }
}

/// The scheduler's address, checked.
pub(crate) fn checked_address(settings: &Settings) -> Result<String, Problem> {
    address(&settings.endpoint.value).map_err(|why| {
        let from = format!("the endpoint comes from {}", settings.endpoint.origin);
        let problem = Problem::new(why).why(from);
        match settings.endpoint.origin {
            Origin::Flag(_) => problem.code(crate::problem::USAGE),
            Origin::Variable(_) | Origin::File(_) | Origin::Usual => problem,
        }
    })
}

fn connector(settings: &Settings, expected: Expected) -> Result<Connector, Problem> {
    if settings.insecure.value {
        return Ok(Connector::plain());
    }
    let source = source(settings)?;
    let bundle = source.load(SystemTime::now()).map_err(|why| {
        Problem::new("there is no certificate to show")
            .why(why.to_string())
            .next("persys config")
            .next("persys --identity FILE ...")
    })?;
    let credentials = Credentials::new(bundle);
    Connector::tls(&credentials, expected)
        .map_err(|why| Problem::new("no secure connection can be made").why(why.to_string()))
}

fn source(settings: &Settings) -> Result<Source, Problem> {
    if let Some(identity) = &settings.identity {
        return Ok(Source::Bundle(identity.value.clone()));
    }
    let path = |found: &Option<super::settings::From<PathBuf>>| {
        found.as_ref().map(|found| found.value.clone())
    };
    let (ca, cert, key) = (path(&settings.ca), path(&settings.cert), path(&settings.key));
    if let (Some(roots), Some(certificate), Some(key)) = (ca.clone(), cert.clone(), key.clone()) {
        return Ok(Source::Separate { certificate, key, roots });
    }
    let given = [("--ca", &ca), ("--cert", &cert), ("--key", &key)];
    let missing: Vec<_> =
        given.iter().filter(|(_, file)| file.is_none()).map(|(n, _)| *n).collect();
    let why = if missing.len() == given.len() {
        format!("nothing says which; looked in {}", settings.home.display())
    } else {
        format!("the three belong together, and there is no {}", missing.join(" and no "))
    };
    Err(Problem::new("there is no certificate to show")
        .why(why)
        .next("persys dev                    (starts a cluster here and sets this up)")
        .next("persys --identity FILE ...")
        .next("persys --insecure ...         (only where the scheduler runs without certificates)"))
}
