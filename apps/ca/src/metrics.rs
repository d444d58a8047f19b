//! The numbers of an authority, as Prometheus reads them.

use std::sync::Arc;
use std::time::SystemTime;

use persys_identity::Credentials;
use persys_metrics::{Answer, Certificate, Counters, Described, Families, Page, Validity};

const METHODS: [&str; 3] = ["join", "renew", "trust"];
const OUTCOMES: [&str; 3] = ["done", "refused", "failed"];

/// What is counted.
#[derive(Debug)]
pub struct Metrics {
    page: Page,
    requests: Counters<2>,
    certificate: Arc<Certificate>,
}

impl Default for Metrics {
    fn default() -> Self {
        let mut families = Families::new("persys_ca");
        let requests = families.counters(
            "requests_total",
            "Requests of machines: to join, to renew, and for the list of those to trust",
            ["method", "outcome"],
        );
        let certificate = Arc::new(Certificate::new(&mut families));
        families.process(env!("CARGO_PKG_VERSION"));
        let every = METHODS.into_iter().flat_map(|one| OUTCOMES.map(|outcome| [one, outcome]));
        let requests = requests.preset(every);
        Self { page: families.page(), requests, certificate }
    }
}

/// All families there are, for people.
#[must_use]
pub fn families() -> Vec<Described> {
    Metrics::default().page.described().to_vec()
}

impl Metrics {
    /// A request was answered. One that cannot be answered at present has failed; one that is answered
    /// with a no was refused.
    pub(crate) fn answered<T>(
        &self,
        method: &'static str,
        answer: Result<T, tonic::Status>,
    ) -> Result<T, tonic::Status> {
        let outcome = match &answer {
            Ok(_) => "done",
            Err(status) if status.code() == tonic::Code::Unavailable => "failed",
            Err(status) if status.code() == tonic::Code::Internal => "failed",
            Err(_) => "refused",
        };
        self.requests.inc([method, outcome]);
        answer
    }

    /// Shows this certificate from now on.
    pub fn shows(&self, credentials: &Credentials) {
        let credentials = credentials.clone();
        self.certificate.follow(move || Validity {
            not_after: credentials.current().certificate().not_after,
            troubled: credentials.trouble(SystemTime::now()).is_some(),
        });
    }

    /// Counts what happens to connections, and passes it on.
    #[must_use]
    pub fn report(&self, to: persys_identity::event::Report) -> persys_identity::event::Report {
        let certificate = Arc::clone(&self.certificate);
        Arc::new(move |event| {
            certificate.event(event.name());
            to(event);
        })
    }

    /// Everything, in the language a scraper prefers.
    #[must_use]
    pub fn answer(&self, accept: Option<&str>) -> Answer {
        self.page.answer(accept)
    }
}
