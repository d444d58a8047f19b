//! Proportions, names and documents.

use crate::Finding;
use crate::tree::SourceFile;

/// Longest source file; tests and generated code do not count.
const MOST_LINES: usize = 500;
/// Longest `main.rs`: an executable only parses and composes.
const MOST_MAIN_LINES: usize = 60;
/// Names that say nothing.
const EMPTY_NAMES: &[&str] = &["utils", "util", "helpers", "helper", "common", "misc", "manager"];

/// Everything wrong with the sources.
pub fn check(files: &[SourceFile]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let mut find = |file: &SourceFile, problem: String| {
        findings.push(Finding { path: file.path.clone(), problem });
    };
    let is_source = |file: &&SourceFile| file.path.rsplit_once('.').is_some_and(|(_, e)| e == "rs");
    for file in files.iter().filter(is_source) {
        let lines = file.text.lines().count();
        let is_test = file.path.contains("/tests/") || file.path.ends_with("/tests.rs");
        if lines > MOST_LINES && !is_test {
            find(file, format!("has {lines} lines; does it hold two things?"));
        }
        if file.path.ends_with("/main.rs") && lines > MOST_MAIN_LINES {
            find(file, format!("has {lines} lines; an executable only parses and composes"));
        }
        let stems = file.path.trim_end_matches(".rs").split('/');
        for name in stems.filter(|stem| EMPTY_NAMES.contains(stem)) {
            find(file, format!("{name} says nothing about what it holds"));
        }
        if !is_test && !file.text.starts_with("//!") {
            find(file, "must open with its purpose: //! ...".to_owned());
        }
        for hole in [concat!("to", "do!("), concat!("unimpl", "emented!("), concat!("#[ig", "nore")]
        {
            if file.text.contains(hole) {
                find(file, format!("contains {hole}"));
            }
        }
    }
    findings.extend(check_map(files));
    findings
}

/// ARCHITECTURE.md names every crate, and every folder it names exists.
fn check_map(files: &[SourceFile]) -> Vec<Finding> {
    let path = "ARCHITECTURE.md".to_owned();
    let Some(map) = files.iter().find(|file| file.path == path) else {
        return vec![Finding { path, problem: "is missing".to_owned() }];
    };
    let crates = files.iter().filter_map(|file| file.path.strip_suffix("/Cargo.toml"));
    let unnamed = crates
        .filter(|folder| !map.text.contains(&format!("`{folder}`")))
        .map(|folder| format!("does not name the crate `{folder}`"));
    let named = map.text.split('`').skip(1).step_by(2).filter(|word| {
        let layer = word.split('/').next().unwrap_or_default();
        word.contains('/') && matches!(layer, "core" | "adapters" | "apps" | "proof" | "docs")
    });
    let missing = named
        .filter(|word| !files.iter().any(|file| file.path.starts_with(word.trim_end_matches('/'))))
        .map(|word| format!("names `{word}`, which does not exist"));
    unnamed.chain(missing).map(|problem| Finding { path: path.clone(), problem }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    #[test]
    fn each_fault_is_found() {
        let files = [
            file("ARCHITECTURE.md", "`core/a` and `core/gone/x.rs`"),
            file("core/a/Cargo.toml", ""),
            file("core/b/Cargo.toml", ""),
            file("core/a/src/lib.rs", "use std;"),
            file("core/a/src/utils.rs", "//! x"),
            file("core/a/src/long.rs", &format!("//! x\n{}", "\n".repeat(600))),
            file("core/a/src/tests/long.rs", &"\n".repeat(600)),
        ];
        let problems: Vec<_> = check(&files).into_iter().map(|f| f.to_string()).collect();
        for wanted in [
            "core/a/src/lib.rs: must open",
            "core/a/src/utils.rs: utils says nothing",
            "core/a/src/long.rs: has 601 lines",
            "ARCHITECTURE.md: does not name the crate `core/b`",
            "ARCHITECTURE.md: names `core/gone/x.rs`",
        ] {
            assert!(problems.iter().any(|p| p.starts_with(wanted)), "{wanted} in {problems:#?}");
        }
        assert_eq!(problems.len(), 5, "{problems:#?}");
    }
}
