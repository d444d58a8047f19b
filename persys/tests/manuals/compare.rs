//! Whether a command printed what its page shows.
//!
//! Lines must be the same, with any blanks between words. `...` inside a line stands for any text, a
//! line of its own for any lines.

/// The first line of the page that was not printed, or the first that was printed beyond it.
pub(crate) fn compare(page: &[String], printed: &str) -> Result<(), String> {
    let printed: Vec<String> =
        printed.lines().map(squeezed).filter(|line| !line.is_empty()).collect();
    let wanted: Vec<String> = page.iter().map(|l| squeezed(l)).filter(|l| !l.is_empty()).collect();
    if matches_all(&wanted, &printed) {
        return Ok(());
    }
    let lost =
        wanted.iter().find(|line| *line != "..." && !printed.iter().any(|found| fits(line, found)));
    Err(match lost {
        Some(line) => format!("the page shows {line:?}, which was not printed"),
        None => "the lines of the page were printed, but in another order or with more".to_owned(),
    })
}

fn squeezed(line: &str) -> String {
    line.split_whitespace().collect::<Vec<_>>().join(" ")
}

fn matches_all(wanted: &[String], printed: &[String]) -> bool {
    match (wanted, printed) {
        ([], rest) => rest.is_empty(),
        ([any, rest @ ..], _) if any == "..." => {
            (0..=printed.len()).any(|skipped| matches_all(rest, &printed[skipped..]))
        }
        ([_, ..], []) => false,
        ([line, wanted @ ..], [found, printed @ ..]) => {
            fits(line, found) && matches_all(wanted, printed)
        }
    }
}

/// Whether a line is the one of the page, where `...` stands for any text.
fn fits(line: &str, found: &str) -> bool {
    let mut parts = line.split("...");
    let Some(mut rest) = parts.next().and_then(|start| found.strip_prefix(start)) else {
        return false;
    };
    let mut parts: Vec<_> = parts.collect();
    let Some(last) = parts.pop() else { return rest.is_empty() };
    for part in parts {
        let Some(at) = rest.find(part) else { return false };
        rest = &rest[at + part.len()..];
    }
    rest.ends_with(last)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn same(page: &str, printed: &str) -> bool {
        let page: Vec<_> = page.lines().map(str::to_owned).collect();
        compare(&page, printed).is_ok()
    }

    #[test]
    fn dots_stand_for_anything_and_nothing_else_does() {
        assert!(same("a   b", "a b\n"));
        assert!(same("web ... n1", "web  Running  n1"));
        assert!(same("...\nlast", "one\ntwo\nlast"));
        assert!(same("first\n...", "first"));
        assert!(same("a...c...e", "abcde"));
        assert!(!same("a...c...e", "abce f"));
        assert!(!same("web", "web Running"));
        assert!(!same("first", "first\nsecond"));
        assert!(!same("second\n...\nfirst", "first\nsecond"));
        assert!(!same("one", ""));
    }
}
