//! Whether the host can prove who it is, and for how long.

use std::time::{Duration, SystemTime};

use persys_identity::Source;

use crate::finding::Finding;

const SUBJECT: &str = "certificate";
const HOUR: Duration = Duration::from_hours(1);

/// Whether the certificate there is can be used.
pub fn valid(from: &Source, now: SystemTime) -> Finding {
    if !any_is_there(from) {
        let says = format!("this host has not joined a cluster: there is no {from}");
        return joining(Finding::weak(SUBJECT, says));
    }
    let loaded = from.load(now).map(|bundle| {
        let certificate = bundle.certificate();
        (certificate.identity.to_string(), certificate.not_after)
    });
    judge(loaded.map_err(|fault| fault.to_string()), now)
}

fn any_is_there(from: &Source) -> bool {
    match from {
        Source::Mapped { files, .. } => any_is_there(files),
        Source::Bundle(path) => path.exists(),
        Source::Separate { certificate, key, roots } => {
            [certificate, key, roots].into_iter().any(|path| path.exists())
        }
    }
}

/// The way to a certificate.
fn joining(finding: Finding) -> Finding {
    finding
        .mend("on a machine that is in the cluster: persys token create")
        .mend("here, the line it prints: persys join ADDRESS --token TOKEN")
}

/// Judges whom a certificate names and until when, or why there is none to use.
fn judge(loaded: Result<(String, SystemTime), String>, now: SystemTime) -> Finding {
    let (who, until) = match loaded {
        Ok(loaded) => loaded,
        Err(fault) => {
            return joining(Finding::bad(SUBJECT, fault));
        }
    };
    let left = until.duration_since(now).unwrap_or_default();
    let left_text = humantime::format_duration(Duration::from_secs(left.as_secs() / 60 * 60));
    let says = format!("{who}, for another {left_text}");
    if left < HOUR {
        return Finding::weak(SUBJECT, says).mend("is its agent running? It renews it by itself");
    }
    Finding::good(SUBJECT, says)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn what_runs_out_soon_is_told_before_it_does() {
        let now = SystemTime::UNIX_EPOCH + Duration::from_hours(500_000);
        let of = |left: Duration| judge(Ok(("spiffe://x".to_owned(), now + left)), now);
        assert_eq!(of(20 * HOUR).verdict, Verdict::Good);
        assert_eq!(of(20 * HOUR).says, "spiffe://x, for another 20h");
        assert_eq!(of(HOUR / 2).verdict, Verdict::Weak);
    }

    #[test]
    fn without_one_the_way_to_one_is_shown() {
        let folder = tempfile::tempdir().unwrap();
        let from = Source::Bundle(folder.path().join("agent.pem"));
        let finding = valid(&from, SystemTime::now());
        assert_eq!(finding.verdict, Verdict::Weak);
        assert!(finding.mend.concat().contains("persys join"));
        std::fs::write(folder.path().join("agent.pem"), "no certificate").unwrap();
        let finding = valid(&from, SystemTime::now());
        assert_eq!(finding.verdict, Verdict::Bad);
    }
}
