//! What can be said about a page by looking at all of it: whether everything has a name, whether
//! everything can be read, whether it fits.

use serde_json::Value;

use crate::tab::Tab;

/// Finds what is wrong with the page that is shown, as sentences.
const FAULTS: &str = include_str!("looks.js");

/// Asserts that nothing is wrong with the page that is shown.
pub async fn assert_sound(tab: &Tab, page: &str) {
    let found = tab.run(FAULTS).await;
    let faults: Vec<_> = found.as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    assert!(faults.is_empty(), "{page}: {faults:#?}");
}
