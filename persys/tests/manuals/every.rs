//! Every page there is.

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
