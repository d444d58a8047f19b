//! The certificate a component proves itself with, and what happens to its connections.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::{SystemTime, UNIX_EPOCH};

use crate::families::{Counters, Families};

/// What can happen to certificates and connections, in the words of the log.
const EVENTS: [&str; 6] = [
    "tls_reloaded",
    "tls_reload_failed",
    "tls_renewed",
    "tls_renewal_failed",
    "tls_handshake_failed",
    "accept_failed",
];

/// How a certificate is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Validity {
    /// The last moment it counts.
    pub not_after: SystemTime,
    /// Whether somebody should look after it.
    pub troubled: bool,
}

type Look = Box<dyn Fn() -> Validity + Send + Sync>;

/// The certificate of a component. One without a certificate shows none.
pub struct Certificate {
    look: Arc<OnceLock<Look>>,
    events: Counters<1>,
}

impl fmt::Debug for Certificate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Certificate").finish_non_exhaustive()
    }
}

impl Certificate {
    /// Shows it among these.
    pub fn new(families: &mut Families) -> Self {
        let look: Arc<OnceLock<Look>> = Arc::default();
        let shown = |look: &Arc<OnceLock<Look>>, tell: fn(Validity) -> f64| {
            let look = Arc::clone(look);
            move || look.get().map(|look| ([], tell(look()))).into_iter().collect()
        };
        families.seen(
            "certificate_expiry_timestamp_seconds",
            "Until when the certificate in use counts, in seconds since 1970; none without TLS",
            [],
            shown(&look, |how| since(how.not_after, UNIX_EPOCH)),
        );
        families.seen(
            "certificate_expires_in_seconds",
            "For how long the certificate in use still counts; below 0 it does not any more",
            [],
            shown(&look, |how| since(how.not_after, SystemTime::now())),
        );
        families.seen(
            "certificate_trouble",
            "1 while somebody should look after the certificate: it runs out and is not renewed",
            [],
            shown(&look, |how| f64::from(u8::from(how.troubled))),
        );
        let help = "What happened to certificates and connections, in the words of the log";
        let events = families.counters("tls_events_total", help, ["event"]);
        Self { look, events: events.preset(EVENTS.map(|event| [event])) }
    }

    /// Where to look from now on; the first one told counts.
    pub fn follow(&self, look: impl Fn() -> Validity + Send + Sync + 'static) {
        self.look.get_or_init(|| Box::new(look));
    }

    /// Something happened; the word is that of the log.
    pub fn event(&self, word: &'static str) {
        self.events.inc([word]);
    }
}

/// Seconds from then until a moment; fewer than none if it was before.
fn since(moment: SystemTime, then: SystemTime) -> f64 {
    match moment.duration_since(then) {
        Ok(after) => after.as_secs_f64(),
        Err(before) => -before.duration().as_secs_f64(),
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_certificate_is_shown_once_there_is_one() {
        let mut families = Families::new("persys_thing");
        let certificate = Certificate::new(&mut families);
        let page = families.page();
        assert!(!page.answer(None).text.contains("_certificate_"));
        certificate.event("tls_reload_failed");
        let not_after = UNIX_EPOCH + Duration::from_secs(1000);
        certificate.follow(move || Validity { not_after, troubled: true });
        let text = page.answer(None).text;
        assert!(
            text.contains("persys_thing_certificate_expiry_timestamp_seconds 1000.0\n"),
            "{text}"
        );
        assert!(text.contains("persys_thing_certificate_expires_in_seconds -"), "{text}");
        assert!(text.contains("persys_thing_certificate_trouble 1.0\n"), "{text}");
        assert!(text.contains("persys_thing_tls_events_total{event=\"tls_reload_failed\"} 1\n"));
        assert!(text.contains("persys_thing_tls_events_total{event=\"tls_renewed\"} 0\n"));
    }
}
