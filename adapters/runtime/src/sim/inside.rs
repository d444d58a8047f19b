//! Looking into what is simulated: enough that whatever asks gets an answer of the right shape.

use async_trait::async_trait;
use bytes::Bytes;
use futures::StreamExt;
use futures::stream::{self, BoxStream};
use persys_model::id::WorkloadId;
use persys_model::spec::Class;
use persys_node::input::Existing;
use tokio::sync::broadcast::error::RecvError;

use super::{Made, Sim};
use crate::error::Error;
use crate::exclusive::Exclusive;
use crate::inside::{
    Chunk, End, Evidence, Exec, ExecCommand, LogRange, Logs, Output, Reading, Session,
    SessionControl, Source, Usage, Wakeup, Wakeups,
};

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
        let made = self.present(workload)?;
        let line = format!("{workload} in revision {} is simulated", made.seen.revision);
        Ok(printed(if range.tail == Some(0) { Vec::new() } else { vec![line] }))
    }
}

#[async_trait]
impl Exec for Sim {
    async fn exec(&self, workload: &WorkloadId, command: &ExecCommand) -> Result<Session, Error> {
        if self.present(workload)?.seen.state != Existing::Running {
            return Err(Error::Refused { verb: "exec", detail: "it does not run".to_owned() });
        }
        let input: Option<std::pin::Pin<Box<dyn tokio::io::AsyncWrite + Send>>> =
            if command.input { Some(Box::pin(tokio::io::sink())) } else { None };
        let output = printed(vec![command.argv.join(" ")]);
        Ok(Session { output, input, control: Box::new(Ended) })
    }
}

/// A simulated command: it has always ended well.
struct Ended;

#[async_trait]
impl SessionControl for Ended {
    async fn resize(&self, _rows: u16, _columns: u16) -> Result<(), Error> {
        Ok(())
    }

    async fn exit_code(&self) -> Result<Option<i32>, Error> {
        Ok(Some(0))
    }
}

#[async_trait]
impl Usage for Sim {
    async fn usage(&self, workload: &WorkloadId) -> Result<Option<Reading>, Error> {
        let made = self.answering()?.ours.get(workload).cloned();
        Ok(made.filter(|made| made.seen.state == Existing::Running).map(|made| Reading {
            memory_limit_bytes: made.spec.resources.compute.memory_mib.saturating_mul(1 << 20),
            pids: 1,
            ..Reading::default()
        }))
    }
}

#[async_trait]
impl Evidence for Sim {
    async fn evidence(&self, workload: &WorkloadId) -> Result<Option<End>, Error> {
        let made = self.answering()?.ours.get(workload).cloned();
        Ok(made.and_then(|made| match made.seen.state {
            Existing::Exited { code } => {
                Some(End { code, signal: End::signal_of(code), ..End::default() })
            }
            Existing::Created | Existing::Running => None,
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
            made.seen.state == Existing::Running && made.spec.placement.class == Class::Exclusive
        });
        Ok(running.map(|made| made.seen.workload.clone()).collect())
    }
}
