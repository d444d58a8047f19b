use super::*;

fn file(path: &str, text: &str) -> SourceFile {
    SourceFile { path: path.to_owned(), text: text.to_owned() }
}

fn tree() -> Vec<SourceFile> {
    let tests = "#[test]\nfn it_runs() {}\n\n#[tokio::test(flavor = \"multi_thread\")]\n\
                 /// Slowly.\nasync fn it_waits() {}\n\nfn helps() {}\n\nconst ROWS: &[&str] = &[\"A_PORT\"];\n";
    let cases = "macro_rules! keeps {\n  #[tokio::test]\n}\nkeeps!(\n  lives_twice,\n);\n";
    vec![
        file("a/tests/one.rs", tests),
        file("a/tests/cases.rs", cases),
        file("a/tests/plain.rs", "fn f() {\n  lives_twice,\n}\n"),
        file("Makefile", ".PHONY: gone\ntest: lint   ## all\n\tmake other: x\nup down:\n"),
        file("hack/start", "#!/bin/sh\n"),
        file("docs/page.md", "# Page\n\n## A `word` of it\n"),
    ]
}

const HEADINGS: &str = "# Guide\n## 1. Part\n";

fn problems(lines: &str) -> Vec<String> {
    let source = format!("{HEADINGS}{lines}");
    let count = parse(&source).0.len();
    let found = check_source(&source, count, &tree());
    found.into_iter().map(|finding| finding.to_string()).collect()
}

#[test]
fn good_lines_pass() {
    let lines = "// why\n\na | holds | a/tests/one.rs::it_runs, a/tests/one.rs::it_waits\n\
                 b | holds | a/tests/one.rs::it_runs[A_PORT], a/tests/cases.rs!lives_twice\n\
                 c | differs | make test, make down | it is better | docs/page.md#a-word-of-it\n\
                 d | differs | - | it is not built | docs/page.md\n\
                 e | not here | hack/start | no such host\nf | not here | - | no such host\n";
    assert_eq!(problems(lines), Vec::<String>::new());
    let source = format!("{HEADINGS}{lines}");
    let (all, _) = parse(&source);
    assert_eq!(all.len(), 6);
    assert_eq!((all[0].line, all[0].document, all[0].part), (5, "Guide", "1. Part"));
    assert_eq!(all[0].evidence.len(), 2);
    assert_eq!((all[3].state, all[3].reason), (State::Differs, "it is not built"));
}

#[test]
fn each_bad_line_is_found() {
    for (line, problem) in [
        ("a", "its state must be"),
        ("a | works | a/tests/one.rs::it_runs", "its state must be"),
        ("a | holds", "must have a text and evidence"),
        (" | holds | a/tests/one.rs::it_runs", "must have a text"),
        ("a | holds | -", "nothing shows it"),
        ("a | holds | a/tests/one.rs::it_runs | why", "more fields"),
        ("a | not here | - | why | docs/page.md", "more fields"),
        ("a | holds | a/tests/two.rs::it_runs", "there is no file a/tests/two.rs"),
        ("a | holds | a/tests/one.rs::it_run", "has no test it_run"),
        ("a | holds | a/tests/one.rs::helps", "has no test helps"),
        ("a | holds | a/tests/one.rs::it_runs[PORT]", "has no case PORT"),
        ("a | holds | a/tests/one.rs", "is no reference"),
        ("a | holds | a/tests/cases.rs!lives", "no macro that makes a test lives"),
        ("a | holds | a/tests/plain.rs!lives_twice", "no macro that makes a test"),
        ("a | holds | make gone", "no target gone"),
        ("a | holds | make other", "no target other"),
        ("a | holds | hack/stop", "no script hack/stop"),
        ("a | differs | make test", "without a reason"),
        ("a | differs | make test | why", "no manual says so"),
        ("a | differs | make test | why | docs/other.md", "no manual docs/other.md"),
        ("a | differs | make test | why | docs/page.md#other", "no heading other"),
        ("a | not here | -", "without a reason"),
    ] {
        let found = problems(line);
        assert!(found.iter().any(|text| text.contains(problem)), "{line}: {found:?}");
        assert!(found.iter().all(|text| text.contains("requirements.txt:3")), "{found:?}");
    }
}

#[test]
fn a_missing_a_doubled_and_a_homeless_statement_are_found() {
    let good = "a | holds | make test\n";
    let count = |source: &str| check_source(source, 2, &tree());
    let one = count(&format!("{HEADINGS}{good}"));
    assert!(one.iter().any(|finding| finding.problem == "has 1 statements instead of 2"));
    let twice = count(&format!("{HEADINGS}{good}{good}"));
    assert!(twice.iter().any(|finding| finding.problem == "stands in line 3 already"));
    let homeless = count(&format!("# Guide\n{good}"));
    assert!(homeless.iter().any(|finding| finding.problem.contains("no part")), "{homeless:?}");
}

#[test]
fn a_stale_page_is_found() {
    let mut files = tree();
    let missing = check(&files);
    assert!(missing[0].problem == "is missing", "{missing:?}");
    files.push(file(SOURCE, &format!("{HEADINGS}a | holds | make test\n")));
    let stale = |files: &[SourceFile]| check(files).iter().any(|finding| finding.path == PAGE);
    assert!(stale(&files), "there is no page");
    let source = files.last().unwrap().text.clone();
    files.push(file(PAGE, &page::write(&parse(&source).0)));
    assert!(!stale(&files));
    files.last_mut().unwrap().text.push_str("more\n");
    assert!(stale(&files));
}

#[test]
fn the_page_has_every_statement_with_its_links() {
    let source = "# Guide\n## 1. Part\na <b> | holds | a/tests/one.rs::it_runs, make test\n\
                  # Other\n## 2. Part\nc | differs | a/x.rs!case | why | docs/page.md#h\n\
                  d | not here | - | none here\n";
    let page = page::write(&parse(source).0);
    for line in [
        "| Guide | 1 | 0 | 0 | 1 |",
        "| Other | 0 | 1 | 1 | 2 |",
        "| all | 1 | 1 | 1 | 3 |",
        "| a <b> | holds | [`it_runs`](../a/tests/one.rs)<br>[`make test`](../Makefile) |",
        "| c | differs | why ([page.md](page.md#h))<br>[`case`](../a/x.rs) |",
        "| d | not here | none here |",
    ] {
        assert!(page.lines().any(|shown| shown == line), "{line} is not in\n{page}");
    }
    assert_eq!(page.matches("### ").count(), 2);
}
