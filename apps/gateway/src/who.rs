//! Who makes a request, and whether a browser was made to make it.
//!
//! A token and a certificate are shown by whoever asks. A cookie is sent by the browser, also when
//! another site made it ask: what a cookie proves counts for changes and for terminals only when the
//! browser says that the request comes from our own pages.

use std::time::Instant;

use axum::http::{HeaderMap, Method, StatusCode, header};

use crate::caller::{Caller, Secret};
use crate::gateway::Gateway;
use crate::problem::Problem;
use crate::serve::Origin;

/// The cookie of a session.
pub const COOKIE: &str = "persys_session";
/// Longest token that is looked at.
const LONGEST_TOKEN: usize = 4096;

/// Who makes a request; nobody known, perhaps.
#[derive(Debug, Clone)]
pub struct Who(pub Option<Caller>);

impl Who {
    /// Who it is, where somebody is needed.
    pub fn known(&self) -> Result<&Caller, Problem> {
        self.0.as_ref().ok_or_else(Problem::who_are_you)
    }
}

/// Finds out who makes a request.
pub fn find(
    gateway: &Gateway,
    origin: &Origin,
    method: &Method,
    headers: &HeaderMap,
) -> Result<Who, Problem> {
    if let Some(said) = headers.get(header::AUTHORIZATION) {
        return token(said.as_bytes()).map(|token| Who(Some(Caller::token(token))));
    }
    if origin.is_certified {
        return Ok(Who(origin.caller.clone()));
    }
    if let Some(session) = cookie(headers, COOKIE)
        && let Some(caller) = gateway.sessions.find(session, Instant::now())
    {
        let opens_a_socket = headers.contains_key(header::UPGRADE);
        if (!method.is_safe() || opens_a_socket) && !is_from_our_pages(headers) {
            let sentence = "the browser says that another site made it send this";
            let next = "do it on the gateway's own pages, or use a token";
            return Err(Problem::new(StatusCode::FORBIDDEN, "cross_site", sentence, next));
        }
        return Ok(Who(Some(caller)));
    }
    Ok(Who(gateway.is_open.then(Caller::anonymous)))
}

fn token(said: &[u8]) -> Result<Secret, Problem> {
    let text = std::str::from_utf8(said).ok().filter(|text| text.len() <= LONGEST_TOKEN);
    let scheme_and_rest = text.and_then(|text| text.split_once(' '));
    let token = scheme_and_rest
        .filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"))
        .map(|(_, token)| token.trim())
        .filter(|token| !token.is_empty() && token.bytes().all(|byte| byte.is_ascii_graphic()));
    token.map(Secret::new).ok_or_else(|| {
        let next = "send `Authorization: Bearer <token>`";
        let sentence = "the authorization is not a bearer token";
        Problem::new(StatusCode::UNAUTHORIZED, "unauthenticated", sentence, next)
    })
}

/// The value of a cookie.
pub fn cookie<'a>(headers: &'a HeaderMap, name: &str) -> Option<&'a str> {
    let all = headers.get_all(header::COOKIE).iter().filter_map(|line| line.to_str().ok());
    let mut pairs = all.flat_map(|line| line.split(';')).filter_map(|pair| pair.split_once('='));
    pairs.find(|(key, _)| key.trim() == name).map(|(_, value)| value.trim())
}

/// Whether a browser says that a request was made by a page of ours, or by a person who typed.
pub fn is_from_our_pages(headers: &HeaderMap) -> bool {
    let text =
        |name| headers.get(name).and_then(|value: &axum::http::HeaderValue| value.to_str().ok());
    if let Some(site) = text(header::HeaderName::from_static("sec-fetch-site")) {
        return matches!(site, "same-origin" | "none");
    }
    let Some(origin) = text(header::ORIGIN) else { return false };
    let host = text(header::HOST).unwrap_or_default();
    let bare = origin.strip_prefix("https://").or_else(|| origin.strip_prefix("http://"));
    !host.is_empty() && bare.is_some_and(|bare| bare.eq_ignore_ascii_case(host))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn headers(pairs: &[(&'static str, &'static str)]) -> HeaderMap {
        pairs.iter().map(|(name, value)| (name.parse().unwrap(), value.parse().unwrap())).collect()
    }

    #[test]
    fn another_site_is_told_from_our_own_pages() {
        for (pairs, ours) in [
            (&[("sec-fetch-site", "same-origin")][..], true),
            (&[("sec-fetch-site", "none")], true),
            (
                &[("sec-fetch-site", "cross-site"), ("origin", "https://a:1"), ("host", "a:1")],
                false,
            ),
            (&[("sec-fetch-site", "same-site")], false),
            (&[("origin", "https://a:1"), ("host", "a:1")], true),
            (&[("origin", "https://evil"), ("host", "a:1")], false),
            (&[("origin", "null"), ("host", "a:1")], false),
            (&[("host", "a:1")], false),
        ] {
            assert_eq!(is_from_our_pages(&headers(pairs)), ours, "{pairs:?}");
        }
    }

    #[test]
    fn only_bearer_tokens_are_tokens() {
        for good in ["Bearer abc", "bearer  a.b-c_d="] {
            assert!(token(good.as_bytes()).is_ok(), "{good}");
        }
        let long = format!("Bearer {}", "a".repeat(5000));
        for bad in ["", "abc", "Basic YTpi", "Bearer ", "Bearer a b", "Bearer \u{7f}", &long] {
            assert!(token(bad.as_bytes()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn a_cookie_is_found_among_others() {
        let headers = headers(&[("cookie", "a=1; persys_session=xyz; b=2")]);
        assert_eq!(cookie(&headers, COOKIE), Some("xyz"));
        assert_eq!(cookie(&headers, "session"), None);
    }
}
