//! The gateway as a program: the door for people, programs and other systems to the schedulers of
//! many clusters.
//!
//! ```text
//!   browsers, programs ──► serve ──► front ──► rest · events · login · pages · webhooks
//!                         (limits)  (who)        │
//!                                                ▼
//!                                             clusters ──► schedulers, over mTLS, in the user's name
//! ```
//!
//! | question | file |
//! |---|---|
//! | how it is put together, started and stopped | `app.rs` |
//! | how connections are taken, and what they may cost | `serve.rs`, `limits.rs` |
//! | what stands before every route | `front.rs` |
//! | who asks, and how that is passed on | `who.rs`, `caller.rs`, `login/` |
//! | whether they still may, while something lasts | `rights.rs` |
//! | the interface for programs | `rest/` |
//! | how that is described | `openapi/` |
//! | what happens, as it happens | `events/` |
//! | pushes of others, and what others are told | `webhooks/` |
//! | which scheduler answers | `clusters/` |
//! | the pages for people | `pages/`, and `web/` beside the sources |
//! | how somebody is told no | `problem.rs` |
//!
//! It decides nothing and keeps nothing of the clusters: every question is asked of a scheduler, in
//! the name of the user who asked it, and the scheduler judges the user.

pub mod app;
mod body;
pub mod caller;
pub mod clusters;
pub mod events;
pub mod front;
pub mod gateway;
pub mod limits;
pub mod login;
pub mod metrics;
mod moment;
pub mod openapi;
mod pages;
mod probes;
pub mod problem;
pub mod proven;
pub mod rest;
pub mod rights;
pub mod serve;
mod text;
pub mod webhooks;
pub mod who;
