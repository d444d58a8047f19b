//! One command inside a workload: what is typed goes in, what it prints comes out, its exit code
//! comes last.
//!
//! Typing and printing do not wait for each other, so that a command which prints before it reads
//! is not stuck. The session ends with the command or with its caller, whichever goes first.

use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;
use persys_proto::compute::v1 as api;
use persys_proto::compute::v1::exec_input::Input;
use persys_proto::compute::v1::exec_output::Output as Told;
use persys_runtime::inside::{ExecCommand, Output, Session, SessionControl};
use tokio::io::{AsyncWrite, AsyncWriteExt as _};
use tokio::sync::OwnedSemaphorePermit;
use tokio::time::sleep;
use tonic::{Status, Streaming};

use super::inside::{Pieces, Sent, Service, channel, first_word, messages, refused};

/// Most arguments, and most bytes of them.
const ARGUMENTS: (usize, usize) = (256, 64 * 1024);
/// Attempts to set the first size of a terminal, and the pause between them.
const SIZE_TRIES: usize = 20;
const SIZE_AGAIN: Duration = Duration::from_millis(25);

type Typed = Pin<Box<dyn AsyncWrite + Send>>;

/// Starts the command the first message names.
pub(super) async fn begin(
    service: &Service,
    mut typed: Streaming<api::ExecInput>,
) -> Result<Pieces<api::ExecOutput>, Status> {
    let permit = service.room_for_stream()?;
    let first = first_word(&mut typed).await?;
    let Some(Input::Start(start)) = first.and_then(|first| first.input) else {
        return Err(Status::invalid_argument("start: must be the first message"));
    };
    let workload = service.known(&start.workload_id).await?;
    let bytes = start.argv.iter().fold(0_usize, |sum, word| sum.saturating_add(word.len()));
    if start.argv.first().is_none_or(String::is_empty) {
        return Err(Status::invalid_argument("start.argv: is empty"));
    }
    if start.argv.len() > ARGUMENTS.0 || bytes > ARGUMENTS.1 {
        let (most, bytes) = ARGUMENTS;
        let why = format!("start.argv: has more than {most} arguments or {bytes} bytes");
        return Err(Status::invalid_argument(why));
    }
    let api::ExecStart { workload_id: _, argv, terminal, input, size, service: inside } = start;
    let inside = Some(inside).filter(|service| !service.is_empty());
    let command = ExecCommand { argv, terminal, input, service: inside };
    let begun = service.runtimes.exec(&workload, &command).await;
    let Session { output, input, control } = begun.map_err(|error| refused(&error))?;
    let control: Arc<dyn SessionControl> = Arc::from(control);
    if let Some(size) = size.filter(|_| terminal) {
        resize_once_started(control.as_ref(), size).await;
    }
    let (to, pieces) = channel();
    tokio::spawn(carry(typed, input, output, control, to, permit));
    Ok(pieces)
}

async fn carry(
    typed: Streaming<api::ExecInput>,
    input: Option<Typed>,
    output: Output,
    control: Arc<dyn SessionControl>,
    to: Sent<api::ExecOutput>,
    _permit: OwnedSemaphorePermit,
) {
    let caller = to.clone();
    tokio::select! {
        () = print(output, control.as_ref(), to) => {}
        () = type_in(typed, input, control.as_ref()) => {}
        () = caller.closed() => {}
    }
}

/// Shows what is printed, then the exit code.
async fn print(mut output: Output, control: &dyn SessionControl, to: Sent<api::ExecOutput>) {
    while let Some(piece) = output.next().await {
        let chunk = match piece {
            Ok(chunk) => chunk,
            Err(error) => return drop(to.send(Err(refused(&error))).await),
        };
        for message in messages(&chunk) {
            let message = api::ExecOutput { output: Some(Told::Chunk(message)) };
            if to.send(Ok(message)).await.is_err() {
                return;
            }
        }
    }
    let last = match control.exit_code().await {
        Ok(Some(code)) => Ok(api::ExecOutput { output: Some(Told::ExitCode(code)) }),
        Ok(None) => Err(Status::aborted("its output ended before the command did")),
        Err(error) => Err(refused(&error)),
    };
    // A caller that went away does not want to know.
    drop(to.send(last).await);
}

/// Passes on what is typed, until the session ends. One that no longer reads is left in peace.
async fn type_in(
    mut typed: Streaming<api::ExecInput>,
    mut input: Option<Typed>,
    control: &dyn SessionControl,
) {
    // Whoever breaks off types no more; that they are gone shows when something is printed.
    while let Ok(Some(message)) = typed.message().await {
        match message.input {
            Some(Input::Data(data)) => {
                if let Some(pipe) = &mut input
                    && (pipe.write_all(&data).await.is_err() || pipe.flush().await.is_err())
                {
                    input = None;
                }
            }
            Some(Input::End(true)) => close(&mut input).await,
            Some(Input::Size(size)) => resize(control, size).await,
            Some(Input::End(false) | Input::Start(_)) | None => {}
        }
    }
    close(&mut input).await;
    std::future::pending::<()>().await;
}

async fn close(input: &mut Option<Typed>) {
    if let Some(mut pipe) = input.take() {
        // One that is closed already needs no closing.
        drop(pipe.shutdown().await);
    }
}

/// Sets the first size. Docker refuses it until the process has started, shortly after the session has.
async fn resize_once_started(control: &dyn SessionControl, size: api::TerminalSize) {
    for _ in 0..SIZE_TRIES {
        if control.resize(cells(size.rows), cells(size.columns)).await.is_ok() {
            return;
        }
        sleep(SIZE_AGAIN).await;
    }
    resize(control, size).await;
}

fn cells(count: u32) -> u16 {
    u16::try_from(count).unwrap_or(u16::MAX)
}

/// A terminal that cannot be sized is still a terminal.
async fn resize(control: &dyn SessionControl, size: api::TerminalSize) {
    if let Err(error) = control.resize(cells(size.rows), cells(size.columns)).await {
        tracing::debug!(%error, "a terminal keeps its size");
    }
}
