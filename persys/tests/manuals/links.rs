//! Links between pages: to a file that is there, and to a heading in it.

use std::collections::BTreeSet;
use std::path::Path;

use crate::page::root;

/// The links of a page that lead nowhere. Those to other hosts are not followed.
pub(crate) fn broken(name: &str) -> Vec<String> {
    let here = root().join(name);
    let folder = here.parent().unwrap();
    let text = std::fs::read_to_string(&here).unwrap();
    let links = links(&text).into_iter().filter(|link| !link.contains("://"));
    let is_broken = |link: &String| {
        let (file, heading) = link.split_once('#').unwrap_or((link, ""));
        let target = if file.is_empty() { here.clone() } else { folder.join(file) };
        !target.exists() || !(heading.is_empty() || headings(&target).contains(heading))
    };
    links.filter(is_broken).map(|link| format!("{name}: {link}")).collect()
}

/// Lines of prose: no block of code.
fn prose(text: &str) -> Vec<&str> {
    let mut inside = false;
    let is_prose = |line: &&str| {
        let fence = line.starts_with("```");
        inside ^= fence;
        !inside && !fence
    };
    text.lines().filter(is_prose).collect()
}

fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    for line in prose(text) {
        let targets = line.split("](").skip(1).filter_map(|rest| rest.split(')').next());
        found.extend(targets.map(str::to_owned));
    }
    found
}

/// The headings of a page as links name them.
fn headings(page: &Path) -> BTreeSet<String> {
    let text = std::fs::read_to_string(page).unwrap_or_default();
    let headings = prose(&text).into_iter().filter(|line| line.starts_with('#'));
    headings.map(|line| slug(line.trim_start_matches('#').trim())).collect()
}

fn slug(heading: &str) -> String {
    let kept = heading.chars().filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.collect::<String>().to_lowercase().replace(' ', "-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_are_found_in_prose_alone() {
        let text = "a [b](c.md) ![d](e#f-g)\n```\n[h](i)\n```\n[j](#k)";
        assert_eq!(links(text), ["c.md", "e#f-g", "#k"]);
        assert_eq!(slug("Who may do what, and `why`"), "who-may-do-what-and-why");
    }
}
