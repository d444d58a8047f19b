//! Who a request is from, known to whatever is done for it.
//!
//! Every mutation is written down with its author. The author belongs to the request as a whole, so
//! it is set once, where the caller is judged, and not handed from function to function.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};

use persys_identity::{ConnectInfo, Peer};
use persys_model::event::{Author, Origin};
use persys_proto::REASON_HEADER;
use tonic::codegen::http::{HeaderMap, Request};

/// The header under which a caller names its request.
const REQUEST_ID: &str = "x-request-id";
/// Longest name of a request that is kept.
const LONGEST_ID: usize = 64;

tokio::task_local! {
    static AUTHOR: Arc<Author>;
}

static OURSELVES: LazyLock<Arc<Author>> = LazyLock::new(|| Arc::new(Author::new("scheduler")));

/// Who the request under way is from; the scheduler itself when there is none.
pub(crate) fn current() -> Arc<Author> {
    AUTHOR.try_with(Arc::clone).unwrap_or_else(|_| Arc::clone(&OURSELVES))
}

/// Carries `work` out in the name of `author`.
pub(crate) fn scope<W: Future>(
    author: Author,
    work: W,
) -> impl Future<Output = W::Output> + use<W> {
    AUTHOR.scope(Arc::new(author), work)
}

/// Who a request is from, and the reason they give.
pub(crate) fn of<B>(request: &Request<B>) -> Author {
    let caller = request.extensions().get::<ConnectInfo>();
    let mut author = named(caller.map(|info| &info.peer), request.headers());
    let rule = persys_access::row(request.uri().path()).map(|(_, who, _)| who.rule());
    author.origin = Origin {
        source: caller.map(|info| Arc::from(info.remote.to_string())).unwrap_or_default(),
        request: request_id(request.headers()),
        rule: Arc::from(rule.unwrap_or_default()),
        namespace: Arc::from(""),
    };
    author
}

fn named(peer: Option<&Peer>, headers: &HeaderMap) -> Author {
    let who = peer.map_or_else(
        || "nobody".to_owned(),
        |peer| format!("{} {}", peer.role.as_str(), peer.name.as_str()),
    );
    let why = headers.get(REASON_HEADER).map(|value| reason(value.as_bytes())).unwrap_or_default();
    Author { why: Arc::from(why), ..Author::new(&who) }
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
        let mut request = Request::new(());
        let why = HeaderValue::from_static("disk%20is%0Afailing %E2%80%94 soon");
        request.headers_mut().insert(REASON_HEADER, why);
        let author = scope(of(&request), async { current() }).await;
        assert_eq!((&*author.who, &*author.why), ("nobody", "disk is failing \u{2014} soon"));
        assert_eq!(&*current().who, "scheduler");
    }

    #[test]
    fn a_long_reason_is_cut_between_characters() {
        let long = "\u{e4}".repeat(Author::LONGEST_WHY);
        let kept = reason(long.as_bytes());
        assert_eq!(kept.len(), Author::LONGEST_WHY);
        assert!(long.starts_with(&kept));
    }
}
