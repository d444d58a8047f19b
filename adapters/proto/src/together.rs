//! Many questions of one kind as one: put together, and the answer taken apart again, without anybody
//! looking at what is in it.
//!
//! ```text
//!   GetWorkload(a) ─┐                                        ┌─▶ what GetWorkload(a) answers, in bytes
//!   GetWorkload(b) ─┼─▶ GetWorkloads(a, b, c) ─▶ one answer ─┼─▶ the refusal of b
//!   GetWorkload(c) ─┘                                        └─▶ what GetWorkload(c) answers, in bytes
//! ```

use bytes::Bytes;
use prost::Message;
use tonic::{Code, Status};

use crate::compute::v1::{GetWorkloadsRequest, ReadRefused};
use crate::control::v1::GetWorkloadRequest;

/// Most questions that go together.
pub const MOST: usize = 256;

/// Questions that go together.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Together {
    /// For one workload each.
    Workloads,
}

/// `GetWorkloadsResponse` as far as it has to be understood to be taken apart: a message inside
/// another one stands there like bytes do.
#[derive(Clone, PartialEq, Message)]
struct Answers {
    #[prost(message, repeated, tag = "1")]
    answers: Vec<OneAnswer>,
}

#[derive(Clone, PartialEq, Message)]
struct OneAnswer {
    #[prost(bytes = "vec", optional, tag = "1")]
    found: Option<Vec<u8>>,
    #[prost(message, optional, tag = "2")]
    refused: Option<ReadRefused>,
}

impl Together {
    /// How questions of a method go together, if they do.
    #[must_use]
    pub fn of(method: &str) -> Option<Self> {
        (method == Self::Workloads.alone()).then_some(Self::Workloads)
    }

    /// The method of one question.
    #[must_use]
    pub fn alone(self) -> &'static str {
        match self {
            Self::Workloads => "/persys.control.v1.AgentControl/GetWorkload",
        }
    }

    /// The method of many.
    #[must_use]
    pub fn together(self) -> &'static str {
        match self {
            Self::Workloads => "/persys.compute.v1.Reads/GetWorkloads",
        }
    }

    /// One question for all of these; none where one of them cannot be understood.
    #[must_use]
    pub fn question(self, messages: &[Bytes]) -> Option<Bytes> {
        match self {
            Self::Workloads => {
                let id = |message: &Bytes| {
                    GetWorkloadRequest::decode(&**message).ok().map(|asked| asked.workload_id)
                };
                let workload_ids = messages.iter().map(id).collect::<Option<_>>()?;
                Some(GetWorkloadsRequest { workload_ids }.encode_to_vec().into())
            }
        }
    }

    /// What each of so many questions would have been answered with alone; none where that is not
    /// what this is.
    #[must_use]
    pub fn answers(self, of: usize, message: &[u8]) -> Option<Vec<Result<Bytes, Status>>> {
        let answers = match self {
            Self::Workloads => Answers::decode(message).ok()?.answers,
        };
        if answers.len() != of {
            return None;
        }
        let one = |one: OneAnswer| match (one.found, one.refused) {
            (Some(found), None) => Some(Ok(Bytes::from(found))),
            (None, Some(refused)) => {
                Some(Err(Status::new(Code::from_i32(refused.code), refused.message)))
            }
            _ => None,
        };
        answers.into_iter().map(one).collect()
    }

    /// The refusal of all as the refusal of one, which was not asked by the name of many.
    #[must_use]
    pub fn refusal(self, of_all: &Status) -> Status {
        let message = of_all.message().replace(self.together(), self.alone());
        Status::with_metadata(of_all.code(), message, of_all.metadata().clone())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compute::v1::workload_answer::Answer;
    use crate::compute::v1::{GetWorkloadsResponse, WorkloadAnswer};
    use crate::control::v1::{GetWorkloadResponse, WorkloadView};

    fn asked(id: &str) -> Bytes {
        GetWorkloadRequest { workload_id: id.to_owned() }.encode_to_vec().into()
    }

    #[test]
    fn what_goes_together_comes_apart_as_if_it_had_been_asked_alone() {
        let together = Together::of(Together::Workloads.alone()).unwrap();
        let question = together.question(&[asked("a"), asked(""), asked("c")]).unwrap();
        let question = GetWorkloadsRequest::decode(&*question).unwrap();
        assert_eq!(question.workload_ids, ["a", "", "c"]);

        let view = |id: &str| WorkloadView { workload_id: id.to_owned(), ..Default::default() };
        let whole = GetWorkloadResponse { workload: Some(view("a")) };
        let empty = GetWorkloadResponse::default();
        let refused = ReadRefused { code: 5, message: "there is no workload c".to_owned() };
        let answers =
            [Answer::Found(whole.clone()), Answer::Found(empty.clone()), Answer::Refused(refused)];
        let answers = answers.map(|answer| WorkloadAnswer { answer: Some(answer) }).to_vec();
        let bytes = GetWorkloadsResponse { answers }.encode_to_vec();
        let apart = together.answers(3, &bytes).unwrap();
        assert_eq!(apart[0].as_ref().unwrap(), &whole.encode_to_vec());
        assert_eq!(apart[1].as_ref().unwrap(), &empty.encode_to_vec());
        let refusal = apart[2].as_ref().unwrap_err();
        assert_eq!((refusal.code(), refusal.message()), (Code::NotFound, "there is no workload c"));
    }

    #[test]
    fn what_is_no_answer_to_the_question_is_none() {
        let none = GetWorkloadsResponse { answers: vec![WorkloadAnswer { answer: None }] };
        assert!(Together::Workloads.answers(1, &none.encode_to_vec()).is_none());
        assert!(Together::Workloads.answers(2, &none.encode_to_vec()).is_none());
        assert!(Together::Workloads.answers(1, b"\x0a\xff").is_none());
        assert!(Together::Workloads.question(&[Bytes::from_static(b"\x0a\xff")]).is_none());
        assert!(Together::of("/persys.control.v1.AgentControl/GetNode").is_none());
    }

    #[test]
    fn nobody_is_refused_what_they_did_not_ask_for() {
        let said = format!("the user eve may not call {}: why", Together::Workloads.together());
        let refusal = Together::Workloads.refusal(&Status::permission_denied(said));
        assert_eq!(refusal.code(), Code::PermissionDenied);
        assert_eq!(
            refusal.message(),
            format!("the user eve may not call {}: why", Together::Workloads.alone())
        );
    }
}
