//! The first five minutes, with real containers. Needs Docker, so it runs only when it is named.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    clippy::indexing_slicing,
    reason = "helpers of tests fail as tests do"
)]
#![allow(dead_code, reason = "the other suite plays more pages")]

#[cfg(test)]
mod compare;
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
    use crate::page::Page;
    use crate::play::play;
    use crate::stage::Runtime;

    #[test]
    fn the_first_five_minutes_are_true_on_docker() {
        let page = Page::read("docs/start.md");
        let played = play(&page, Runtime::Docker);
        played.tell("docs/start.md on Docker");
        assert!(played.ran > 5 && played.excused.len() < 4, "{played:?}");
    }
}
