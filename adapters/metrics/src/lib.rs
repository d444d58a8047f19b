//! What is counted and measured, as Prometheus reads it.
//!
//! A component makes its families with [`Families`], keeps what they give it, and shows them with the
//! [`Page`] that comes out. Families describe themselves, so that the page for people is made from
//! the same words.
//!
//! Invariant: a label of what is counted while requests are answered is a word of the program, a
//! `&'static str`. Nobody outside can make one up, so nobody outside can make the page grow, and
//! counting allocates nothing. What has other names, such as the workloads of a node, is read from
//! what the component holds when somebody looks, and is gone with it.

mod certificate;
mod families;
mod grpc;
mod page;
mod process;
mod words;

pub use certificate::{Certificate, Validity};
pub use families::{Amount, Amounts, Counters, Described, Families, Gauges, Histograms, Kind};
pub use grpc::{Named, Rpcs, Timed, code_word};
pub use page::{Answer, Page};
pub use prometheus_client::metrics::counter::Counter;
pub use prometheus_client::metrics::gauge::Gauge;
pub use prometheus_client::metrics::histogram::Histogram;
pub use words::Words;

/// Classes of durations of requests and calls, in seconds.
pub const CALLS: &[f64] =
    &[0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0];
/// Classes of durations of what is decided in memory, in seconds.
pub const STEPS: &[f64] =
    &[0.00001, 0.00005, 0.0001, 0.0005, 0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0];
/// Classes of durations of what workloads and runtimes do, in seconds.
pub const WORK: &[f64] = &[0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0];
/// Classes of sizes, in bytes.
pub const SIZES: &[f64] = &[128.0, 1024.0, 8192.0, 65_536.0, 524_288.0, 4_194_304.0];
