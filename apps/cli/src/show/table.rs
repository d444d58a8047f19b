//! Columns.

use comfy_table::presets::NOTHING;
use comfy_table::{ContentArrangement, Table};

/// Rows under a header, two spaces between columns, with the last line's end.
pub(crate) fn table(header: &[&str], rows: Vec<Vec<String>>) -> String {
    let mut table = Table::new();
    table.load_style(NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    table.set_header(header.to_vec());
    for row in rows {
        // A control character would break the columns, or the terminal.
        table.add_row(row.iter().map(|cell| clean(cell)).collect::<Vec<_>>());
    }
    let lines: Vec<String> = table.lines().map(|line| line.trim().to_owned()).collect();
    lines.join("\n") + "\n"
}

/// Names and values in two columns.
pub(crate) fn pairs(rows: &[(&str, String)]) -> String {
    let width = rows.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    let mut text = String::new();
    for (name, value) in rows.iter().filter(|(_, value)| !value.is_empty()) {
        let mut name = *name;
        for line in value.lines() {
            text.extend([format!("{name:width$}  {}\n", clean(line))]);
            name = "";
        }
    }
    text
}

/// Text of others as one line that cannot command a terminal.
pub(crate) fn clean(text: &str) -> String {
    text.chars().map(|letter| if letter.is_control() { ' ' } else { letter }).collect()
}

/// The beginning of a long text.
pub(crate) fn short(text: &str, most: usize) -> String {
    if text.chars().count() <= most {
        return text.to_owned();
    }
    let kept: String = text.chars().take(most.saturating_sub(1)).collect();
    format!("{kept}…")
}

/// What is empty is a dash.
pub(crate) fn or_dash(text: &str) -> String {
    if text.is_empty() { "-".to_owned() } else { text.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_they_must_be() {
        let rows = vec![
            vec!["web".to_owned(), "Running".to_owned()],
            vec!["a-long-name".to_owned(), "x\ty\u{1b}[2J".to_owned()],
        ];
        assert_eq!(
            table(&["ID", "STATUS"], rows),
            "ID           STATUS\nweb          Running\na-long-name  x y [2J\n"
        );
    }

    #[test]
    fn pairs_line_up_and_leave_out_what_is_empty() {
        let rows =
            [("status", "Running".to_owned()), ("node", String::new()), ("why", "a\nb".to_owned())];
        assert_eq!(pairs(&rows), "status  Running\nwhy     a\n        b\n");
        assert_eq!(short("abcdef", 4), "abc…");
    }
}
