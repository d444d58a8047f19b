//! Any text at all: reading never panics, and what is let through is read back as the same.

use std::collections::BTreeMap;

use persys_compose::{Marks, Verdict, read};
use proptest::prelude::*;

/// Pieces of which files that are nearly right are put together.
const PIECES: &[&str] = &[
    "services",
    "web",
    "db",
    "image",
    "nginx",
    "command",
    "environment",
    "ports",
    "volumes",
    "data",
    "networks",
    "depends_on",
    "restart",
    "always",
    "deploy",
    "resources",
    "limits",
    "memory",
    "1g",
    "80:80",
    "8080",
    "data:/data",
    "/srv:/srv:ro",
    "${A}",
    "${A:-b}",
    "$$",
    "$",
    "x-a",
    "&a",
    "*a",
    "<<",
    "|",
    ">",
    "\"",
    "'",
    "!!str",
    "null",
    "~",
    "healthcheck",
    "test",
    "labels",
    "a=b",
    "tmpfs",
];

fn scrambled() -> impl Strategy<Value = String> {
    let piece = prop_oneof![
        8 => prop::sample::select(PIECES).prop_map(str::to_owned),
        1 => any::<char>().prop_map(String::from),
        3 => Just(": ".to_owned()),
        3 => (0_usize..5).prop_map(|n| format!("\n{}", "  ".repeat(n))),
        2 => (0_usize..5).prop_map(|n| format!("\n{}- ", "  ".repeat(n))),
        2 => prop::sample::select(&["{", "}", "[", "]", ", "][..]).prop_map(str::to_owned),
    ];
    prop::collection::vec(piece, 0..60).prop_map(|pieces| pieces.concat())
}

/// A file of the corpus with a few bytes put in other places.
fn damaged() -> impl Strategy<Value = String> {
    let corpus = [
        include_str!("../corpus/wordpress.yml"),
        include_str!("../corpus/gitea.yml"),
        include_str!("../corpus/monitoring.yml"),
        include_str!("../corpus/queue.yml"),
        include_str!("../corpus/proxy.yml"),
        include_str!("../corpus/migration.yml"),
        include_str!("../corpus/powers.yml"),
    ];
    let change = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0_usize..12);
    (prop::sample::select(corpus.to_vec()), prop::collection::vec(change, 0..4)).prop_map(
        |(text, changes)| {
            let mut bytes = text.as_bytes().to_vec();
            for (to, from, length) in changes {
                let (to, from) = (to.index(bytes.len()), from.index(bytes.len()));
                let piece: Vec<u8> = bytes.iter().skip(from).take(length).copied().collect();
                let end = (to + length).min(bytes.len());
                bytes.splice(to..end, piece);
            }
            String::from_utf8_lossy(&bytes).into_owned()
        },
    )
}

fn holds(text: &str) -> Result<(), TestCaseError> {
    let variables = [("A", "a $B ${C}"), ("MYSQL_ROOT_PASSWORD", "x"), ("DB_PASSWORD", "y")]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
    let reading = read(text, &variables);
    let refused = reading.findings.iter().any(|one| one.verdict == Verdict::Refused);
    prop_assert_eq!(reading.document.is_none(), refused, "refused if and only if there is none");
    let lines = u32::try_from(text.lines().count()).expect("few lines") + 1;
    prop_assert!(reading.findings.iter().all(|one| one.line <= lines), "a line beyond the file");
    if let Some(document) = reading.document {
        let marks =
            Marks { labels: [("l".to_owned(), "$m".to_owned())].into(), ..Marks::default() };
        let again = read(&document.emit(&marks), &BTreeMap::new());
        prop_assert_eq!(again.document, Some(document.as_run(&marks)), "{:?}", again.findings);
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]

    #[test]
    fn any_text_is_read(text in any::<String>()) {
        holds(&text)?;
    }

    #[test]
    fn nearly_a_file_is_read(text in scrambled()) {
        holds(&text)?;
    }

    #[test]
    fn a_damaged_file_is_read(text in damaged()) {
        holds(&text)?;
    }
}
