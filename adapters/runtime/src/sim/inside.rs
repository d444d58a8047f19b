//! Looking into what is simulated: enough that whatever asks gets an answer of the right shape.

use std::collections::BTreeMap;

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use persys_model::id::WorkloadId;
use persys_model::spec::{Class, Kind};
use persys_node::input::Existing;
use tokio::io::{AsyncReadExt, AsyncWrite, DuplexStream};
use tokio::sync::broadcast::Receiver;
use tokio::sync::broadcast::error::RecvError;

use super::{Made, Sim};
use crate::error::Error;
use crate::exclusive::Exclusive;
use crate::inside::{
    Chunk, Console, ConsoleSession, End, Evidence, Exec, ExecCommand, LogRange, Logs, Output,
    Reading, Session, SessionControl, Source, Usage, Wakeup, Wakeups,
};

/// Bytes typed to a simulated command and not yet shown.
const TYPED_BYTES: usize = 4096;

impl Sim {
    fn present(&self, workload: &WorkloadId) -> Result<Made, Error> {
        let made = self.answering()?.ours.get(workload).cloned();
        made.ok_or_else(|| Error::Absent { workload: workload.clone() })
    }
}

fn printed(lines: Vec<String>) -> Output {
    let chunks = lines.into_iter().map(|line| {
        let bytes = Bytes::from(format!("{line}\n"));
        Ok(Chunk { source: Source::Stdout, bytes })
    });
    stream::iter(chunks).boxed()
}

#[async_trait]
impl Logs for Sim {
    async fn logs(&self, workload: &WorkloadId, range: LogRange) -> Result<Output, Error> {
        // Listening begins before reading, so that nothing falls in between.
        let hints = self.hints.subscribe();
        let made = self.present(workload)?;
        let tail = range.tail.and_then(|tail| usize::try_from(tail).ok()).unwrap_or(usize::MAX);
        let from = made.printed.len().saturating_sub(tail);
        if !range.follow {
            return Ok(printed(made.printed.into_iter().skip(from).collect()));
        }
        let follow = Follow { sim: self.clone(), workload: workload.clone(), hints, at: from };
        Ok(stream::unfold(follow, Follow::next).flatten().boxed())
    }
}

/// One who reads on.
struct Follow {
    sim: Sim,
    workload: WorkloadId,
    hints: Receiver<Wakeup>,
    /// How many lines were read.
    at: usize,
}

impl Follow {
    /// What was printed since; ends with the workload.
    async fn next(mut self) -> Option<(Output, Self)> {
        loop {
            let made = self.sim.present(&self.workload).ok()?;
            let fresh: Vec<_> = made.printed.into_iter().skip(self.at).collect();
            if !fresh.is_empty() {
                self.at = self.at.saturating_add(fresh.len());
                return Some((printed(fresh), self));
            }
            if !made.seen.state.is_alive() {
                return None;
            }
            match self.hints.recv().await {
                Ok(_) | Err(RecvError::Lagged(_)) => {}
                Err(RecvError::Closed) => return None,
            }
        }
    }
}

#[async_trait]
impl Exec for Sim {
    async fn exec(&self, workload: &WorkloadId, command: &ExecCommand) -> Result<Session, Error> {
        if self.present(workload)?.seen.state != Existing::Running {
            return Err(Error::Refused { verb: "exec", detail: "it does not run".to_owned() });
        }
        let argv: Vec<&str> = command.argv.iter().map(String::as_str).collect();
        let code = match argv.as_slice() {
            ["exit", code] => code.parse().unwrap_or(0),
            _ => 0,
        };
        let control = Box::new(Ended(code));
        if argv == ["cat"] && command.input {
            let (typed, shown) = tokio::io::duplex(TYPED_BYTES);
            return Ok(Session { output: repeated(shown), input: Some(Box::pin(typed)), control });
        }
        let input: Option<std::pin::Pin<Box<dyn AsyncWrite + Send>>> =
            if command.input { Some(Box::pin(tokio::io::sink())) } else { None };
        Ok(Session { output: printed(vec![command.argv.join(" ")]), input, control })
    }
}

/// A machine's console that repeats what is typed, as one does that waits for a name.
#[async_trait]
impl Console for Sim {
    async fn console(&self, workload: &WorkloadId, _force: bool) -> Result<ConsoleSession, Error> {
        let made = self.present(workload)?;
        if !matches!(made.spec.kind, Kind::Vm(_)) {
            return Err(Error::Absent { workload: workload.clone() });
        }
        if made.seen.state != Existing::Running {
            return Err(Error::Refused { verb: "console", detail: "it does not run".to_owned() });
        }
        let (typed, shown) = tokio::io::duplex(TYPED_BYTES);
        Ok(ConsoleSession { output: repeated(shown), input: Box::pin(typed) })
    }
}

/// Shows what is typed, until nothing more will be.
fn repeated(typed: DuplexStream) -> Output {
    let pieces = stream::unfold(typed, |mut typed| async move {
        let mut piece = vec![0; TYPED_BYTES];
        let count = typed.read(&mut piece).await.ok().filter(|count| *count > 0)?;
        piece.truncate(count);
        let chunk = Chunk { source: Source::Stdout, bytes: Bytes::from(piece) };
        Some((Ok(chunk), typed))
    });
    pieces.boxed()
}

/// A simulated command that has ended with this code.
struct Ended(i32);

#[async_trait]
impl SessionControl for Ended {
    async fn resize(&self, _rows: u16, _columns: u16) -> Result<(), Error> {
        Ok(())
    }

    async fn exit_code(&self) -> Result<Option<i32>, Error> {
        Ok(Some(self.0))
    }
}

#[async_trait]
impl Usage for Sim {
    async fn usage(&self, workload: &WorkloadId) -> Result<Option<Reading>, Error> {
        Ok(self.answering()?.ours.get(workload).and_then(reading))
    }

    async fn layer_bytes(&self, workload: &WorkloadId) -> Result<Option<u64>, Error> {
        Ok(self.lock().layers.get(workload).copied())
    }

    async fn usage_of_all(&self) -> Result<BTreeMap<WorkloadId, Reading>, Error> {
        let inside = self.answering()?;
        let all = inside.ours.iter();
        Ok(all.filter_map(|(workload, made)| Some((workload.clone(), reading(made)?))).collect())
    }
}

fn reading(made: &Made) -> Option<Reading> {
    made.seen.state.is_alive().then(|| Reading {
        memory_limit_bytes: made.spec.resources.compute.memory_mib.saturating_mul(1 << 20),
        pids: 1,
        ..Reading::default()
    })
}

#[async_trait]
impl Evidence for Sim {
    async fn evidence(&self, workload: &WorkloadId) -> Result<Option<End>, Error> {
        let made = self.answering()?.ours.get(workload).cloned();
        Ok(made.and_then(|made| match made.seen.state {
            Existing::Exited { code } => {
                let most = usize::try_from(End::LINES).unwrap_or(usize::MAX);
                let surplus = made.printed.len().saturating_sub(most);
                let last_lines = made.printed.into_iter().skip(surplus).collect();
                let signal = End::signal_of(code);
                Some(End { code, signal, last_lines, ..End::default() })
            }
            Existing::Created
            | Existing::Running
            | Existing::Paused { .. }
            | Existing::Stuck { .. } => None,
        }))
    }
}

impl Wakeups for Sim {
    fn wakeups(&self) -> BoxStream<'static, Wakeup> {
        let hints = stream::unfold(self.hints.subscribe(), |mut hints| async {
            match hints.recv().await {
                Ok(wakeup) => Some((wakeup, hints)),
                Err(RecvError::Lagged(_)) => Some((Wakeup::Everything, hints)),
                Err(RecvError::Closed) => None,
            }
        });
        stream::iter([Wakeup::Everything]).chain(hints).boxed()
    }
}

#[async_trait]
impl Exclusive for Sim {
    async fn exclusive(&self) -> Result<Vec<WorkloadId>, Error> {
        let state = self.answering()?;
        let running = state.ours.values().filter(|made| {
            made.seen.state.is_alive() && made.spec.placement.class == Class::Exclusive
        });
        Ok(running.map(|made| made.seen.workload.clone()).collect())
    }
}
