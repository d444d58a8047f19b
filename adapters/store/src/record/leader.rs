//! `/meta/leader`: who leads, or led last, and the number of that leadership.

use std::sync::Arc;

use persys_model::token::Term;
use serde::{Deserialize, Serialize};

use super::{Record, VERSION};

/// A leadership.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Leader {
    /// One life of one process.
    pub candidate: Arc<str>,
    /// The number of its leadership.
    pub term: Term,
}

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct LeaderShape {
    v: u32,
    candidate: Arc<str>,
    term: u64,
}

impl Record for Leader {
    type Shape = LeaderShape;

    fn shape(&self) -> LeaderShape {
        let Self { candidate, term } = self;
        LeaderShape { v: VERSION, candidate: Arc::clone(candidate), term: term.0 }
    }

    fn version(shape: &LeaderShape) -> u32 {
        shape.v
    }

    fn read(shape: LeaderShape) -> Result<Self, String> {
        Ok(Self { candidate: shape.candidate, term: Term(shape.term) })
    }
}
