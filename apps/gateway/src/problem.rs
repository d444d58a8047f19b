//! How a caller is told no: a code for programs, a sentence for people, and what to do next.
//!
//! The shape is that of problem details, `application/problem+json`. `error` repeats the sentence for
//! clients that know only that.

use axum::body::Body;
use axum::http::{HeaderValue, Response, StatusCode, header};
use axum::response::IntoResponse;
use persys_model::fault::Faults;
use serde_json::{Value, json};
use tonic::{Code, Status};

/// Seconds after which asking again may help, when nobody says otherwise.
const USUAL_WAIT: u64 = 1;

/// A refusal.
#[derive(Debug, Clone)]
pub struct Problem {
    status: StatusCode,
    code: &'static str,
    sentence: String,
    next: String,
    retry_after: Option<u64>,
    faults: Vec<(String, String)>,
}

impl Problem {
    /// A refusal with a sentence and what to do next.
    pub fn new(
        status: StatusCode,
        code: &'static str,
        sentence: impl Into<String>,
        next: impl Into<String>,
    ) -> Self {
        let (sentence, next) = (sentence.into(), next.into());
        Self { status, code, sentence, next, retry_after: None, faults: Vec::new() }
    }

    /// The request cannot be understood.
    pub fn bad(sentence: impl Into<String>) -> Self {
        let next = "correct the request; /docs describes it";
        Self::new(StatusCode::BAD_REQUEST, "bad_request", sentence, next)
    }

    /// Everything that is wrong with a body, each with its path.
    pub fn faults(faults: &Faults) -> Self {
        let mut problem = Self::bad(faults.to_string());
        let listed = faults.listed().iter();
        problem.faults = listed.map(|one| (one.path.clone(), one.problem.clone())).collect();
        problem
    }

    /// Nobody knows who is asking.
    pub fn who_are_you() -> Self {
        let next =
            "send `Authorization: Bearer <token>`, use a client certificate, or log in at /login";
        let sentence = "nobody knows who is asking";
        Self::new(StatusCode::UNAUTHORIZED, "unauthenticated", sentence, next)
    }

    /// There is nothing of that name.
    pub fn not_found(sentence: impl Into<String>) -> Self {
        let next = "list what there is, and look for the right name";
        Self::new(StatusCode::NOT_FOUND, "not_found", sentence, next)
    }

    /// Not at present.
    pub fn unavailable(sentence: impl Into<String>) -> Self {
        let next = "ask again; GET /clusters tells which schedulers answer";
        let problem = Self::new(StatusCode::SERVICE_UNAVAILABLE, "unavailable", sentence, next);
        problem.again_in(USUAL_WAIT)
    }

    /// Too much at once.
    pub fn too_many(sentence: impl Into<String>) -> Self {
        let next = "ask less often, or later";
        let problem = Self::new(StatusCode::TOO_MANY_REQUESTS, "too_many", sentence, next);
        problem.again_in(USUAL_WAIT)
    }

    /// Too large.
    pub fn too_large(most: usize) -> Self {
        let sentence = format!("the body is larger than the {most} bytes it may have");
        let next = "send less";
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", sentence, next)
    }

    /// When asking again may help.
    #[must_use]
    pub fn again_in(self, seconds: u64) -> Self {
        Self { retry_after: Some(seconds), ..self }
    }

    /// The status it is answered with.
    pub fn status(&self) -> StatusCode {
        self.status
    }

    /// The sentence.
    pub fn sentence(&self) -> &str {
        &self.sentence
    }

    /// What it says, as JSON.
    pub fn to_json(&self) -> Value {
        let mut shown = json!({
            "type": format!("urn:persys:problem:{}", self.code),
            "title": self.status.canonical_reason().unwrap_or("refused"),
            "status": self.status.as_u16(),
            "code": self.code,
            "detail": self.sentence,
            "next_step": self.next,
            "error": self.sentence,
        });
        if let (Some(shown), false) = (shown.as_object_mut(), self.faults.is_empty()) {
            let faults = self.faults.iter();
            let faults = faults.map(|(path, problem)| json!({"path": path, "problem": problem}));
            shown.insert("faults".to_owned(), faults.collect());
        }
        shown
    }
}

impl From<Status> for Problem {
    fn from(status: Status) -> Self {
        let wait =
            status.metadata().get("retry-after").and_then(|text| text.to_str().ok()?.parse().ok());
        let (http, code, next) = meaning(status.code());
        let sentence = match status.message() {
            "" => code.replace('_', " "),
            text => text.to_owned(),
        };
        let problem = Self::new(http, code, sentence, next);
        match (status.code(), wait) {
            (_, Some(seconds)) => problem.again_in(seconds),
            (Code::Unavailable | Code::ResourceExhausted, None) => problem.again_in(USUAL_WAIT),
            _ => problem,
        }
    }
}

/// A code of gRPC as one of HTTP, as a word, and with what to do next.
fn meaning(code: Code) -> (StatusCode, &'static str, &'static str) {
    match code {
        Code::InvalidArgument | Code::OutOfRange => {
            (StatusCode::BAD_REQUEST, "invalid_argument", "correct the request; /docs describes it")
        }
        Code::NotFound => {
            (StatusCode::NOT_FOUND, "not_found", "list what there is, and look for the right name")
        }
        Code::AlreadyExists => {
            (StatusCode::CONFLICT, "already_exists", "choose another name, or change what is there")
        }
        Code::FailedPrecondition => (
            StatusCode::CONFLICT,
            "failed_precondition",
            "look at how it is now, then decide again",
        ),
        Code::Aborted => (StatusCode::CONFLICT, "aborted", "look at how it is now, and try again"),
        Code::PermissionDenied => (
            StatusCode::FORBIDDEN,
            "permission_denied",
            "ask an administrator for the right to do this",
        ),
        Code::Unauthenticated => (
            StatusCode::UNAUTHORIZED,
            "unauthenticated",
            "send a token that is valid, or log in again",
        ),
        Code::ResourceExhausted => {
            (StatusCode::TOO_MANY_REQUESTS, "resource_exhausted", "ask less often, or later")
        }
        Code::Unimplemented => {
            (StatusCode::NOT_IMPLEMENTED, "unimplemented", "this cluster does not offer it")
        }
        Code::Unavailable | Code::Cancelled => {
            (StatusCode::SERVICE_UNAVAILABLE, "unavailable", "ask again")
        }
        Code::DeadlineExceeded => (
            StatusCode::GATEWAY_TIMEOUT,
            "deadline_exceeded",
            "look whether it was done, then ask again",
        ),
        Code::Ok | Code::Unknown | Code::Internal | Code::DataLoss => {
            (StatusCode::INTERNAL_SERVER_ERROR, "internal", "look into the scheduler's log")
        }
    }
}

impl IntoResponse for Problem {
    fn into_response(self) -> Response<Body> {
        let kind = [(header::CONTENT_TYPE, "application/problem+json")];
        let mut response = (self.status, kind, self.to_json().to_string()).into_response();
        let headers = response.headers_mut();
        if let Some(seconds) = self.retry_after {
            headers.insert(header::RETRY_AFTER, HeaderValue::from(seconds));
        }
        if self.status == StatusCode::UNAUTHORIZED {
            headers.insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_mean_what_clients_expect() {
        for (code, wanted) in [
            (Code::NotFound, 404),
            (Code::InvalidArgument, 400),
            (Code::Unavailable, 503),
            (Code::PermissionDenied, 403),
            (Code::Unauthenticated, 401),
            (Code::ResourceExhausted, 429),
            (Code::FailedPrecondition, 409),
            (Code::DeadlineExceeded, 504),
        ] {
            let problem = Problem::from(Status::new(code, "because"));
            assert_eq!(problem.status().as_u16(), wanted, "{code:?}");
            let response = problem.clone().into_response();
            let waits = response.headers().contains_key(header::RETRY_AFTER);
            assert_eq!(waits, matches!(wanted, 503 | 429), "{code:?}");
            let json = problem.to_json();
            assert_eq!((&json["detail"], &json["error"]), (&json!("because"), &json!("because")));
            assert!(json["next_step"].as_str().is_some_and(|text| text.len() > 5));
        }
    }

    #[test]
    fn what_a_scheduler_says_about_waiting_is_passed_on() {
        let mut status = Status::unavailable("soon");
        status.metadata_mut().insert("retry-after", "7".parse().unwrap());
        let response = Problem::from(status).into_response();
        assert_eq!(response.headers()[header::RETRY_AFTER], "7");
    }
}
