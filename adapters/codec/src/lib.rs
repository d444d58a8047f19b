//! Messages of calls in memory of their own size.
//!
//! The usual codec sets 8 KiB aside for each message of a call, both ways, and doubles that as it writes
//! a larger one. Most of our messages have a few hundred bytes, and a transaction of etcd has a hundred
//! thousand: there is too much memory for the one and six copies of the other.

pub mod raw;

use std::fmt;
use std::marker::PhantomData;

use prost::Message;
use tonic::Status;
use tonic::codec::{BufferSettings, Codec, EncodeBuf, Encoder};
use tonic_prost::ProstCodec;

/// Bytes set aside before the size of a message is known.
const FIRST: usize = 512;
/// Bytes of several messages of a stream that are sent together.
const TOGETHER: usize = 32 * 1024;

/// Protobuf with memory of the size of each message.
pub struct Snug<T, U>(PhantomData<(T, U)>);

impl<T, U> Default for Snug<T, U> {
    fn default() -> Self {
        Self(PhantomData)
    }
}

impl<T, U> fmt::Debug for Snug<T, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Snug")
    }
}

/// Memory of a message whose size is not known yet, for codecs of other kinds.
#[must_use]
pub fn settings() -> BufferSettings {
    BufferSettings::new(FIRST, TOGETHER)
}

impl<T, U> Codec for Snug<T, U>
where
    T: Message + Send + 'static,
    U: Message + Default + Send + 'static,
{
    type Encode = T;
    type Decode = U;
    type Encoder = Writer<T>;
    type Decoder = <ProstCodec<T, U> as Codec>::Decoder;

    fn encoder(&mut self) -> Self::Encoder {
        Writer(PhantomData)
    }

    fn decoder(&mut self) -> Self::Decoder {
        ProstCodec::<T, U>::raw_decoder(settings())
    }
}

/// Writes messages.
pub struct Writer<T>(PhantomData<T>);

impl<T> fmt::Debug for Writer<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Writer")
    }
}

impl<T: Message> Encoder for Writer<T> {
    type Item = T;
    type Error = Status;

    fn encode(&mut self, message: T, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.reserve(message.encoded_len());
        message.encode(to).map_err(|full| Status::internal(full.to_string()))
    }

    fn buffer_settings(&self) -> BufferSettings {
        settings()
    }
}
