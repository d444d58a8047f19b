//! The compose program itself reads what is emitted, and fills in nothing.

#![expect(clippy::disallowed_types, reason = "asks the real program")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Stdio};

use persys_compose::{Marks, read};

/// What `docker-compose config` makes of `document`, with an environment of our choosing.
fn config(document: &str) -> String {
    let mut child = Command::new("docker-compose")
        .args(["-p", "persys-cli-test", "-f", "-", "config"])
        .current_dir(std::env::temp_dir())
        .env_clear()
        .envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/nonexistent")])
        .env("LEAK", "leaked")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("docker-compose is installed");
    let mut stdin = child.stdin.take().expect("its input");
    stdin.write_all(document.as_bytes()).expect("all of it");
    drop(stdin);
    let output = child.wait_with_output().expect("an end");
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}\n{document}");
    assert!(!said.contains("WARNING"), "{said}\n{document}");
    String::from_utf8(output.stdout).expect("text")
}

#[test]
fn every_file_of_the_corpus_is_read() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/corpus");
    let variables = [("MYSQL_ROOT_PASSWORD", "r"), ("DB_PASSWORD", "p")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let mut seen = 0;
    for entry in std::fs::read_dir(corpus).expect("the corpus") {
        let path = entry.expect("an entry").path();
        if path.extension().is_none_or(|ending| ending != "yml") {
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("a text");
        let Some(document) = read(&text, &variables).document else { continue };
        let labels = [("persys.managed".to_owned(), "true".to_owned())].into();
        let shown = config(&document.emit(&Marks { labels, ..Marks::default() }));
        assert!(shown.contains("persys.managed"), "{shown}");
        seen += 1;
    }
    assert!(seen >= 7, "only {seen} files");
}

#[test]
fn a_dollar_sign_stays_one_and_nothing_of_the_environment_comes_in() {
    let text = "
services:
  a:
    image: busybox
    command: ['echo', '$$LEAK', '$${LEAK}', $V]
    environment: {A: '$$LEAK', B: $V, C: 'it''s \"$$$$\" \\n ünï'}
    labels: {l: '${V}'}
";
    let variables = BTreeMap::from([("V".to_owned(), "${LEAK}-$$-$LEAK".to_owned())]);
    let document = read(text, &variables).document.expect("a document");
    let shown = config(&document.emit(&Marks::default()));
    assert!(!shown.contains("leaked"), "{shown}");
    // What is shown is a file again, so its dollar signs are doubled.
    let again = read(&shown, &BTreeMap::new()).document.expect("a document");
    let service = again.service("a").expect("the service");
    assert_eq!(service.environment["B"], "${LEAK}-$$-$LEAK");
    assert_eq!(service.environment["C"], "it's \"$$\" \\n ünï");
    assert_eq!(
        service.command.as_deref(),
        Some(&["echo", "$LEAK", "${LEAK}", "${LEAK}-$$-$LEAK"].map(str::to_owned)[..])
    );
    assert_eq!(service.labels["l"], "${LEAK}-$$-$LEAK");
}
