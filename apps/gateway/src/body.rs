//! Bodies: refused before they are read when they say they are too large, and never read for longer
//! or further than they may be.

use std::time::Duration;

use axum::body::{Body, to_bytes};
use axum::http::{HeaderMap, StatusCode, header};
use bytes::Bytes;
use http_body_util::LengthLimitError;
use serde_json::Value;
use tokio::time::timeout;

use crate::problem::Problem;

/// The whole body.
pub(crate) async fn read(
    headers: &HeaderMap,
    body: Body,
    most: usize,
    within: Duration,
) -> Result<Bytes, Problem> {
    let said = headers.get(header::CONTENT_LENGTH).and_then(|text| text.to_str().ok());
    if said.and_then(|text| text.parse::<u64>().ok()).is_some_and(|said| said > to_u64(most)) {
        return Err(Problem::too_large(most));
    }
    if headers.contains_key(header::CONTENT_ENCODING) {
        let sentence = "the body is compressed, which is not taken";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Problem::new(status, "compressed", sentence, "send it as it is"));
    }
    match timeout(within, to_bytes(body, most)).await {
        Ok(Ok(bytes)) => Ok(bytes),
        Ok(Err(fault)) => Err(match std::error::Error::source(&fault) {
            Some(source) if source.is::<LengthLimitError>() => Problem::too_large(most),
            _ => Problem::bad("the body broke off"),
        }),
        Err(_) => {
            let sentence = format!("the body did not come within {within:?}");
            let status = StatusCode::REQUEST_TIMEOUT;
            Err(Problem::new(status, "too_slow", sentence, "send it faster"))
        }
    }
}

/// The value in a body of JSON; none in an empty one.
pub(crate) fn json(headers: &HeaderMap, bytes: &Bytes) -> Result<Option<Value>, Problem> {
    if bytes.is_empty() {
        return Ok(None);
    }
    let kind = headers.get(header::CONTENT_TYPE).and_then(|text| text.to_str().ok());
    let kind = kind.map(|text| text.split(';').next().unwrap_or_default().trim());
    // A form that another site posts cannot say that it is JSON.
    if !kind.is_some_and(|kind| kind.eq_ignore_ascii_case("application/json")) {
        let sentence = "the body is not application/json";
        let status = StatusCode::UNSUPPORTED_MEDIA_TYPE;
        return Err(Problem::new(
            status,
            "not_json",
            sentence,
            "send JSON, and say so in Content-Type",
        ));
    }
    match serde_json::from_slice(bytes) {
        Ok(value) => Ok(Some(value)),
        Err(fault) => Err(Problem::bad(format!("the body is not JSON: {fault}"))),
    }
}

fn to_u64(number: usize) -> u64 {
    u64::try_from(number).unwrap_or(u64::MAX)
}
