//! Who a request is from, known to whatever is done for it.
//!
//! Every mutation is written down with its author, and every one is judged by what its author holds.
//! Both belong to the request as a whole, so they are set once, where the caller is judged, and not
//! handed from function to function.

use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use persys_access::{Caller, Role};
use persys_model::event::{Author, Origin};
use persys_proto::REASON_HEADER;
use tonic::codegen::http::HeaderMap;

/// The header under which a caller names its request.
const REQUEST_ID: &str = "x-request-id";
/// Longest name of a request that is kept.
const LONGEST_ID: usize = 64;

tokio::task_local! {
    static ASKER: Asker;
}

/// Who asks, and what they hold.
#[derive(Debug, Clone)]
pub(crate) struct Asker {
    /// As it is written down.
    pub(crate) author: Arc<Author>,
    /// As it is judged.
    pub(crate) caller: Arc<Caller>,
}

static OURSELVES: LazyLock<Asker> = LazyLock::new(|| Asker {
    author: Arc::new(Author::new("scheduler")),
    caller: Arc::new(Caller::with(Role::Admin)),
});

/// Who the request under way is from; the scheduler itself when there is none.
pub(crate) fn current() -> Asker {
    ASKER.try_with(Asker::clone).unwrap_or_else(|_| OURSELVES.clone())
}

/// Carries `work` out in the name of `asker`.
pub(crate) fn scope<W: Future>(asker: Asker, work: W) -> impl Future<Output = W::Output> + use<W> {
    ASKER.scope(asker, work)
}

/// Somebody, and the reason they give.
pub(crate) fn named(who: &str, headers: &HeaderMap) -> Arc<Author> {
    let why = headers.get(REASON_HEADER).map(|value| reason(value.as_bytes())).unwrap_or_default();
    Arc::new(Author { why: Arc::from(why), ..Author::new(who) })
}

/// The same, with where the request came from and why it was let in.
pub(crate) fn calling(
    who: &str,
    source: Option<IpAddr>,
    rule: &str,
    headers: &HeaderMap,
) -> Arc<Author> {
    let mut author = Author::clone(&named(who, headers));
    author.origin = Origin {
        source: source.map(|source| Arc::from(source.to_string())).unwrap_or_default(),
        request: request_id(headers),
        rule: Arc::from(rule),
        namespace: Arc::from(""),
    };
    Arc::new(author)
}

/// What the caller calls this request, or the next number of this process.
fn request_id(headers: &HeaderMap) -> Arc<str> {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    let given = headers.get(REQUEST_ID).and_then(|value| value.to_str().ok());
    match given.filter(|given| given.len() <= LONGEST_ID && given.bytes().all(is_plain)) {
        Some(given) => Arc::from(given),
        None => Arc::from(NEXT.fetch_add(1, Ordering::Relaxed).to_string()),
    }
}

fn is_plain(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.')
}

/// The reason as people read it: one line, no longer than what is kept.
fn reason(header: &[u8]) -> String {
    let text = percent_encoding::percent_decode(header).decode_utf8_lossy();
    let mut line = String::new();
    for character in text.chars() {
        let character = if character.is_control() { ' ' } else { character };
        if line.len() + character.len_utf8() > Author::LONGEST_WHY {
            break;
        }
        line.push(character);
    }
    line.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use tonic::codegen::http::HeaderValue;

    use super::*;

    #[tokio::test]
    async fn what_is_done_for_a_request_knows_its_author() {
        let mut headers = HeaderMap::new();
        let why = HeaderValue::from_static("disk%20is%0Afailing %E2%80%94 soon");
        headers.insert(REASON_HEADER, why);
        let author = named("operator ada", &headers);
        let asker = Asker { author, caller: Arc::default() };
        let inner = scope(asker, async { current() });
        let Asker { author, caller } = inner.await;
        assert_eq!((&*author.who, &*author.why), ("operator ada", "disk is failing \u{2014} soon"));
        assert_eq!(*caller, Caller::default());
        assert_eq!(&*current().author.who, "scheduler");
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let long = "\u{e4}".repeat(Author::LONGEST_WHY);
        let kept = reason(long.as_bytes());
        assert_eq!(kept.len(), Author::LONGEST_WHY);
        assert!(long.starts_with(&kept));
    }
}
