//! The other side: joining and renewing over the wire.

use std::error::Error as _;
use std::time::{Duration, SystemTime};

use async_trait::async_trait;
use persys_identity::credentials::BundleError;
use persys_identity::renew::{Answer, IssueError};
use persys_identity::{
    Bundle, Connector, Credentials, Denied, Expected, Issued, Issuer, NewKey, Token,
};
use persys_proto::compute::v1 as wire;
use persys_proto::compute::v1::enrol_client::EnrolClient;
use tonic::Status;
use tonic::transport::{Channel, Endpoint};

/// Longest wait for one answer.
const PATIENCE: Duration = Duration::from_secs(20);

/// Why a machine did not join. Nothing was changed on it.
#[derive(Debug, thiserror::Error)]
pub enum JoinError {
    /// Not an address.
    #[error("{0:?} is not an address: host:port is")]
    Address(String),
    /// Nobody there, or somebody else.
    #[error("{0}")]
    Unreachable(String),
    /// The authority said no.
    #[error("{0}")]
    Refused(String),
    /// No key can be made.
    #[error(transparent)]
    Key(#[from] persys_identity::authority::AuthorityError),
    /// What came back is of no use.
    #[error("what came back cannot be used: {0}")]
    Answer(#[from] BundleError),
    /// Connections cannot be made.
    #[error("no secure connections can be made: {0}")]
    Tls(String),
}

/// What a machine has after joining.
#[derive(Debug)]
pub struct Joined {
    /// Certificate, key and roots.
    pub issued: Issued,
    /// Where the schedulers are.
    pub schedulers: Vec<String>,
}

/// Joins: a key of our own, certified by the authority of the token.
pub async fn join(address: &str, token: &Token, name: &str) -> Result<Joined, JoinError> {
    let connector =
        Connector::pinned(token.pin).map_err(|fault| JoinError::Tls(fault.to_string()))?;
    let key = NewKey::generate()?;
    let request = wire::JoinRequest {
        token_id: token.id.clone(),
        token_secret: token.secret().to_owned(),
        request_pem: key.request_pem().to_owned(),
        name: name.to_owned(),
    };
    let channel = dial(address, connector).await?;
    let answer = EnrolClient::new(channel).join(request).await;
    let answer = answer.map_err(|status| JoinError::Refused(told(&status)))?.into_inner();
    let issued = key.with(answer.certificate_pem, answer.roots_pem, SystemTime::now())?;
    Ok(Joined { issued, schedulers: answer.schedulers })
}

async fn dial(address: &str, connector: Connector) -> Result<Channel, JoinError> {
    let bad = || JoinError::Address(address.to_owned());
    let endpoint = Endpoint::from_shared(format!("http://{address}")).ok().ok_or_else(bad)?;
    if endpoint.uri().port().is_none() {
        return Err(bad());
    }
    let dialled = endpoint.timeout(PATIENCE).connect_with_connector(connector).await;
    dialled.map_err(|fault| {
        let mut text = Vec::new();
        let mut next = fault.source();
        while let Some(cause) = next {
            text.push(cause.to_string());
            next = cause.source();
        }
        text.dedup();
        JoinError::Unreachable(text.join(": "))
    })
}

fn told(status: &Status) -> String {
    if status.message().is_empty() { status.to_string() } else { status.message().to_owned() }
}

/// The enrolment of a cluster we are a member of. Several addresses are asked in turn.
#[derive(Debug, Clone)]
pub struct Enrolment {
    addresses: Vec<String>,
}

impl Enrolment {
    /// At these addresses, `host:port`.
    pub fn at(addresses: Vec<String>) -> Self {
        Self { addresses }
    }

    /// Whom to trust, and whom no longer.
    pub async fn trust(&self, present: Bundle) -> Result<(String, Denied), IssueError> {
        let mut client = self.client(Credentials::new(present)).await?;
        let answer = client.trust(wire::TrustRequest {}).await.map_err(|why| failed(&why))?;
        let wire::TrustResponse { roots_pem, denied } = answer.into_inner();
        let denied = Denied::of_lines(&denied);
        Ok((roots_pem, denied.map_err(|why| IssueError::Refused(why.to_string()))?))
    }

    async fn client(&self, credentials: Credentials) -> Result<EnrolClient<Channel>, IssueError> {
        let connector = Connector::tls(&credentials, Expected::Scheduler)
            .map_err(|fault| IssueError::Refused(fault.to_string()))?;
        let mut last = "no address is known".to_owned();
        for address in &self.addresses {
            match dial(address, connector.clone()).await {
                Ok(channel) => return Ok(EnrolClient::new(channel)),
                Err(fault) => last = fault.to_string(),
            }
        }
        Err(IssueError::Unreachable(last))
    }
}

fn failed(status: &Status) -> IssueError {
    let refusals = [tonic::Code::PermissionDenied, tonic::Code::InvalidArgument];
    if refusals.contains(&status.code()) {
        IssueError::Refused(told(status))
    } else {
        IssueError::Unreachable(told(status))
    }
}

#[async_trait]
impl Issuer for Enrolment {
    async fn issue(
        &self,
        present: Option<&Bundle>,
        request_pem: &str,
    ) -> Result<Answer, IssueError> {
        let none =
            || IssueError::Refused("there is no certificate to renew; join first".to_owned());
        let present = present.ok_or_else(none)?;
        let proof = present.prove(request_pem);
        let proof = proof.ok_or_else(|| IssueError::Refused("the key cannot sign".to_owned()))?;
        let request = wire::RenewRequest {
            certificate_pem: present.certificate_pem(),
            request_pem: request_pem.to_owned(),
            proof,
        };
        let mut client = self.client(Credentials::new(present.clone())).await?;
        let answer = client.renew(request).await.map_err(|status| failed(&status))?.into_inner();
        Ok(Answer { certificate: answer.certificate_pem, roots: answer.roots_pem, key: None })
    }

    async fn roots(&self, present: &Bundle) -> Result<Option<String>, IssueError> {
        self.trust(present.clone()).await.map(|(roots, _)| Some(roots))
    }
}
