//! Texts that come plain or as base64.
//!
//! The rule: a text made only of the base64 alphabet and white space is base64, anything else is
//! plain. It cannot misjudge what we take: a compose file is a mapping and has a `:`, user-data
//! starts with `#` or a MIME header (`Content-Type:`), and neither `:` nor `#` is in the alphabet.
//! A text of that alphabet which then does not decode is refused rather than guessed at.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::at::At;
use super::text::{is_clean_text, length};

/// The plain text behind `given`, at most `most` bytes long. Never quotes it.
pub(super) fn plain_or_base64(at: &At<'_>, given: &str, most: usize) -> Option<String> {
    // Base64 takes 4/3 of the bytes and its line breaks at most as many again.
    length(at, given.len(), most.saturating_mul(2))?;
    let text = if is_base64_alphabet(given) { decoded(at, given)? } else { given.to_owned() };
    plain(at, &text, most)?;
    Some(text)
}

/// `text` itself, if it can be kept in a text file. Never quotes it.
pub(super) fn plain<'t>(at: &At<'_>, text: &'t str, most: usize) -> Option<&'t str> {
    length(at, text.len(), most)?;
    if !is_clean_text(text) {
        return at.refuse("has a control character in it");
    }
    Some(text)
}

fn is_base64_alphabet(text: &str) -> bool {
    let mut bytes = text.bytes().filter(|b| !b.is_ascii_whitespace()).peekable();
    bytes.peek().is_some()
        && bytes.all(|b| b.is_ascii_alphanumeric() || matches!(b, b'+' | b'/' | b'='))
}

fn decoded(at: &At<'_>, given: &str) -> Option<String> {
    let packed: Vec<u8> = given.bytes().filter(|b| !b.is_ascii_whitespace()).collect();
    let Ok(bytes) = STANDARD.decode(packed) else {
        return at.refuse("is neither plain text of its kind nor well-formed base64");
    };
    match String::from_utf8(bytes) {
        Ok(text) => Some(text),
        Err(_) => at.refuse("is base64 of something that is not UTF-8 text"),
    }
}
