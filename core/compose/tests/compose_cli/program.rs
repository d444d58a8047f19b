//! The compose program itself reads what is emitted, and fills in nothing.

#![expect(clippy::disallowed_types, reason = "asks the real program")]

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;
use std::process::{Command, Output, Stdio};

use persys_compose::{Marks, read};

/// What `docker-compose config` makes of `document`.
fn config(document: &str) -> String {
    program("persys-cli-test", &["config"], document)
}

/// What the program says of `document`, which it must take without a warning.
fn program(project: &str, words: &[&str], document: &str) -> String {
    let output = ask(project, words, document);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{said}\n{document}");
    assert!(!said.contains("WARNING"), "{said}\n{document}");
    String::from_utf8(output.stdout).expect("text")
}

/// Gives `document` to the program, with an environment of our choosing.
fn ask(project: &str, words: &[&str], document: &str) -> Output {
    let mut child = Command::new("docker-compose")
        .args(["-p", project, "-f", "-"])
        .args(words)
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
    child.wait_with_output().expect("an end")
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

/// A stack that is gone when the test ends, however it ends.
struct Stack {
    project: String,
    document: String,
}

impl Drop for Stack {
    fn drop(&mut self) {
        let ended = ask(&self.project, &["down", "-v", "-t", "0"], &self.document);
        assert!(ended.status.success() || std::thread::panicking(), "{ended:?}");
    }
}

impl Stack {
    fn inspect(&self, service: &str, format: &str) -> String {
        let name = format!("{}_{service}_1", self.project);
        let output = Command::new("docker").args(["inspect", "--format", format, &name]).output();
        String::from_utf8(output.expect("docker").stdout).expect("text").trim().to_owned()
    }
}

#[test]
fn everything_at_once_goes_up() {
    let own = std::process::id();
    let variables = BTreeMap::from([
        ("PORT".to_owned(), (20_000 + own % 10_000).to_string()),
        ("NET".to_owned(), format!("10.{}.{}", 200 + own % 50, own / 50 % 250)),
    ]);
    let reading = read(include_str!("everything.yml"), &variables);
    let document = reading.document.unwrap_or_else(|| panic!("{:?}", reading.findings));
    let labels = [("persys.managed".to_owned(), "compose-cli-test".to_owned())].into();
    let document = document.emit(&Marks { labels, ..Marks::default() });
    let stack = Stack { project: format!("persys-everything-{own}"), document };
    program(&stack.project, &["up", "-d"], &stack.document);
    assert_eq!(stack.inspect("one", "{{.State.Health.Status}}"), "healthy");
    assert_eq!(stack.inspect("job", "{{.State.Status}} {{.State.ExitCode}}"), "exited 0");
    assert_eq!(stack.inspect("after", "{{.State.Status}}"), "running");
    let limits = "{{.HostConfig.PidsLimit}} {{.HostConfig.NanoCpus}} {{.HostConfig.Memory}}";
    assert_eq!(stack.inspect("one", limits), "50 250000000 67108864");
    assert_eq!(stack.inspect("job", "{{.HostConfig.PidsLimit}}"), "4096");
    let kept = "{{.HostConfig.RestartPolicy.Name}} {{index .Config.Labels \"persys.managed\"}}";
    assert_eq!(stack.inspect("one", kept), "no compose-cli-test");
    assert_eq!(stack.inspect("one", "{{index .Config.Labels \"a$b\"}}"), "c$d");
    assert_eq!(stack.inspect("one", "{{index .Config.Env 0}}"), "A=x$y");
    assert_eq!(stack.inspect("job", "{{.HostConfig.CapDrop}}"), "[NET_RAW]");
}
