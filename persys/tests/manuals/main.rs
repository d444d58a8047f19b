//! Every command of the manuals is typed, in order, page by page, and must do what the page shows.
//!
//! A page is Markdown as people read it. Its `sh` blocks are commands, one a line; its `console` blocks
//! show commands after `$ ` and below them what they print, where `...` stands for anything. What a test
//! has to know beyond that is said in comments in front of a block, which nobody sees on the page:
//!
//! ```text
//!   <!-- stage: dev n1 n2 -->      once: a cluster without Docker that runs before the first block
//!   <!-- first: COMMAND -->        typed before the block, and not shown
//!   <!-- file: NAME -->            the block is a file, and is written
//!   <!-- runs: never: REASON -->   not here; each such command must still be one that is understood
//!   <!-- runs: live: REASON -->    only where Docker is
//!   <!-- runs: beside: TEXT -->    goes on in the background, and prints TEXT once it is ready
//!   <!-- runs: briefly -->         goes on for ever: Ctrl-C after a moment
//!   <!-- as: COMMAND -->           this is typed instead, because a test has another name for things
//!   <!-- types: TEXT -->           somebody types this into the commands
//!   <!-- ends: 2 -->               how they end; `any` where that depends on the machine
//! ```
//!
//! What looks like a command in a block of neither language is counted as not run, and told.

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
mod links;
#[cfg(test)]
mod page;
#[cfg(test)]
mod play;
#[cfg(test)]
mod shell;
#[cfg(test)]
mod stage;

#[cfg(test)]
mod tests {
    use crate::links::broken;
    use crate::page::{Page, pages};
    use crate::play::{Played, play};
    use crate::stage::Runtime;

    /// Pages that are played at the same time as others: those with most commands.
    const OWN: &[&str] =
        &["README.md", "docs/api.md", "docs/operations.md", "docs/start.md", "docs/specs.md"];

    fn plays(name: &str) {
        let page = Page::read(name);
        let played = play(&page, Runtime::Sim);
        played.tell(name);
        assert!(played.ran > 0, "{name}: nothing of it was run");
    }

    #[test]
    fn the_readme_is_true() {
        plays("README.md");
    }

    #[test]
    fn the_first_five_minutes_are_true() {
        plays("docs/start.md");
    }

    #[test]
    fn operating_is_true() {
        plays("docs/operations.md");
    }

    #[test]
    fn the_api_is_true() {
        plays("docs/api.md");
    }

    #[test]
    fn writing_specs_is_true() {
        plays("docs/specs.md");
    }

    #[test]
    fn every_link_leads_somewhere() {
        let broken: Vec<_> = pages().iter().flat_map(|name| broken(name)).collect();
        assert!(broken.is_empty(), "{broken:#?}");
    }

    /// Whatever page there is, and whoever adds one.
    #[test]
    fn the_other_pages_are_true() {
        let mut all = Played::default();
        for name in pages().iter().filter(|name| !OWN.contains(&name.as_str())) {
            let played = play(&Page::read(name), Runtime::Sim);
            played.tell(name);
            all.ran += played.ran;
        }
        assert!(all.ran > 10, "{all:?}");
    }
}
