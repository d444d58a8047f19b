//! The service itself: what comes over the wire, and what goes back.

use std::net::{IpAddr, Ipv6Addr};
use std::sync::Arc;
use std::time::{Instant, SystemTime, UNIX_EPOCH};

use persys_identity::ConnectInfo;
use persys_identity::authority::{AuthorityError, Signed};
use persys_proto::compute::v1 as wire;
use persys_proto::compute::v1::enrol_server::Enrol;
use tonic::{Request, Response, Status};

use crate::limit::{MOST_REFUSALS, Refusals, WINDOW};
use crate::metrics::Metrics;
use crate::office::{Office, OfficeError};
use crate::register::RegisterError;

/// The enrolment service.
pub(crate) struct Service {
    pub(crate) office: Arc<Office>,
    pub(crate) refusals: Refusals,
    /// Where members find the schedulers.
    pub(crate) schedulers: Vec<String>,
    /// Where requests are counted.
    pub(crate) metrics: Arc<Metrics>,
}

type Answer<T> = Result<Response<T>, Status>;

#[tonic::async_trait]
impl Enrol for Service {
    async fn join(&self, request: Request<wire::JoinRequest>) -> Answer<wire::EnrolResponse> {
        let source = self.admit("join", &request)?;
        let wire::JoinRequest { token_id, token_secret, request_pem, name } = request.into_inner();
        let now = SystemTime::now();
        let token = (token_id.as_str(), token_secret.as_str());
        let joined = self.office.join(token, &request_pem, &name, now).await;
        if let Ok(signed) = &joined {
            let member = &signed.certificate.identity;
            tracing::info!(%member, %source, token = token_id, "joined");
        }
        self.metrics.answered("join", self.answer(joined, source))
    }

    async fn renew(&self, request: Request<wire::RenewRequest>) -> Answer<wire::EnrolResponse> {
        let source = self.admit("renew", &request)?;
        let wire::RenewRequest { certificate_pem, request_pem, proof } = request.into_inner();
        let now = SystemTime::now();
        let renewed = self.office.renew(&certificate_pem, &request_pem, &proof, now).await;
        self.metrics.answered("renew", self.answer(renewed, source))
    }

    async fn trust(&self, _request: Request<wire::TrustRequest>) -> Answer<wire::TrustResponse> {
        self.metrics.answered("trust", self.trusted().await)
    }
}

impl Service {
    async fn trusted(&self) -> Answer<wire::TrustResponse> {
        let authority = self.office.authority(SystemTime::now());
        let authority = authority.map_err(|fault| broken(&fault))?;
        let denied = self.office.register().denied().await.map_err(|fault| unavailable(&fault))?;
        let (roots_pem, denied) = (authority.roots_pem(), denied.lines());
        Ok(Response::new(wire::TrustResponse { roots_pem, denied }))
    }

    /// Where a request comes from, unless that source has been wrong too often.
    fn admit<T>(&self, method: &'static str, request: &Request<T>) -> Result<IpAddr, Status> {
        let info = request.extensions().get::<ConnectInfo>();
        let source = info.map_or(Ipv6Addr::UNSPECIFIED.into(), |info| info.remote.ip());
        let source = source.to_canonical();
        if self.refusals.exceeded(source, Instant::now()) {
            let refusal = Status::resource_exhausted(format!(
                "{MOST_REFUSALS} attempts of {source} were refused within {} s; wait",
                WINDOW.as_secs()
            ));
            return self.metrics.answered(method, Err(refusal));
        }
        Ok(source)
    }

    fn answer(
        &self,
        signed: Result<Signed, OfficeError>,
        source: IpAddr,
    ) -> Answer<wire::EnrolResponse> {
        match signed {
            Ok(signed) => Ok(Response::new(self.shown(signed))),
            Err(fault) => {
                let status = refusal(&fault);
                tracing::warn!(%source, %fault, "enrolment refused");
                if status.code() != tonic::Code::Unavailable {
                    self.refusals.count(source, Instant::now());
                }
                Err(status)
            }
        }
    }

    fn shown(&self, signed: Signed) -> wire::EnrolResponse {
        let Signed { certificate, certificate_pem, roots_pem } = signed;
        let ends = certificate.not_after.duration_since(UNIX_EPOCH).unwrap_or_default();
        let seconds = i64::try_from(ends.as_secs()).unwrap_or_default();
        wire::EnrolResponse {
            certificate_pem,
            roots_pem,
            role: certificate.identity.role.to_string(),
            name: certificate.identity.name.to_string(),
            cluster: certificate.identity.cluster.to_string(),
            not_after: Some(prost_types::Timestamp { seconds, nanos: 0 }),
            schedulers: self.schedulers.clone(),
        }
    }
}

fn refusal(fault: &OfficeError) -> Status {
    match fault {
        OfficeError::Authority(fault @ AuthorityError::Request(_)) => {
            Status::invalid_argument(fault.to_string())
        }
        OfficeError::Authority(fault) => broken(fault),
        OfficeError::File(_) => Status::internal("the authority cannot keep its list"),
        OfficeError::Name(_) => Status::invalid_argument(fault.to_string()),
        OfficeError::Register(fault @ RegisterError::Unavailable(_)) => unavailable(fault),
        OfficeError::Register(RegisterError::Refused(_))
        | OfficeError::Renewal(_)
        | OfficeError::Revoked(_) => Status::permission_denied(fault.to_string()),
    }
}

fn unavailable(fault: &RegisterError) -> Status {
    Status::unavailable(fault.to_string())
}

/// What is wrong with the authority's files is for its operator, not for strangers.
fn broken(fault: &AuthorityError) -> Status {
    tracing::error!(%fault, "the authority cannot be used");
    Status::unavailable("the authority cannot sign at present; its log says why")
}
