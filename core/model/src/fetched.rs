//! The part of an image that is on its node while it is pulled.

use std::fmt;

const MIB: u64 = 1 << 20;

/// The state of a preparation. Amounts grow as the runtime learns of further parts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Fetched {
    /// Parts that are there.
    pub parts: u64,
    /// Parts there will be, as far as known.
    pub of_parts: u64,
    /// Bytes received of the parts whose size is known.
    pub bytes: u64,
    /// Size of those parts.
    pub of_bytes: u64,
}

/// `pulling image, 34 of 80 MiB`; by parts while no size is known, and where all is received.
impl fmt::Display for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { parts, of_parts, bytes, of_bytes } = self;
        if *of_bytes == 0 && parts >= of_parts {
            return write!(f, "pulling image");
        }
        if *of_bytes == 0 {
            return write!(f, "pulling image, {parts} of {of_parts} parts");
        }
        if bytes >= of_bytes {
            return write!(f, "unpacking image, {parts} of {of_parts} parts");
        }
        let (unit, name) = if *of_bytes < MIB { (1024, "KiB") } else { (MIB, "MiB") };
        write!(f, "pulling image, {} of {} {name}", bytes / unit, of_bytes.div_ceil(unit))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_told_where_they_are_known() {
        let told = |bytes, of_bytes| Fetched { parts: 2, of_parts: 5, bytes, of_bytes }.to_string();
        let known = Fetched { parts: 1, of_parts: 1, ..Fetched::default() };
        assert_eq!(known.to_string(), "pulling image", "further parts will be told");
        assert_eq!(told(0, 0), "pulling image, 2 of 5 parts");
        assert_eq!(told(34 * MIB + 5, 80 * MIB), "pulling image, 34 of 80 MiB");
        assert_eq!(told(10, 700 * 1024), "pulling image, 0 of 700 KiB");
        assert_eq!(told(80 * MIB, 80 * MIB), "unpacking image, 2 of 5 parts");
    }
}
