//! Small matters of text.

use percent_encoding::percent_decode_str;

/// Most parameters of one query.
const MOST_PARAMETERS: usize = 64;

/// The parameters of a query in their order; `None` for one that is not text, or too long.
pub(crate) fn query(raw: &str) -> Option<Vec<(String, String)>> {
    let parts: Vec<_> = raw.split('&').filter(|part| !part.is_empty()).collect();
    if parts.len() > MOST_PARAMETERS {
        return None;
    }
    let plain = |text: &str| {
        let text = text.replace('+', " ");
        percent_decode_str(&text).decode_utf8().ok().map(std::borrow::Cow::into_owned)
    };
    let pair = |part: &str| {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        Some((plain(name)?, plain(value)?))
    };
    parts.into_iter().map(pair).collect()
}

/// Text that is safe inside HTML, also within quotes.
pub(crate) fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for letter in text.chars() {
        match letter {
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '&' => safe.push_str("&amp;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            other => safe.push(other),
        }
    }
    safe
}

/// The bytes that hexadecimal digits mean.
pub(crate) fn unhex(text: &str) -> Option<Vec<u8>> {
    if !text.bytes().all(|byte| byte.is_ascii_hexdigit()) || !text.len().is_multiple_of(2) {
        return None;
    }
    let pairs = (0..text.len()).step_by(2).map(|at| text.get(at..at + 2));
    pairs.map(|pair| u8::from_str_radix(pair?, 16).ok()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn queries_are_taken_apart() {
        let pairs = query("a=1&b=x+y%2Fz&c&&a=2").unwrap();
        let wanted = [("a", "1"), ("b", "x y/z"), ("c", ""), ("a", "2")];
        assert_eq!(pairs, wanted.map(|(name, value)| (name.to_owned(), value.to_owned())));
        assert!(query("a=%ff").is_none());
        assert!(query(&"a&".repeat(65)).is_none());
    }

    #[test]
    fn digits_and_bytes_are_the_same() {
        assert_eq!(unhex("00ff10").unwrap(), [0, 255, 16]);
        for bad in ["0", "0g", "\u{e9}0", "+1"] {
            assert!(unhex(bad).is_none(), "{bad}");
        }
    }
}
