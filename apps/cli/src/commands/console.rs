//! `console`: the serial console of a virtual machine.
//!
//! In a terminal every key goes to the machine, Ctrl-C included, but for one: Ctrl-] lets go.

use persys_proto::compute::v1 as compute;
use persys_proto::compute::v1::console_input::Input;
use tokio::sync::mpsc;
use tokio_stream::StreamExt as _;
use tokio_stream::wrappers::ReceiverStream;

use super::find;
use super::inside::Raw;
use crate::args::Console;
use crate::problem::Problem;
use crate::shell::Shell;

/// Pieces of input on their way.
const WAITING: usize = 16;
/// The key that lets go: Ctrl-].
const LET_GO: u8 = 0x1d;

/// `console`.
pub(super) async fn hold(shell: &Shell, of: &Console) -> Result<u8, Problem> {
    let client = shell.client()?;
    let id = find::workload(&client, &of.id).await?.workload_id;
    let what = format!("the console of {id} cannot be held");
    let (to, input) = mpsc::channel(WAITING);
    let start = compute::ConsoleStart { workload_id: id.clone(), force: of.force };
    send(&to, Input::Start(start)).await;
    let mut output =
        client.ask(&what, client.compute().console(ReceiverStream::new(input))).await?;
    let terminal = shell.world.in_terminal;
    if terminal {
        let told =
            format!("the console of {id}; Ctrl-] lets go, Enter wakes a login that waits\r\n");
        shell.world.remark(told.as_bytes());
    }
    let raw = terminal.then(Raw::new);
    let mut typing = tokio::spawn(type_in(shell.clone(), terminal, to));
    let mut typed_all = false;
    let ended = loop {
        tokio::select! {
            // On a terminal of its own Ctrl-C is a key like any other.
            () = shell.world.interrupted(), if !terminal => break Ok(130),
            last = &mut typing, if !typed_all => match last {
                Ok(Last::LetGo) => break Ok(0),
                Ok(Last::No | Last::Typed) | Err(_) => typed_all = true,
            },
            next = output.next() => match next {
                None => break Ok(0),
                Some(Err(status)) => break Err(client.refused(&what, &status)),
                Some(Ok(piece)) => shell.world.print(&piece.data)?,
            },
        }
    };
    typing.abort();
    drop(raw);
    ended
}

/// Passes on what is typed, until nothing more will be or the console is let go. It does not wait for
/// what is printed, nor the other way round.
async fn type_in(shell: Shell, terminal: bool, to: mpsc::Sender<compute::ConsoleInput>) -> Last {
    let mut keys = shell.world.keys();
    loop {
        let (input, last) = passed(keys.recv().await, terminal);
        let alive = match input {
            Some(input) => send(&to, input).await,
            None => true,
        };
        if !alive || last != Last::No {
            return last;
        }
    }
}

/// Whether anything follows what was typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Last {
    No,
    /// Nothing more will be typed; what is printed still counts.
    Typed,
    LetGo,
}

/// What of the typed is passed on. Only a terminal has a key that lets go: in a pipe it is data.
fn passed(typed: Option<Vec<u8>>, terminal: bool) -> (Option<Input>, Last) {
    let Some(mut typed) = typed else { return (Some(Input::End(true)), Last::Typed) };
    let at = typed.iter().position(|key| *key == LET_GO).filter(|_| terminal);
    let Some(at) = at else { return (Some(Input::Data(typed)), Last::No) };
    typed.truncate(at);
    ((!typed.is_empty()).then_some(Input::Data(typed)), Last::LetGo)
}

async fn send(to: &mpsc::Sender<compute::ConsoleInput>, input: Input) -> bool {
    to.send(compute::ConsoleInput { input: Some(input) }).await.is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_key_lets_go_and_all_others_are_the_machines() {
        let typed = |bytes: &[u8]| Some(bytes.to_vec());
        let data = |bytes: &[u8]| Some(Input::Data(bytes.to_vec()));
        assert_eq!(passed(typed(b"ls\x03\n"), true), (data(b"ls\x03\n"), Last::No));
        assert_eq!(passed(typed(b"ls\x1dmore"), true), (data(b"ls"), Last::LetGo));
        assert_eq!(passed(typed(b"\x1d"), true), (None, Last::LetGo));
        assert_eq!(passed(typed(b"a\x1db"), false), (data(b"a\x1db"), Last::No));
        assert_eq!(passed(None, true), (Some(Input::End(true)), Last::Typed));
    }
}
