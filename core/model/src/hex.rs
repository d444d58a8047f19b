//! Bytes as people compare them: two digits each.

/// Two lower-case digits per byte.
#[must_use]
pub fn hex(bytes: &[u8]) -> String {
    digits(bytes).map(char::from).collect()
}

/// The same, one after the other, for whoever has room of their own for them.
pub fn digits(bytes: &[u8]) -> impl Iterator<Item = u8> {
    let digit = |half: u8| if half < 10 { b'0' + half } else { b'a' - 10 + half };
    bytes.iter().flat_map(move |byte| [digit(byte >> 4), digit(byte & 15)])
}

/// The bytes again. There is one way to write them, so that what is read is what was written.
#[must_use]
pub fn unhex(text: &str) -> Option<Vec<u8>> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    let (pairs, []) = text.as_bytes().as_chunks::<2>() else { return None };
    pairs.iter().map(|[high, low]| Some((digit(*high)? << 4) | digit(*low)?)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_and_back_in_one_way_only() {
        assert_eq!(hex(&[0, 255, 16]), "00ff10");
        assert_eq!(unhex("00ff10"), Some(vec![0, 255, 16]));
        assert_eq!(unhex(""), Some(Vec::new()));
        for wrong in ["0", "00FF10", "0x", " 00", "0g", "\u{e4}"] {
            assert_eq!(unhex(wrong), None, "{wrong}");
        }
    }
}
