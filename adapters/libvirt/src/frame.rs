//! Frames: how messages lie on the connection.
//!
//! ```text
//!   length  program  version  procedure  kind  serial  status  body …
//!   the length counts itself; all words are big-endian
//! ```

use bytes::{Buf, BufMut, Bytes, BytesMut};
use tokio::io::{AsyncRead, AsyncReadExt};

use crate::xdr::Malformed;

/// The word "length" and the header.
const HEAD: usize = 28;
/// Longest message that libvirt itself sends or takes, with its length.
pub(crate) const MOST: usize = 32 * 1024 * 1024 + 4;

/// The calls of every driver.
pub(crate) const REMOTE: u32 = 0x2000_8086;
/// The calls that only QEMU has.
pub(crate) const QEMU: u32 = 0x2000_8087;
/// Questions whether the other side is still there.
pub(crate) const KEEPALIVE: u32 = 0x6b65_6570;
pub(crate) const VERSION: u32 = 1;
pub(crate) const PING: u32 = 1;
pub(crate) const PONG: u32 = 2;

/// What a message is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Call,
    Reply,
    /// Nobody asked for it: an event.
    Event,
    /// A piece of a stream.
    Stream,
}

/// How the sender stands to what was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Ok,
    Error,
    /// More of a stream comes.
    Continue,
}

/// One message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Frame {
    pub(crate) program: u32,
    pub(crate) procedure: u32,
    pub(crate) kind: Kind,
    pub(crate) serial: u32,
    pub(crate) status: Status,
    pub(crate) body: Bytes,
}

impl Frame {
    /// The bytes of it; an error if it is longer than libvirt takes.
    pub(crate) fn bytes(&self) -> Result<Bytes, Malformed> {
        let length = HEAD + self.body.len();
        let too_long = Malformed::Long { what: "a message", length, most: MOST };
        let word = u32::try_from(length).ok().filter(|_| length <= MOST).ok_or(too_long)?;
        let kind = match self.kind {
            Kind::Call => 0,
            Kind::Reply => 1,
            Kind::Event => 2,
            Kind::Stream => 3,
        };
        let status = match self.status {
            Status::Ok => 0,
            Status::Error => 1,
            Status::Continue => 2,
        };
        let mut bytes = BytesMut::with_capacity(length);
        for word in [word, self.program, VERSION, self.procedure, kind, self.serial, status] {
            bytes.put_u32(word);
        }
        bytes.put_slice(&self.body);
        Ok(bytes.freeze())
    }

    /// Reads what follows the length.
    fn read(mut bytes: Bytes) -> Result<Self, Malformed> {
        let (program, version, procedure) = (bytes.get_u32(), bytes.get_u32(), bytes.get_u32());
        let (kind, serial, status) = (bytes.get_u32(), bytes.get_u32(), bytes.get_u32());
        if version != VERSION {
            return Err(Malformed::Senseless { what: "version of the protocol", value: version });
        }
        let kind = match kind {
            0 => Kind::Call,
            1 => Kind::Reply,
            2 => Kind::Event,
            3 => Kind::Stream,
            value => return Err(Malformed::Senseless { what: "kind of message", value }),
        };
        let status = match status {
            0 => Status::Ok,
            1 => Status::Error,
            2 => Status::Continue,
            value => return Err(Malformed::Senseless { what: "status", value }),
        };
        Ok(Self { program, procedure, kind, serial, status, body: bytes })
    }
}

/// Why no further message comes.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Ended {
    #[error("libvirt closed the connection")]
    Closed,
    #[error("{0}")]
    Io(#[from] std::io::Error),
    #[error("libvirt sent what is no message: {0}")]
    Malformed(#[from] Malformed),
}

/// The next message.
pub(crate) async fn next(source: &mut (impl AsyncRead + Unpin)) -> Result<Frame, Ended> {
    let word = match source.read_u32().await {
        Ok(word) => word,
        Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => {
            return Err(Ended::Closed);
        }
        Err(error) => return Err(error.into()),
    };
    let length = usize::try_from(word).unwrap_or(usize::MAX);
    if length < HEAD {
        return Err(Malformed::Short { at: length, what: "a header" }.into());
    }
    if length > MOST {
        return Err(Malformed::Long { what: "a message", length, most: MOST }.into());
    }
    // Room is made as bytes arrive, not for what the length only claims.
    let mut bytes = BytesMut::new();
    let mut rest = source.take(u64::from(word) - 4);
    while bytes.len() < length - 4 {
        if rest.read_buf(&mut bytes).await? == 0 {
            return Err(Ended::Closed);
        }
    }
    Ok(Frame::read(bytes.freeze())?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frame() -> Frame {
        Frame {
            program: REMOTE,
            procedure: 66,
            kind: Kind::Call,
            serial: 3,
            status: Status::Ok,
            body: Bytes::from_static(&[1, 2, 3, 4]),
        }
    }

    #[tokio::test]
    async fn what_is_framed_is_read() {
        let bytes = frame().bytes().unwrap();
        assert_eq!(bytes[..4], 32_u32.to_be_bytes());
        let two = [bytes.clone(), bytes].concat();
        let mut source = two.as_slice();
        assert_eq!(next(&mut source).await.unwrap(), frame());
        assert_eq!(next(&mut source).await.unwrap(), frame());
        assert!(matches!(next(&mut source).await, Err(Ended::Closed)));
    }

    #[tokio::test]
    async fn a_frame_cut_anywhere_is_an_end_and_never_a_message() {
        let bytes = frame().bytes().unwrap();
        for cut in 0..bytes.len() {
            let mut source = &bytes[..cut];
            assert!(matches!(next(&mut source).await, Err(Ended::Closed)), "{cut}");
        }
    }

    #[tokio::test]
    async fn garbage_is_refused_at_the_first_word() {
        for (at, word) in [(0, 27_u32), (0, u32::MAX), (2, 9), (4, 7), (6, 3)] {
            let mut bytes = frame().bytes().unwrap().to_vec();
            bytes[at * 4..at * 4 + 4].copy_from_slice(&word.to_be_bytes());
            let mut source = bytes.as_slice();
            let read = next(&mut source).await;
            assert!(matches!(read, Err(Ended::Malformed(_))), "word {at} = {word}: {read:?}");
        }
    }

    #[test]
    fn what_libvirt_would_not_take_is_not_sent() {
        let body = Bytes::from(vec![0; MOST]);
        assert!(matches!(Frame { body, ..frame() }.bytes(), Err(Malformed::Long { .. })));
    }
}
