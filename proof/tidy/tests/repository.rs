//! This repository keeps its own rules.

use persys_tidy::{Finding, layers, sources, tree};

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
