//! Image references: `[host[:port]/]path[:tag][@sha256:digest]`, nothing else.

use std::sync::Arc;

use persys_compose::grammar::image_problem;

use super::at::At;
use super::limits::IMAGE_BYTES;
use super::text::{length, shown};

/// A reference that every registry client reads the same way.
pub(super) fn image(at: &At<'_>, text: &str) -> Option<Arc<str>> {
    if text.is_empty() {
        return at.refuse("is missing");
    }
    length(at, text.len(), IMAGE_BYTES)?;
    match image_problem(text) {
        Some(what) => at.refuse(format!("\"{}\" is not an image: {what}", shown(text))),
        None => Some(Arc::from(text)),
    }
}
