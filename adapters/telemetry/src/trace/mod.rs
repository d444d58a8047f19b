//! Traces: spans of what one request led to, in every process it led to.

mod export;
mod fields;
mod otlp;
mod place;
mod queue;
mod serve;
mod trail;
mod trails;

pub use export::{BadSettings, Exporting, Pairs, Sampling, Settings, export};
pub use fields::Value;
pub use serve::{Naming, TraceLayer, Traced, page_span};
pub use trail::{Kind, Span, Trail, attach, current, scope};
pub use trails::Trails;
