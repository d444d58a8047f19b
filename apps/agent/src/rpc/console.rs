//! The serial console of a machine: what is typed goes in, what it prints comes out.
//!
//! It is held until whoever holds it goes away, the machine ends, or another takes it over. The two
//! directions do not wait for each other.

use std::pin::Pin;

use futures::StreamExt as _;
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::console_input::Input;
use persys_runtime::inside::{ConsoleSession, Output};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::OwnedSemaphorePermit;
use tonic::{Status, Streaming};

use super::inside::{Pieces, Sent, Service, channel, first_word, messages, refused};

type Typed = Pin<Box<dyn AsyncWrite + Send>>;

/// Holds the console the first message names.
pub(super) async fn begin(
    service: &Service,
    mut typed: Streaming<api::ConsoleInput>,
) -> Result<Pieces<api::ConsoleOutput>, Status> {
    let permit = service.room_for_stream()?;
    let first = first_word(&mut typed).await?;
    let Some(Input::Start(start)) = first.and_then(|first| first.input) else {
        return Err(Status::invalid_argument("start: must be the first message"));
    };
    let workload = service.known(&start.workload_id).await?;
    let held = service.runtimes.console(&workload, start.force).await;
    let ConsoleSession { output, input } = held.map_err(|error| refused(&error))?;
    let (to, pieces) = channel();
    tokio::spawn(carry(typed, input, output, to, permit));
    Ok(pieces)
}

async fn carry(
    typed: Streaming<api::ConsoleInput>,
    input: Typed,
    output: Output,
    to: Sent<api::ConsoleOutput>,
    _permit: OwnedSemaphorePermit,
) {
    let caller = to.clone();
    tokio::select! {
        () = print(output, to) => {}
        () = type_in(typed, input) => {}
        () = caller.closed() => {}
    }
}

async fn print(mut output: Output, to: Sent<api::ConsoleOutput>) {
    while let Some(piece) = output.next().await {
        let chunk = match piece {
            Ok(chunk) => chunk,
            Err(error) => return drop(to.send(Err(refused(&error))).await),
        };
        for message in messages(&chunk) {
            if to.send(Ok(api::ConsoleOutput { data: message.data })).await.is_err() {
                return;
            }
        }
    }
}

/// Passes on what is typed, until the session ends.
async fn type_in(mut typed: Streaming<api::ConsoleInput>, input: Typed) {
    let mut input = Some(input);
    // Whoever breaks off types no more; that they are gone shows when something is printed.
    while let Ok(Some(message)) = typed.message().await {
        match (message.input, &mut input) {
            (Some(Input::Data(data)), Some(pipe)) => {
                if pipe.write_all(&data).await.is_err() || pipe.flush().await.is_err() {
                    input = None;
                }
            }
            (Some(Input::End(true)), _) => break,
            (Some(Input::Data(_) | Input::End(false) | Input::Start(_)) | None, _) => {}
        }
    }
    if let Some(mut pipe) = input.take() {
        // One that is closed already needs no closing.
        drop(pipe.shutdown().await);
    }
    std::future::pending::<()>().await;
}
