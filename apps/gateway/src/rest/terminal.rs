//! Commands inside workloads and consoles of machines, over WebSocket.
//!
//! ```text
//!   from the client   binary: what is typed       text: {"size":{"rows":24,"columns":80}} {"end":true}
//!   to the client     binary: 1 byte, which output (1 or 2), then the output
//!                     text:   {"exit_code":0} or {"problem":{…}}, and then the end
//! ```

use std::sync::Arc;

use axum::extract::ws::{CloseFrame, Message, WebSocket, WebSocketUpgrade, close_code};
use axum::extract::{FromRequestParts as _, RawPathParams, Request, State};
use axum::response::{IntoResponse as _, Response};
use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use persys_proto::compute::v1::compute_client::ComputeClient;
use persys_proto::compute::v1::{
    ConsoleInput, ConsoleStart, ExecInput, ExecStart, TerminalSize, console_input, exec_input,
    exec_output,
};
use serde::Deserialize;
use serde_json::json;
use tokio::sync::{OwnedSemaphorePermit, mpsc};
use tokio_stream::wrappers::ReceiverStream;
use tonic::transport::Channel;
use tonic::{Request as Question, Status};

use super::message::Said;
use super::{Target, said};
use crate::gateway::Gateway;
use crate::problem::Problem;
use crate::rights::Watched;
use crate::who::Who;

/// Largest message somebody may type at once.
const LARGEST: usize = 64 * 1024;
/// Messages on their way in.
const BUFFER: usize = 16;
/// Most words of a command.
const MOST_WORDS: usize = 256;

/// `GET /v1/workloads/{id}/exec`.
pub(super) async fn exec(
    State(gateway): State<Gateway>,
    path: RawPathParams,
    request: Request,
) -> Response {
    open(&gateway, &path, request, Kind::Exec).await.unwrap_or_else(Problem::into_response)
}

/// `GET /v1/workloads/{id}/console`.
pub(super) async fn console(
    State(gateway): State<Gateway>,
    path: RawPathParams,
    request: Request,
) -> Response {
    open(&gateway, &path, request, Kind::Console).await.unwrap_or_else(Problem::into_response)
}

#[derive(Debug, Clone, Copy)]
enum Kind {
    Exec,
    Console,
}

/// How it begins.
enum Start {
    Exec(ExecStart),
    Console(ConsoleStart),
}

async fn open(
    gateway: &Gateway,
    path: &RawPathParams,
    request: Request,
    kind: Kind,
) -> Result<Response, Problem> {
    let (mut parts, _) = request.into_parts();
    let said = said(path, parts.uri.query())?;
    let who = parts.extensions.get::<Who>().cloned().unwrap_or(Who(None));
    let target = Target::of(gateway, &parts, &said, who.known()?.clone())?;
    let start = match kind {
        Kind::Exec => Start::Exec(exec_start(&said)?),
        Kind::Console => Start::Console(console_start(&said)?),
    };
    let Ok(permit) = Arc::clone(&gateway.streams).try_acquire_owned() else {
        return Err(Problem::too_many("too many terminals are open already"));
    };
    let upgrade = WebSocketUpgrade::from_request_parts(&mut parts, gateway)
        .await
        .map_err(|fault| Problem::bad(format!("this is a WebSocket; ask for one: {fault}")))?;
    let socket = upgrade.max_message_size(LARGEST).max_frame_size(LARGEST);
    let watched = gateway.rights.watch(&target.cluster, &target.caller);
    let run = move |socket| run(socket, (target, watched), start, permit);
    Ok(socket.on_upgrade(run).into_response())
}

fn console_start(said: &Said) -> Result<ConsoleStart, Problem> {
    said.only(&["force"], &[])?;
    Ok(ConsoleStart {
        workload_id: said.part("id").unwrap_or_default().to_owned(),
        force: said.flag("force")?.unwrap_or_default(),
    })
}

fn exec_start(said: &Said) -> Result<ExecStart, Problem> {
    said.only(&["terminal", "input", "rows", "columns", "service"], &["argv"])?;
    let words = said.query.iter().filter(|(name, _)| name == "argv").map(|(_, word)| word.clone());
    let argv: Vec<_> = words.collect();
    if argv.is_empty() || argv.len() > MOST_WORDS {
        return Err(Problem::bad(format!(
            "argv: give each word of the command, 1 to {MOST_WORDS}"
        )));
    }
    let number = |name: &str| Ok::<_, Problem>(said.number(name)?.unwrap_or_default());
    let size = TerminalSize { rows: number("rows")?, columns: number("columns")? };
    Ok(ExecStart {
        workload_id: said.part("id").unwrap_or_default().to_owned(),
        argv,
        terminal: said.flag("terminal")?.unwrap_or_default(),
        input: said.flag("input")?.unwrap_or(true),
        size: (size.rows > 0 && size.columns > 0).then_some(size),
        service: said.parameter("service").unwrap_or_default().to_owned(),
    })
}

/// What a client says beside what it types.
#[derive(Deserialize, Default)]
#[serde(default, deny_unknown_fields)]
struct Word {
    size: Option<Size>,
    end: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Size {
    rows: u32,
    columns: u32,
}

/// What somebody sends, whatever it goes to.
enum Typed {
    Data(Bytes),
    Size(TerminalSize),
    End,
}

async fn run(
    socket: WebSocket,
    (target, watched): (Target, Arc<Watched>),
    start: Start,
    _permit: OwnedSemaphorePermit,
) {
    let (mut to, mut from) = socket.split();
    let (typed_to, typed) = mpsc::channel(BUFFER);
    let reading = async move {
        while let Some(Ok(message)) = from.next().await {
            let typed = match message {
                Message::Binary(data) => Typed::Data(data),
                Message::Text(text) => match serde_json::from_str::<Word>(&text) {
                    Ok(Word { end: true, .. }) => Typed::End,
                    Ok(Word { size: Some(Size { rows, columns }), .. }) => {
                        Typed::Size(TerminalSize { rows, columns })
                    }
                    Ok(_) => continue,
                    Err(_) => break,
                },
                Message::Ping(_) | Message::Pong(_) => continue,
                Message::Close(_) => break,
            };
            if typed_to.send(typed).await.is_err() {
                break;
            }
        }
    };
    let (shown_to, mut shown) = mpsc::channel::<Message>(BUFFER);
    let talking = async move {
        let talked = async {
            match start {
                Start::Exec(start) => talk_exec(&target, start, typed, &shown_to).await,
                Start::Console(start) => talk_console(&target, start, typed, &shown_to).await,
            }
        };
        let ended = tokio::select! {
            ended = talked => ended,
            // What was taken away ends here, and says so.
            why = watched.gone() => Err(why),
        };
        let last = match ended {
            Ok(Some(code)) => json!({"exit_code": code}),
            Ok(None) => json!({"end": true}),
            Err(status) => json!({"problem": Problem::from(status).to_json()}),
        };
        // Whoever went away does not want to know.
        drop(shown_to.send(Message::Text(last.to_string().into())).await);
    };
    let writing = async move {
        while let Some(message) = shown.recv().await {
            if to.send(message).await.is_err() {
                return;
            }
        }
        let frame = CloseFrame { code: close_code::NORMAL, reason: "it ended".into() };
        drop(to.send(Message::Close(Some(frame))).await);
    };
    // It ends when the client goes away, or when everything was told.
    tokio::select! {
        () = reading => {}
        ((), ()) = async { tokio::join!(talking, writing) } => {}
    }
}

async fn talk_exec(
    target: &Target,
    start: ExecStart,
    typed: mpsc::Receiver<Typed>,
    shown: &mpsc::Sender<Message>,
) -> Result<Option<i32>, Status> {
    use exec_input::Input;
    let input = |input| ExecInput { input: Some(input) };
    let (question, passing) = ask(target, input(Input::Start(start)), typed, move |typed| {
        Some(input(match typed {
            Typed::Data(data) => Input::Data(data.into()),
            Typed::Size(size) => Input::Size(size),
            Typed::End => Input::End(true),
        }))
    });
    let answering = async {
        let mut output = client(target)?.exec(question).await?.into_inner();
        while let Some(message) = output.message().await? {
            match message.output {
                Some(exec_output::Output::Chunk(chunk)) => {
                    let which = u8::try_from(chunk.stream).unwrap_or(1);
                    if shown.send(piece(which, &chunk.data)).await.is_err() {
                        return Ok(None);
                    }
                }
                Some(exec_output::Output::ExitCode(code)) => return Ok(Some(code)),
                None => {}
            }
        }
        Ok(None)
    };
    until_answered(answering, passing).await
}

async fn talk_console(
    target: &Target,
    start: ConsoleStart,
    typed: mpsc::Receiver<Typed>,
    shown: &mpsc::Sender<Message>,
) -> Result<Option<i32>, Status> {
    use console_input::Input;
    let input = |input| ConsoleInput { input: Some(input) };
    let (question, passing) = ask(target, input(Input::Start(start)), typed, move |typed| {
        match typed {
            Typed::Data(data) => Some(input(Input::Data(data.into()))),
            // A serial line has no size.
            Typed::Size(_) => None,
            Typed::End => Some(input(Input::End(true))),
        }
    });
    let answering = async {
        let mut output = client(target)?.console(question).await?.into_inner();
        while let Some(message) = output.message().await? {
            if shown.send(piece(1, &message.data)).await.is_err() {
                return Ok(None);
            }
        }
        Ok(None)
    };
    until_answered(answering, passing).await
}

fn client(target: &Target) -> Result<ComputeClient<Channel>, Status> {
    let (_, channel) = target.cluster.channel(&target.keys)?;
    Ok(ComputeClient::new(channel))
}

/// A question that begins with `first` and goes on with what is typed, and the work of passing that on.
fn ask<I: Send + 'static>(
    target: &Target,
    first: I,
    mut typed: mpsc::Receiver<Typed>,
    told: impl Fn(Typed) -> Option<I>,
) -> (Question<ReceiverStream<I>>, impl Future<Output = ()>) {
    let (input_to, input) = mpsc::channel(BUFFER);
    let passing = async move {
        if input_to.send(first).await.is_err() {
            return;
        }
        while let Some(typed) = typed.recv().await {
            let Some(input) = told(typed) else { continue };
            if input_to.send(input).await.is_err() {
                return;
            }
        }
    };
    let mut question = Question::new(ReceiverStream::new(input));
    target.caller.attach(target.source, question.metadata_mut());
    (question, passing)
}

/// Somebody who has typed all they will is still answered.
async fn until_answered<T>(
    answering: impl Future<Output = T>,
    passing: impl Future<Output = ()>,
) -> T {
    tokio::pin!(answering);
    tokio::select! {
        ended = &mut answering => ended,
        () = passing => answering.await,
    }
}

fn piece(which: u8, data: &[u8]) -> Message {
    let mut bytes = Vec::with_capacity(data.len() + 1);
    bytes.push(which);
    bytes.extend_from_slice(data);
    Message::Binary(bytes.into())
}
