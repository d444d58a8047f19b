//! Traces: spans of what one request led to, in every process it led to.

mod export;
mod otlp;
mod place;
mod queue;
mod serve;
mod trail;
mod trails;

pub use export::{BadSettings, Exporting, Pairs, Sampling, Settings, export};
pub use otlp::Value;
pub use serve::{Naming, TraceLayer, Traced};
pub use trail::{Kind, Span, Trail, attach, current, scope};
pub use trails::Trails;
