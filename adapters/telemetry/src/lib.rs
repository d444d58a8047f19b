//! What was done, for those who look at it from outside.
//!
//! ```text
//!   request ──► TraceLayer ──► scope(trail) ──► current().begin("commit")   spans of one trace
//!                 ▲ traceparent                     │ Trails: what follows later from a request
//!                 │                                 ▼
//!               caller                    Queue ──► collector (OTLP)        never waited for
//!
//!   tracing::info! ──► Levels (change while it runs) ──► Lines ──► standard error
//! ```
//!
//! Nothing here can hold up or fail what it tells of: a span or a line that finds no room is dropped
//! and counted. Where no collector is named there is no exporter, and a span is a branch.

pub mod log;
pub mod trace;
