//! Calls whose messages are bytes to the caller: for whoever passes on what is described elsewhere,
//! such as a method that a table names.

use bytes::{Buf as _, BufMut as _, Bytes};
use tonic::body::Body;
use tonic::client::{Grpc, GrpcService};
use tonic::codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::StdError;
use tonic::codegen::http::uri::PathAndQuery;
use tonic::{Request, Response, Status};

/// Asks one question and takes one answer, both in their binary form. An answer of more than
/// `largest` bytes is refused.
pub async fn unary<S>(
    service: S,
    path: &'static str,
    request: Request<Bytes>,
    largest: usize,
) -> Result<Response<Bytes>, Status>
where
    S: GrpcService<Body>,
    S::ResponseBody: tonic::codegen::Body<Data = Bytes> + Send + 'static,
    <S::ResponseBody as tonic::codegen::Body>::Error: Into<StdError> + Send,
{
    let mut client = Grpc::new(service).max_decoding_message_size(largest);
    client.ready().await.map_err(|fault| {
        let fault: StdError = fault.into();
        Status::from_error(fault)
    })?;
    client.unary(request, PathAndQuery::from_static(path), Raw).await
}

/// Bytes as they are, both ways.
#[derive(Debug, Clone, Copy, Default)]
pub struct Raw;

impl Codec for Raw {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, item: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.reserve(item.len());
        to.put(item);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        crate::settings()
    }
}

impl Decoder for Raw {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        Ok(Some(from.copy_to_bytes(from.remaining())))
    }

    fn buffer_settings(&self) -> BufferSettings {
        crate::settings()
    }
}
