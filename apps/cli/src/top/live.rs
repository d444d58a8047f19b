//! The screen: asks, draws, and does what keys mean, until somebody has seen enough.
//!
//! The terminal is given back however it ends: by a key, by a signal, or by a fault of ours.

use std::future::Future;
use std::pin::Pin;
use std::time::{Duration, SystemTime};

use crossterm::event::{Event, EventStream, KeyCode, KeyEventKind, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::Backend;
use tokio::signal::unix::{SignalKind, signal};
use tokio::time::{MissedTickBehavior, interval, sleep};
use tokio_stream::{Stream, StreamExt as _};

use super::heard::{self, Asked};
use super::state::{Do, Key, State, Subject};
use super::{draw, view};
use crate::connect::Client;
use crate::problem::Problem;
use crate::shell::Shell;

/// How long after an answer the next question is asked.
const AGAIN: Duration = Duration::from_secs(2);
/// How often ages are drawn anew.
const REDRAW: Duration = Duration::from_secs(1);

/// Something that is under way.
pub(super) type Way<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Whoever can be asked.
pub(super) trait Cluster: Sync {
    /// How everything is.
    fn ask(&self) -> Way<Asked>;
    /// Why something is as it is.
    fn explain(&self, of: Subject) -> Way<(Subject, Vec<String>)>;
}

struct Asking {
    client: Client,
    program: String,
}

impl Cluster for Asking {
    fn ask(&self) -> Way<Asked> {
        let client = self.client.clone();
        Box::pin(async move { heard::ask(&client).await })
    }

    fn explain(&self, of: Subject) -> Way<(Subject, Vec<String>)> {
        let (client, program) = (self.client.clone(), self.program.clone());
        Box::pin(async move {
            let told = heard::explain(&client, &program, &of).await;
            (of, told)
        })
    }
}

/// Gives the terminal back.
struct Taken;

impl Drop for Taken {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// Shows the cluster until somebody ends it.
pub(super) async fn run(shell: &Shell, client: &Client, state: State) -> Result<u8, Problem> {
    let unusable = |why: std::io::Error| {
        Problem::new("the terminal cannot be drawn on")
            .why(why.to_string())
            .next("persys top --once")
    };
    // It also sees to it that a panic is read on a terminal that was given back.
    let mut terminal = ratatui::try_init().map_err(unusable)?;
    let taken = Taken;
    let keys = EventStream::new().filter_map(|event| pressed(&event.ok()?));
    let cluster = Asking { client: client.clone(), program: shell.program.clone() };
    let shown = tokio::select! {
        shown = show(&mut terminal, Box::pin(keys), &cluster, state) => shown.map_err(unusable),
        () = shell.world.interrupted() => Ok(()),
        () = terminated() => Ok(()),
    };
    drop(taken);
    shown.map(|()| 0)
}

async fn terminated() {
    match signal(SignalKind::terminate()) {
        Ok(mut signal) => drop(signal.recv().await),
        // Without a handler the system ends the process itself.
        Err(_) => std::future::pending().await,
    }
}

/// What was pressed, if it means anything.
fn pressed(event: &Event) -> Option<Key> {
    const KEYS: [(KeyCode, Key); 12] = [
        (KeyCode::Up, Key::Up),
        (KeyCode::Down, Key::Down),
        (KeyCode::PageUp, Key::PageUp),
        (KeyCode::PageDown, Key::PageDown),
        (KeyCode::Home, Key::First),
        (KeyCode::End, Key::Last),
        (KeyCode::Tab, Key::Tab),
        (KeyCode::BackTab, Key::Tab),
        (KeyCode::Enter, Key::Enter),
        (KeyCode::Esc, Key::Escape),
        (KeyCode::Backspace, Key::Rubout),
        (KeyCode::Delete, Key::Rubout),
    ];
    let Event::Key(key) = event else { return None };
    if key.kind == KeyEventKind::Release {
        return None;
    }
    let control = key.modifiers.contains(KeyModifiers::CONTROL);
    if let KeyCode::Char(letter) = key.code {
        return match (control, letter) {
            (true, 'c' | 'd') => Some(Key::Interrupt),
            (true, _) => None,
            (false, letter) => Some(Key::Letter(letter)),
        };
    }
    KEYS.iter().find(|(code, _)| *code == key.code).map(|(_, key)| *key)
}

/// Asks, draws and listens.
pub(super) async fn show<B, K>(
    terminal: &mut Terminal<B>,
    mut keys: K,
    cluster: &impl Cluster,
    mut state: State,
) -> Result<(), B::Error>
where
    B: Backend,
    K: Stream<Item = Key> + Unpin,
{
    state.begun = Some(SystemTime::now());
    let mut asked = cluster.ask();
    let mut explained: Option<Way<(Subject, Vec<String>)>> = None;
    let mut ticks = interval(REDRAW);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        let seen = view::view(&state, SystemTime::now());
        terminal.draw(|frame| draw::draw(frame, &seen))?;
        let answer = async {
            match &mut explained {
                Some(under_way) => under_way.await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            key = keys.next() => match key.map(|key| state.on(key)) {
                // Nobody can press a key any more.
                None | Some(Do::Quit) => return Ok(()),
                Some(Do::Explain(of)) => explained = Some(cluster.explain(of)),
                Some(Do::Nothing) => {}
            },
            heard = &mut asked => {
                state.hear(heard, SystemTime::now());
                let next = cluster.ask();
                asked = Box::pin(async move {
                    sleep(AGAIN).await;
                    next.await
                });
            }
            (of, told) = answer => {
                explained = None;
                state.explained(&of, told);
            }
            _ = ticks.tick() => {}
        }
    }
}
