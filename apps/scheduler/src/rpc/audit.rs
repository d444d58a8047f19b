//! `persys.compute.v1.Audit`: the chain of who did what, as it is in the store.

use std::sync::Arc;

use persys_model::audit::{AuditHead, AuditRecord, verify};
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::audit_server::Audit as Service;
use persys_proto::convert::time;
use persys_store::{Store, Trail};
use tonic::{Request, Response, Status};

use super::refusal::unavailable;

/// Most records in one answer, and how many where nothing is said.
const MOST: usize = 20_000;
const USUAL: usize = 1_000;

/// The service.
pub(crate) struct AuditService {
    store: Arc<dyn Store>,
}

impl AuditService {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    async fn trail(&self) -> Result<Trail, Status> {
        self.store.audit().await.map_err(|error| unavailable(error.to_string()))
    }
}

fn place(AuditHead { seq, hash }: AuditHead) -> api::AuditHead {
    api::AuditHead { seq, hash: hash.to_string() }
}

fn shown(record: &AuditRecord) -> api::AuditRecord {
    let role = record.who.split(' ').next().unwrap_or_default().to_owned();
    api::AuditRecord {
        seq: record.seq,
        at: Some(time::timestamp(record.at)),
        at_ms: i64::try_from(record.at.0).unwrap_or(i64::MAX),
        who: record.who.to_string(),
        role,
        source: record.source.to_string(),
        verb: record.verb.to_string(),
        object: record.object.to_string(),
        namespace: record.namespace.to_string(),
        request_id: record.request.to_string(),
        allowed: record.allowed,
        rule: record.rule.to_string(),
        before: record.before.to_string(),
        after: record.after.to_string(),
        why: record.why.to_string(),
        left_out: record.left_out,
        previous: record.previous.to_string(),
        hash: record.hash().to_string(),
    }
}

fn wanted(request: &api::ListAuditRequest, record: &AuditRecord) -> bool {
    let since = request
        .since
        .as_ref()
        .map_or(0, |at| u64::try_from(at.seconds).unwrap_or_default().saturating_mul(1000));
    let within = |text: &str, part: &str| part.is_empty() || text.contains(part);
    record.seq > request.after
        && record.at.0 >= since
        && within(&record.who, &request.who)
        && within(&record.object, &request.object)
        && !(request.denied && record.allowed)
}

#[tonic::async_trait]
impl Service for AuditService {
    async fn list_audit(
        &self,
        request: Request<api::ListAuditRequest>,
    ) -> Result<Response<api::ListAuditResponse>, Status> {
        let request = request.into_inner();
        let trail = self.trail().await?;
        let limit = usize::try_from(request.limit).unwrap_or(MOST);
        let limit = if limit == 0 { USUAL } else { limit.min(MOST) };
        let fitting = trail.records.iter().rev().filter(|record| wanted(&request, record));
        let mut records: Vec<_> = fitting.take(limit).map(|record| shown(record)).collect();
        records.reverse();
        Ok(Response::new(api::ListAuditResponse {
            records,
            head: Some(place(trail.head)),
            anchor: Some(place(trail.anchor)),
            unreadable: trail.unreadable,
        }))
    }

    async fn verify_audit(
        &self,
        _request: Request<api::VerifyAuditRequest>,
    ) -> Result<Response<api::VerifyAuditResponse>, Status> {
        let trail = self.trail().await?;
        let verdict = verify(trail.anchor, trail.records.iter().map(|one| &**one), trail.head);
        let (head, anchor) = (Some(place(trail.head)), Some(place(trail.anchor)));
        Ok(Response::new(match verdict {
            Ok(records) => api::VerifyAuditResponse {
                whole: true,
                records,
                head,
                anchor,
                ..api::VerifyAuditResponse::default()
            },
            Err(broken) => api::VerifyAuditResponse {
                whole: false,
                records: u64::try_from(trail.records.len()).unwrap_or(u64::MAX),
                broken_at: broken.seq,
                problem: broken.problem,
                head,
                anchor,
            },
        }))
    }
}
