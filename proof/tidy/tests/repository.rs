//! This repository keeps its own rules.

use persys_tidy::{Finding, layers, requirements, sources, tree};

fn report(findings: &[Finding]) {
    let lines: Vec<_> = findings.iter().map(ToString::to_string).collect();
    assert!(lines.is_empty(), "{} findings:\n{}", lines.len(), lines.join("\n"));
}

#[test]
fn dependencies_follow_the_layers() {
    let files = tree::read(&tree::root()).unwrap();
    report(&layers::check(&files));
}

#[test]
fn sources_keep_their_proportions() {
    let files = tree::read(&tree::root()).unwrap();
    report(&sources::check(&files));
}

/// `PERSYS_BLESS=1` writes the page first.
#[test]
fn every_requirement_is_shown_or_says_why_not() {
    if std::env::var_os("PERSYS_BLESS").is_some() {
        let source = std::fs::read_to_string(tree::root().join(requirements::SOURCE)).unwrap();
        let page = requirements::page::write(&requirements::parse(&source).0);
        std::fs::write(tree::root().join(requirements::PAGE), page).unwrap();
    }
    let files = tree::read(&tree::root()).unwrap();
    report(&requirements::check(&files));
}
