//! XDR (RFC 4506), as much of it as libvirt speaks: big-endian words, everything padded to four
//! bytes.
//!
//! What is read comes from another process, so every length is held against a limit and against
//! what is really there before anything is set aside for it.

use bytes::Bytes;

/// Longest string that libvirt itself takes.
pub(crate) const STRING_MOST: usize = 4 * 1024 * 1024;

/// Why bytes could not be read.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Malformed {
    /// They end in the middle of something.
    #[error("it ends after {at} bytes, in the middle of {what}")]
    Short {
        /// Where reading stood.
        at: usize,
        /// What was being read.
        what: &'static str,
    },
    /// A length is beyond what is allowed.
    #[error("{what} of {length} is longer than {most}")]
    Long {
        /// What was being read.
        what: &'static str,
        /// The length it claims.
        length: usize,
        /// The most it may have.
        most: usize,
    },
    /// A word has a value that means nothing.
    #[error("{value} is no {what}")]
    Senseless {
        /// What it should be.
        what: &'static str,
        /// What it is.
        value: u32,
    },
    /// Something is left when everything was read.
    #[error("{left} bytes are left over")]
    Rest {
        /// How much.
        left: usize,
    },
}

/// Reads values from bytes, front to back.
#[derive(Debug)]
pub(crate) struct Reader {
    /// What is left.
    bytes: Bytes,
    at: usize,
}

impl Reader {
    pub(crate) fn new(bytes: Bytes) -> Self {
        Self { bytes, at: 0 }
    }

    fn take(&mut self, length: usize, what: &'static str) -> Result<Bytes, Malformed> {
        if length > self.bytes.len() {
            return Err(Malformed::Short { at: self.at + self.bytes.len(), what });
        }
        self.at += length;
        Ok(self.bytes.split_to(length))
    }

    fn array<const N: usize>(&mut self, what: &'static str) -> Result<[u8; N], Malformed> {
        let mut array = [0; N];
        array.copy_from_slice(&self.take(N, what)?);
        Ok(array)
    }

    pub(crate) fn u32(&mut self) -> Result<u32, Malformed> {
        self.array("a number").map(u32::from_be_bytes)
    }

    pub(crate) fn i32(&mut self) -> Result<i32, Malformed> {
        self.array("a number").map(i32::from_be_bytes)
    }

    pub(crate) fn u64(&mut self) -> Result<u64, Malformed> {
        self.array("a long number").map(u64::from_be_bytes)
    }

    pub(crate) fn i64(&mut self) -> Result<i64, Malformed> {
        self.array("a long number").map(i64::from_be_bytes)
    }

    pub(crate) fn f64(&mut self) -> Result<f64, Malformed> {
        self.array("a fraction").map(f64::from_be_bytes)
    }

    pub(crate) fn boolean(&mut self) -> Result<bool, Malformed> {
        match self.u32()? {
            0 => Ok(false),
            1 => Ok(true),
            value => Err(Malformed::Senseless { what: "yes or no", value }),
        }
    }

    /// Bytes whose number is known.
    pub(crate) fn fixed<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let array = self.array("fixed bytes")?;
        self.padding(N)?;
        Ok(array)
    }

    fn padding(&mut self, length: usize) -> Result<(), Malformed> {
        self.take(pad(length), "padding").map(|_| ())
    }

    fn length(&mut self, what: &'static str, most: usize) -> Result<usize, Malformed> {
        let length = usize::try_from(self.u32()?).unwrap_or(usize::MAX);
        if length > most {
            return Err(Malformed::Long { what, length, most });
        }
        Ok(length)
    }

    /// A text. What is no UTF-8 in it is replaced: what somebody else calls his machine must not
    /// make the list of ours unreadable.
    pub(crate) fn text(&mut self) -> Result<String, Malformed> {
        let length = self.length("a text", STRING_MOST)?;
        let bytes = self.take(length, "a text")?;
        self.padding(length)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Something that may be missing.
    pub(crate) fn optional<T>(
        &mut self,
        read: impl FnOnce(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Option<T>, Malformed> {
        if self.boolean()? { read(self).map(Some) } else { Ok(None) }
    }

    /// A list of at most `most`. Nothing is set aside for what is only claimed to come.
    pub(crate) fn list<T>(
        &mut self,
        most: usize,
        mut read: impl FnMut(&mut Self) -> Result<T, Malformed>,
    ) -> Result<Vec<T>, Malformed> {
        let length = self.length("a list", most)?;
        let mut list = Vec::new();
        for _ in 0..length {
            list.push(read(self)?);
        }
        Ok(list)
    }

    /// Everything must have been read.
    pub(crate) fn end(&mut self) -> Result<(), Malformed> {
        match self.bytes.len() {
            0 => Ok(()),
            left => Err(Malformed::Rest { left }),
        }
    }
}

/// Writes values, one after the other.
#[derive(Debug, Default)]
pub(crate) struct Writer(Vec<u8>);

impl Writer {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    pub(crate) fn u32(mut self, value: u32) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(crate) fn i32(mut self, value: i32) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(crate) fn u64(mut self, value: u64) -> Self {
        self.0.extend_from_slice(&value.to_be_bytes());
        self
    }

    pub(crate) fn fixed(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self.0.resize(self.0.len() + pad(bytes.len()), 0);
        self
    }

    pub(crate) fn text(self, text: &str) -> Self {
        // No text of ours comes near the limit of a frame, which is checked when it is sent.
        let length = u32::try_from(text.len()).unwrap_or(u32::MAX);
        self.u32(length).fixed(text.as_bytes())
    }

    pub(crate) fn optional_text(self, text: Option<&str>) -> Self {
        match text {
            Some(text) => self.u32(1).text(text),
            None => self.u32(0),
        }
    }

    pub(crate) fn done(self) -> Vec<u8> {
        self.0
    }
}

fn pad(length: usize) -> usize {
    (4 - length % 4) % 4
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reader(bytes: &[u8]) -> Reader {
        Reader::new(Bytes::copy_from_slice(bytes))
    }

    #[test]
    fn what_is_written_is_read() {
        let bytes = Writer::new().u32(7).i32(-1).u64(1 << 40).text("abcde").optional_text(None);
        let bytes = bytes.optional_text(Some("")).fixed(&[9; 16]).done();
        assert_eq!(bytes.len() % 4, 0);
        let mut reader = reader(&bytes);
        assert_eq!((reader.u32(), reader.i32(), reader.u64()), (Ok(7), Ok(-1), Ok(1 << 40)));
        assert_eq!(reader.text().as_deref(), Ok("abcde"));
        assert_eq!(reader.optional(Reader::text), Ok(None));
        assert_eq!(reader.optional(Reader::text), Ok(Some(String::new())));
        assert_eq!(reader.fixed(), Ok([9; 16]));
        assert_eq!(reader.end(), Ok(()));
    }

    #[test]
    fn bytes_cut_anywhere_are_refused() {
        let bytes = Writer::new().text("abcde").u64(3).done();
        for cut in 0..bytes.len() {
            let mut reader = reader(&bytes[..cut]);
            let read = reader.text().and_then(|_| reader.u64());
            assert!(matches!(read, Err(Malformed::Short { .. })), "{cut}: {read:?}");
        }
        let mut reader = reader(&bytes);
        reader.text().unwrap();
        assert_eq!(reader.end(), Err(Malformed::Rest { left: 8 }));
    }

    #[test]
    fn a_claimed_length_sets_nothing_aside() {
        let huge = Writer::new().u32(u32::MAX).done();
        assert!(matches!(reader(&huge).text(), Err(Malformed::Long { .. })));
        assert!(matches!(reader(&huge).list(100, Reader::u32), Err(Malformed::Long { .. })));
        let within = Writer::new().u32(1_000_000).done();
        assert!(matches!(reader(&within).text(), Err(Malformed::Short { .. })));
        let many = reader(&within).list(2_000_000, Reader::u32);
        assert!(matches!(many, Err(Malformed::Short { .. })));
    }

    #[test]
    fn senseless_words_are_refused() {
        let two = Writer::new().u32(2).done();
        assert!(matches!(reader(&two).boolean(), Err(Malformed::Senseless { .. })));
        let text = Writer::new().u32(2).fixed(&[0xff, b'a']).done();
        assert_eq!(reader(&text).text().as_deref(), Ok("\u{fffd}a"));
    }
}
