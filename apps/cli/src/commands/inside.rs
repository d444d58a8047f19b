//! `exec`: a command inside a workload, with or without a terminal.

use persys_proto::compute::v1 as compute;
use persys_proto::compute::v1::exec_input::Input;
use persys_proto::compute::v1::exec_output::Output;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

use super::find;
use crate::args::Exec;
use crate::problem::Problem;
use crate::shell::Shell;

/// Pieces of input on their way.
const WAITING: usize = 16;
const STANDARD_ERROR: u32 = 2;

/// `exec`. The exit code is the command's.
pub(super) async fn exec(shell: &Shell, exec: Exec) -> Result<u8, Problem> {
    if exec.tty && !shell.world.in_terminal {
        return Err(Problem::usage("-t needs a terminal")
            .why("what is typed does not come from one")
            .next(format!("persys exec -i {} -- {}", exec.id, exec.command.join(" "))));
    }
    let client = shell.client()?;
    let (typed, service) = find::with_service(&exec.id);
    let id = find::workload(&client, typed).await?.workload_id;
    let what = format!("the command cannot be run inside {id}");
    let (to, input) = mpsc::channel(WAITING);
    let start = compute::ExecStart {
        workload_id: id.clone(),
        argv: exec.command.clone(),
        terminal: exec.tty,
        input: exec.interactive,
        size: exec.tty.then(size).flatten(),
        service,
    };
    send(&to, Input::Start(start)).await;
    let mut output = client.ask(&what, client.compute().exec(ReceiverStream::new(input))).await?;
    // Without input nobody would pass the keys on, Ctrl-C included.
    let keyboard = exec.tty && exec.interactive;
    let raw = keyboard.then(Raw::new);
    let typing = tokio::spawn(pass_on(shell.clone(), exec.interactive, exec.tty, to));
    let ended = loop {
        let next = tokio::select! {
            // On a terminal of its own Ctrl-C is a key like any other.
            () = shell.world.interrupted(), if !keyboard => break Ok(130),
            next = output.next() => next,
        };
        match next {
            None => {
                break Err(Problem::new(what).why("it was cut off before the command ended"));
            }
            Some(Err(status)) => break Err(client.refused(&what, &status)),
            Some(Ok(message)) => match message.output {
                None => {}
                Some(Output::ExitCode(code)) => break Ok(u8::try_from(code).unwrap_or(1)),
                Some(Output::Chunk(chunk)) if chunk.stream == STANDARD_ERROR => {
                    shell.world.remark(&chunk.data);
                }
                Some(Output::Chunk(chunk)) => shell.world.print(&chunk.data)?,
            },
        }
    };
    typing.abort();
    drop(raw);
    ended
}

async fn send(to: &mpsc::Sender<compute::ExecInput>, input: Input) -> bool {
    to.send(compute::ExecInput { input: Some(input) }).await.is_ok()
}

/// Passes on what is typed and how large the terminal is, until the command ends.
async fn pass_on(shell: Shell, interactive: bool, tty: bool, to: mpsc::Sender<compute::ExecInput>) {
    let mut keys = interactive.then(|| shell.world.keys());
    let mut resized = if tty { signal(SignalKind::window_change()).ok() } else { None };
    loop {
        let typed = async {
            match &mut keys {
                Some(keys) => keys.recv().await,
                None => std::future::pending().await,
            }
        };
        let turned = async {
            match &mut resized {
                Some(resized) => resized.recv().await,
                None => std::future::pending().await,
            }
        };
        let alive = tokio::select! {
            typed = typed => {
                let input = typed.map_or(Input::End(true), Input::Data);
                if input == Input::End(true) {
                    keys = None;
                }
                send(&to, input).await
            }
            _ = turned => match size() {
                Some(size) => send(&to, Input::Size(size)).await,
                None => true,
            },
        };
        if !alive {
            return;
        }
    }
}

fn size() -> Option<compute::TerminalSize> {
    let (columns, rows) = crossterm::terminal::size().ok()?;
    Some(compute::TerminalSize { rows: u32::from(rows), columns: u32::from(columns) })
}

/// The terminal passes keys on as they are; it is put right again whatever happens.
pub(super) struct Raw;

impl Raw {
    pub(super) fn new() -> Self {
        // A terminal that cannot still shows what is printed.
        drop(crossterm::terminal::enable_raw_mode());
        Self
    }
}

impl Drop for Raw {
    fn drop(&mut self) {
        drop(crossterm::terminal::disable_raw_mode());
    }
}
