//! Every command of the manuals is typed, in order, page by page, and must do what the page shows.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do"
)]

#[cfg(test)]
mod compare;
#[cfg(test)]
mod every;
#[cfg(test)]
mod links;
#[cfg(test)]
mod page;
#[cfg(test)]
mod play;
#[cfg(test)]
mod shell;
#[cfg(test)]
mod stage;
