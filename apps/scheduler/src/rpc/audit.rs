//! `persys.compute.v1.Audit`: the chain of who did what, as it is in the store.
//!
//! It is told in pages, from its end back to its beginning: what is written meanwhile comes after the
//! first page, and what is dropped by age was before the last one, so that the pages form a chain.

use std::sync::Arc;

use persys_model::audit::{AuditHead, AuditRecord, verify};
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::audit_server::Audit as Service;
use persys_proto::convert::time;
use persys_store::{Store, Stretch, Trail};
use tonic::{Request, Response, Status};

use super::refusal::unavailable;

/// Most records on one page, and how many where nothing is said.
const MOST: usize = 1_000;
/// Most text on one page. Records have a few hundred bytes; one whose author said much has more, and
/// clients do not take messages of any length.
const MOST_BYTES: usize = 1 << 20;
/// What a record has beside its texts, about.
const BARE_BYTES: usize = 256;
/// How many records are read at once: a page, and the one that tells whether there is another.
const READ: usize = MOST + 1;

/// The service.
pub(crate) struct AuditService {
    store: Arc<dyn Store>,
}

impl AuditService {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store }
    }

    async fn trail(&self, stretch: Stretch) -> Result<Trail, Status> {
        self.store.audit(stretch).await.map_err(|error| unavailable(error.to_string()))
    }

    /// The page of records that fit which ends before one of them.
    async fn page(
        &self,
        request: &api::ListAuditRequest,
        mut before: u64,
    ) -> Result<api::ListAuditResponse, Status> {
        let mut page = Page::new(request.limit);
        let mut told = api::ListAuditResponse::default();
        loop {
            let trail = self.trail(Stretch { before, most: READ }).await?;
            told.head.get_or_insert_with(|| place(trail.head));
            told.anchor = Some(place(trail.anchor));
            told.unreadable = told.unreadable.saturating_add(trail.unreadable);
            let mut fitting = trail.records.iter().rev().filter(|record| wanted(request, record));
            if !fitting.all(|record| page.add(record)) {
                break;
            }
            match trail.records.first() {
                // There are older ones, and they may be wanted.
                Some(oldest) if oldest.seq > wanted_from(request, trail.anchor) => {
                    before = oldest.seq;
                }
                Some(_) | None => break,
            }
        }
        page.records.reverse();
        if let (true, Some(oldest)) = (page.is_full, page.records.first()) {
            told.next_page_token = oldest.seq.to_string();
        }
        Ok(api::ListAuditResponse { records: page.records, ..told })
    }
}

/// What is on a page, the newest first.
struct Page {
    records: Vec<api::AuditRecord>,
    limit: usize,
    bytes: usize,
    /// Whether something did not fit any more.
    is_full: bool,
}

impl Page {
    fn new(limit: u32) -> Self {
        let limit = usize::try_from(limit).unwrap_or(MOST).min(MOST);
        let limit = if limit == 0 { MOST } else { limit };
        Self { records: Vec::new(), limit, bytes: 0, is_full: false }
    }

    /// Puts a record on it; says whether there was room. A page has room for one record at least.
    fn add(&mut self, record: &AuditRecord) -> bool {
        self.bytes = self.bytes.saturating_add(size(record));
        let too_long = self.bytes > MOST_BYTES && !self.records.is_empty();
        self.is_full = self.records.len() == self.limit || too_long;
        if !self.is_full {
            self.records.push(shown(record));
        }
        !self.is_full
    }
}

fn size(record: &AuditRecord) -> usize {
    let AuditRecord { who, source, verb, object, namespace, request, .. } = record;
    let AuditRecord { rule, before, after, why, .. } = record;
    let texts = [who, source, verb, object, namespace, request, rule, before, after, why];
    texts.iter().fold(BARE_BYTES, |sum, text| sum.saturating_add(text.len()))
}

/// The number of the oldest record that can be wanted.
fn wanted_from(request: &api::ListAuditRequest, anchor: AuditHead) -> u64 {
    request.after.max(anchor.seq).saturating_add(1)
}

/// Where a page ends.
fn end(token: &str) -> Result<u64, Status> {
    if token.is_empty() {
        return Ok(u64::MAX);
    }
    match token.parse() {
        Ok(before) => Ok(before),
        Err(_) => Err(Status::invalid_argument("page_token: is not one that an earlier page gave")),
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
        let before = end(&request.page_token)?;
        self.page(&request, before).await.map(Response::new)
    }

    async fn verify_audit(
        &self,
        _request: Request<api::VerifyAuditRequest>,
    ) -> Result<Response<api::VerifyAuditResponse>, Status> {
        let trail = self.trail(Stretch::ALL).await?;
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

#[cfg(test)]
mod tests {
    use persys_cluster::record::{Head, Unit, Write};
    use persys_model::time::WallMillis;
    use persys_model::token::{CommitSeq, Epoch, EventSeq};
    use persys_store::{Campaign, Embedded, Settings};
    use tempfile::TempDir;

    use super::*;

    /// As many as are kept.
    const ALL: u64 = 20_000;

    /// A store with a chain in which every third record is Bob's, and in which every record says why.
    async fn filled(count: u64, why: &str) -> (AuditService, TempDir) {
        let folder = tempfile::tempdir().unwrap();
        let store = Embedded::open(&folder.path().join("store"), Settings::default()).unwrap();
        let Campaign::Won(term) = store.campaign(&"a#1".into(), 60_000).await.unwrap() else {
            panic!("somebody leads");
        };
        let mut head = Head {
            cluster: "c1".into(),
            incarnation: 0,
            seq: CommitSeq(0),
            epoch: Epoch(0),
            event: EventSeq(0),
            audit: AuditHead::default(),
            rebuilding: false,
            mark_key: Arc::from(""),
        };
        let seqs: Vec<u64> = (1..=count).collect();
        for chunk in seqs.chunks(370) {
            let (after, mut writes) = (head.seq, Vec::new());
            for seq in chunk {
                let who = if seq % 3 == 0 { "operator bob" } else { "operator ann" };
                let record = AuditRecord {
                    seq: *seq,
                    at: WallMillis(*seq * 1000),
                    who: who.into(),
                    why: why.into(),
                    previous: head.audit.hash,
                    ..AuditRecord::default()
                };
                head.audit = record.head();
                writes.push(Write::PutAudit(Arc::new(record)));
            }
            head.seq = head.seq.next();
            let unit = Unit { head: head.clone(), writes };
            store.commit(term, after, vec![unit]).await.unwrap();
        }
        (AuditService::new(Arc::new(store)), folder)
    }

    /// All pages there are for a request, as they come.
    async fn pages(
        service: &AuditService,
        mut request: api::ListAuditRequest,
    ) -> Vec<api::ListAuditResponse> {
        let mut pages = Vec::new();
        loop {
            let page = service.list_audit(Request::new(request.clone())).await.unwrap();
            let page = page.into_inner();
            request.page_token.clone_from(&page.next_page_token);
            pages.push(page);
            if request.page_token.is_empty() {
                return pages;
            }
        }
    }

    fn numbers(pages: &[api::ListAuditResponse]) -> Vec<u64> {
        pages.iter().rev().flat_map(|page| page.records.iter().map(|one| one.seq)).collect()
    }

    #[tokio::test]
    async fn a_large_trail_comes_in_pages_and_none_is_missing() {
        let (service, _folder) = filled(ALL, "").await;
        let all = pages(&service, api::ListAuditRequest::default()).await;
        assert_eq!(all.len(), 20);
        assert!(all.iter().all(|page| page.records.len() == MOST));
        assert_eq!(numbers(&all), (1..=ALL).collect::<Vec<_>>());
        // More than a page is not to be had, and less is.
        let request = api::ListAuditRequest { limit: 20_000, ..Default::default() };
        let first = service.list_audit(Request::new(request)).await.unwrap().into_inner();
        assert_eq!((first.records.len(), &*first.next_page_token), (MOST, "19001"));
        let request = api::ListAuditRequest { limit: 2, ..Default::default() };
        let first = service.list_audit(Request::new(request)).await.unwrap().into_inner();
        assert_eq!(numbers(std::slice::from_ref(&first)), [ALL - 1, ALL]);
        assert_eq!(first.head.unwrap().seq, ALL);
        let verdict = service.verify_audit(Request::new(api::VerifyAuditRequest {})).await;
        assert!(verdict.unwrap().into_inner().whole);
    }

    #[tokio::test]
    async fn what_does_not_fit_is_left_out_before_pages_are_made() {
        let (service, _folder) = filled(3_500, "").await;
        let bob = api::ListAuditRequest { who: "bob".into(), limit: 400, ..Default::default() };
        let of_bob = pages(&service, bob).await;
        let sizes: Vec<_> = of_bob.iter().map(|page| page.records.len()).collect();
        assert_eq!(sizes, [400, 400, 366], "no page is empty, and only the last is short");
        assert_eq!(numbers(&of_bob), (1..=3_500).filter(|seq| seq % 3 == 0).collect::<Vec<_>>());
        let exact = api::ListAuditRequest { who: "bob".into(), limit: 583, ..Default::default() };
        assert_eq!(pages(&service, exact).await.len(), 2, "1166 of them are two pages");
        let after = api::ListAuditRequest { after: 3_490, limit: 4, ..Default::default() };
        assert_eq!(numbers(&pages(&service, after).await), (3_491..=3_500).collect::<Vec<_>>());
        let nobody = api::ListAuditRequest { who: "eve".into(), ..Default::default() };
        let nobody = pages(&service, nobody).await;
        assert!(nobody.len() == 1 && numbers(&nobody).is_empty());
        let odd = api::ListAuditRequest { page_token: "soon".into(), ..Default::default() };
        let refused = service.list_audit(Request::new(odd)).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::InvalidArgument);
    }

    #[tokio::test]
    async fn a_page_of_long_records_is_shorter() {
        let (service, _folder) = filled(30, &"x".repeat(100_000)).await;
        let all = pages(&service, api::ListAuditRequest::default()).await;
        assert!(all.iter().all(|page| (1..=10).contains(&page.records.len())));
        assert_eq!(numbers(&all), (1..=30).collect::<Vec<_>>());
    }
}
