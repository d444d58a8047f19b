//! Compose files other people wrote: what becomes of every key, without a cluster.
//!
//! What is to be found stands in `corpus.findings`, line by line. To accept a change on purpose, run the
//! test with `PERSYS_BLESS=1` and look at the difference.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use crate::rig::{tell_words, world};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus")
}

fn projects() -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut folders: Vec<_> = entries.filter(|path| path.is_dir()).collect();
    folders.sort();
    folders
}

#[tokio::test]
async fn thirty_seven_of_thirty_nine_run_as_they_are() {
    let home = tempfile::tempdir().unwrap();
    let projects = projects();
    assert_eq!(projects.len(), 39, "the corpus is missing");
    let (mut found, mut run) = (String::new(), 0);
    for project in &projects {
        let path = project.display().to_string();
        let mut world = world(home.path(), "");
        world.env.insert("HOME".to_owned(), home.path().display().to_string());
        let told = tell_words(&world, &["compose", "check", &path, "-o", "json"]).await;
        let told = told.json();
        let name = project.file_name().unwrap().to_string_lossy();
        let can_run = told["can_run"] == true;
        run += usize::from(can_run);
        let word = if can_run { "runs" } else { "is refused" };
        writeln!(found, "{name} {word}").unwrap();
        for finding in told["findings"].as_array().unwrap() {
            let text = |key: &str| finding[key].as_str().unwrap_or_default().to_owned();
            let why =
                if text("why").is_empty() { String::new() } else { format!(": {}", text("why")) };
            writeln!(found, "  {} {} {}{why}", finding["line"], text("key"), text("verdict"))
                .unwrap();
        }
    }
    println!("{run} of {} Compose files of the corpus run as they are", projects.len());
    assert!(run >= 37, "only {run}:\n{found}");
    let expected = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/commands/corpus.findings");
    if std::env::var("PERSYS_BLESS").is_ok() {
        std::fs::write(&expected, &found).unwrap();
    }
    let expected = std::fs::read_to_string(expected).unwrap();
    for (found, expected) in found.lines().zip(expected.lines()) {
        assert_eq!(found, expected);
    }
    assert_eq!(found, expected);
    // Whoever is refused is told the rule and the way out.
    for (at, line) in found.lines().enumerate().filter(|(_, line)| line.ends_with("is refused")) {
        let why = found.lines().skip(at + 1).take_while(|line| line.starts_with(' '));
        let why: Vec<_> =
            why.filter(|w| w.contains(" refused") || w.contains(" withheld")).collect();
        assert_eq!(why.len(), 1, "{line}");
        assert!(
            why[0].contains("is a socket of the node") && why[0].contains("(rule withheld-paths)")
        );
    }
}
