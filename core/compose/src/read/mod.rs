//! From nodes to a document: every key known, every value of its type, every verdict said.

use std::collections::BTreeMap;

use crate::document::Document;
use crate::finding::Place;
use crate::limits::FILE_BYTES;
use crate::{interpolate, yaml};

/// The document in `text`, if there is one.
pub(crate) fn document(
    at: &Place<'_>,
    text: &str,
    variables: &BTreeMap<String, String>,
) -> Option<Document> {
    if text.len() > FILE_BYTES {
        return at.refuse(format!("has more than {FILE_BYTES} bytes"));
    }
    let _ = (yaml::parse(text), interpolate::fill(text, variables));
    at.refuse("is not read yet")
}
