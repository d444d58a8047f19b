//! One connection to a scheduler or an agent.

use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, SystemTime};

use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use persys_identity::{ConnectError, Connector, Credentials, Expected, Source};
use persys_proto::agent::v1::agent_service_client::AgentServiceClient;
use persys_proto::compute::v1::access_client::AccessClient;
use persys_proto::compute::v1::audit_client::AuditClient;
use persys_proto::compute::v1::check_client::CheckClient;
use persys_proto::compute::v1::compute_client::ComputeClient;
use persys_proto::compute::v1::history_client::HistoryClient;
use persys_proto::compute::v1::logging_client::LoggingClient;
use persys_proto::compute::v1::secrets_client::SecretsClient;
use persys_proto::compute::v1::tokens_client::TokensClient;
use persys_proto::control::v1::agent_control_client::AgentControlClient;
use tokio::time::timeout;
use tonic::metadata::{Ascii, MetadataMap, MetadataValue};
use tonic::service::Interceptor;
use tonic::service::interceptor::InterceptedService;
use tonic::transport::{Channel, Endpoint, Uri};
use tonic::{Request, Response, Status};
use tower_service::Service;

use super::refusal;
use super::settings::{Origin, Settings, Token, address};
use crate::problem::Problem;
use crate::world::World;

/// An answer older than this is remarked on.
const WORTH_TELLING_MS: u32 = 3_000;
/// Largest answer that is read: a list of ten thousand workloads.
const LARGEST: usize = 64 * 1024 * 1024;

/// What a header does not hold as it is, and what would be taken for a coded byte.
const CODED: &AsciiSet = &CONTROLS.add(b'%');

/// The way of every call: with the reason for it, if there is one.
pub(crate) type Way = InterceptedService<Channel, Because>;

/// Says with every call why it is made and in which trace, and shows the token of who makes it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Because {
    reason: Option<MetadataValue<Ascii>>,
    token: Option<MetadataValue<Ascii>>,
}

impl Because {
    fn new(reason: Option<&str>) -> Self {
        let coded = reason.map(|text| utf8_percent_encode(text, CODED).to_string());
        // What is coded is plain ASCII, which a header takes.
        Self { reason: coded.and_then(|text| text.parse().ok()), token: None }
    }

    fn with_token(self, token: Option<&Token>) -> Result<Self, Problem> {
        let Some(Token(text)) = token else { return Ok(self) };
        let value = format!("Bearer {}", text.trim()).parse::<MetadataValue<Ascii>>();
        // The fault would quote it.
        let mut value = value.ok().ok_or_else(|| Problem::usage("what was given is no token"))?;
        value.set_sensitive(true);
        Ok(Self { token: Some(value), ..self })
    }
}

impl Interceptor for Because {
    fn call(&mut self, mut request: Request<()>) -> Result<Request<()>, Status> {
        if let Some(token) = &self.token {
            request.metadata_mut().insert("authorization", token.clone());
        }
        if let Some(reason) = &self.reason {
            request.metadata_mut().insert(persys_proto::REASON_HEADER, reason.clone());
        }
        persys_telemetry::trace::attach(request)
    }
}

/// One connection, made when it is first used.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    channel: Way,
    /// Who answers and where, for a person.
    pub(crate) whom: String,
    longest: Duration,
    /// Where it is remarked that an answer is old.
    world: Option<World>,
}

impl Client {
    /// The way to the scheduler, whichever of those that are given answers.
    pub(crate) fn scheduler(settings: &Settings, world: &World) -> Result<Self, Problem> {
        let addresses = checked_addresses(settings)?;
        let client = Self::to_one_of(settings, &addresses, Expected::Scheduler, "scheduler")?;
        Ok(Self { world: Some(world.clone()), ..client })
    }

    /// The same, without remarks about old answers.
    #[must_use]
    pub(crate) fn silent(self) -> Self {
        Self { world: None, ..self }
    }

    /// The way to somebody at an address.
    pub(crate) fn to(
        settings: &Settings,
        address: &str,
        expected: Expected,
        word: &str,
    ) -> Result<Self, Problem> {
        Self::to_one_of(settings, &[address.to_owned()], expected, word)
    }

    fn to_one_of(
        settings: &Settings,
        addresses: &[String],
        expected: Expected,
        word: &str,
    ) -> Result<Self, Problem> {
        let connector = connector(settings, expected)?;
        let bad = |address: &str, why: String| {
            Problem::usage(format!("{address:?} is not an address")).why(why)
        };
        let mut ways = Vec::new();
        for address in addresses {
            let way = format!("http://{address}").parse::<Uri>();
            ways.push(way.map_err(|why| bad(address, why.to_string()))?);
        }
        let first = ways.first().cloned().ok_or_else(|| bad("", "none is given".to_owned()))?;
        let endpoint = Endpoint::from(first)
            .http2_keep_alive_interval(Duration::from_secs(20))
            .keep_alive_timeout(Duration::from_secs(10));
        let because = Because::new(settings.because.as_deref());
        let because = because.with_token(settings.token.as_ref())?;
        let whom = format!("the {word} at {}", addresses.join(" or "));
        let connector = InTurn { connector, ways };
        let channel = endpoint.connect_with_connector_lazy(connector);
        Ok(Self {
            channel: Way::new(channel, because),
            whom,
            longest: settings.rpc_timeout.value,
            world: None,
        })
    }

    pub(crate) fn control(&self) -> AgentControlClient<Way> {
        AgentControlClient::new(self.channel.clone()).max_decoding_message_size(LARGEST)
    }

    pub(crate) fn compute(&self) -> ComputeClient<Way> {
        ComputeClient::new(self.channel.clone()).max_decoding_message_size(LARGEST)
    }

    pub(crate) fn check(&self) -> CheckClient<Way> {
        CheckClient::new(self.channel.clone()).max_decoding_message_size(LARGEST)
    }

    pub(crate) fn history(&self) -> HistoryClient<Way> {
        HistoryClient::new(self.channel.clone()).max_decoding_message_size(LARGEST)
    }

    pub(crate) fn tokens(&self) -> TokensClient<Way> {
        TokensClient::new(self.channel.clone())
    }

    pub(crate) fn secrets(&self) -> SecretsClient<Way> {
        SecretsClient::new(self.channel.clone())
    }

    pub(crate) fn audit(&self) -> AuditClient<Way> {
        AuditClient::new(self.channel.clone()).max_decoding_message_size(LARGEST)
    }

    pub(crate) fn access(&self) -> AccessClient<Way> {
        AccessClient::new(self.channel.clone()).max_decoding_message_size(LARGEST)
    }

    pub(crate) fn logging(&self) -> LoggingClient<Way> {
        LoggingClient::new(self.channel.clone())
    }

    pub(crate) fn agent(&self) -> AgentServiceClient<Way> {
        AgentServiceClient::new(self.channel.clone()).max_decoding_message_size(LARGEST)
    }

    /// The answer to a question, within the time there is for one.
    pub(crate) async fn answer<T>(
        &self,
        question: impl Future<Output = Result<Response<T>, Status>>,
    ) -> Result<T, Status> {
        match timeout(self.longest, question).await {
            Ok(answered) => answered.map(|answer| {
                self.tell_age(&answer);
                answer.into_inner()
            }),
            Err(_) => Err(Status::deadline_exceeded(format!(
                "no answer within {}",
                humantime::format_duration(self.longest)
            ))),
        }
    }

    fn tell_age<T>(&self, answer: &Response<T>) {
        if let Some(world) = &self.world
            && let Some(remark) = age_of(answer.metadata())
        {
            world.note(&remark);
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

/// What is remarked about an answer that is a few seconds old.
fn age_of(metadata: &MetadataMap) -> Option<String> {
    let text = |name| metadata.get(name).and_then(|value| value.to_str().ok());
    let age: u32 = text("persys-copy-age-ms")?.parse().ok()?;
    let whose = match text("persys-role") {
        Some("leader") => "what the scheduler remembers while its store is away",
        Some(_) | None => "a follower's copy",
    };
    (age > WORTH_TELLING_MS).then(|| format!("from {whose}, {:.1} s old", f64::from(age) / 1000.0))
}

/// Dials one address after the other until somebody answers.
#[derive(Debug, Clone)]
struct InTurn {
    connector: Connector,
    ways: Vec<Uri>,
}

impl Service<Uri> for InTurn {
    type Response = <Connector as Service<Uri>>::Response;
    type Error = ConnectError;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, ConnectError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), ConnectError>> {
        self.connector.poll_ready(context)
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let Self { mut connector, ways } = self.clone();
        Box::pin(async move {
            let mut last = ConnectError::Address { uri };
            for way in ways {
                match connector.call(way).await {
                    Ok(connection) => return Ok(connection),
                    Err(fault) => last = fault,
                }
            }
            Err(last)
        })
    }
}

/// The scheduler's addresses, checked; several stand with commas between.
pub(crate) fn checked_addresses(settings: &Settings) -> Result<Vec<String>, Problem> {
    let given = settings.endpoint.value.split(',').map(str::trim);
    let read = given.map(address).collect::<Result<_, _>>();
    read.map_err(|why| {
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
    let names = settings.tls_names.as_ref().map(|found| found.value.clone());
    let source = source(settings)?.mapped(names);
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_goes_along_as_a_header_can_hold_it() {
        let sent = |reason: Option<&str>| {
            let request = Because::new(reason).call(Request::new(())).unwrap();
            let value = request.metadata().get(persys_proto::REASON_HEADER).cloned();
            value.map(|value| value.to_str().unwrap().to_owned())
        };
        assert_eq!(sent(Some("new disk")).as_deref(), Some("new disk"));
        assert_eq!(sent(Some("100 % \u{fc}ber")).as_deref(), Some("100 %25 %C3%BCber"));
        assert_eq!(sent(None), None);
    }

    #[test]
    fn an_old_answer_is_remarked_on_and_a_fresh_one_is_not() {
        let told = |age: &str, role: &str| {
            let mut metadata = MetadataMap::new();
            metadata.insert("persys-copy-age-ms", age.parse().unwrap());
            metadata.insert("persys-role", role.parse().unwrap());
            age_of(&metadata)
        };
        assert_eq!(told("1200", "follower"), None);
        let old = told("12345", "follower");
        assert_eq!(old.as_deref(), Some("from a follower's copy, 12.3 s old"));
        assert!(told("5000", "leader").unwrap().contains("its store is away"));
        assert_eq!(told("soon", "follower"), None);
        assert_eq!(age_of(&MetadataMap::new()), None);
    }
}
