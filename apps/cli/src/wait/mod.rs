//! Waiting for a workload, and telling how it goes.
//!
//! Events say when to look, and a slow rhythm looks anyway; what is decided rests on what the
//! scheduler says of the workload, never on events that may have been missed.

pub(crate) mod judge;
mod progress;

use std::time::{Duration, Instant, SystemTime};

use persys_proto::control::v1 as wire;
use tokio::time::{MissedTickBehavior, interval, sleep_until};
use tokio_stream::StreamExt as _;
use tonic::{Code, Status, Streaming};

use self::judge::{Goal, Judge, Verdict};
use self::progress::Progress;
use crate::connect::Client;
use crate::problem::Problem;
use crate::shell::Shell;
use crate::show::{self, event};

/// How often we look although nothing was said.
const RHYTHM: Duration = Duration::from_millis(250);
/// Longest wait unless told otherwise: a large image over a slow line.
const USUAL: Duration = Duration::from_mins(10);
/// How long a scheduler may be away while we wait; it may be starting anew.
const AWAY: Duration = Duration::from_secs(15);

/// How waiting ended.
#[derive(Debug)]
pub(crate) enum Ended {
    /// With a verdict other than "wait", and what was last seen.
    Verdict(Verdict, Option<Box<wire::WorkloadView>>),
    /// It took too long.
    TooLong(Option<Box<wire::WorkloadView>>),
    /// The person had enough.
    Interrupted,
}

/// The place in history where waiting begins: what was before is no news.
pub(crate) async fn mark(client: &Client) -> String {
    let request = wire::ListEventsRequest { limit: 1, ..wire::ListEventsRequest::default() };
    let found = client.answer(client.control().list_events(request)).await;
    let last = found.ok().and_then(|mut found| found.events.pop());
    last.map(|event| event.id).unwrap_or_default()
}

/// How a workload is; `None` if there is none, or nobody can tell.
pub(crate) async fn view(client: &Client, id: &str) -> Option<Box<wire::WorkloadView>> {
    let request = wire::GetWorkloadRequest { workload_id: id.to_owned() };
    let found = client.answer(client.control().get_workload(request)).await;
    found.ok().and_then(|found| found.workload).map(Box::new)
}

/// How a workload is, if an apply left it running as it was `before`.
pub(crate) async fn unmoved(
    client: &Client,
    before: Option<&wire::WorkloadView>,
) -> Option<Box<wire::WorkloadView>> {
    let before = before?;
    let since = SystemTime::try_from(before.last_updated?).ok()?;
    let age = SystemTime::now().duration_since(since).unwrap_or_default();
    let after = view(client, &before.workload_id).await?;
    judge::unmoved(before, &after, age).then_some(after)
}

/// Waits until the workload is as wanted, or will not be.
pub(crate) async fn wait(
    shell: &Shell,
    client: &Client,
    (id, goal): (&str, Goal),
    after: String,
) -> Result<Ended, Problem> {
    let mut waiting = Waiting {
        client,
        id,
        judge: Judge::new(goal),
        progress: Progress::new(&shell.world, id),
        after,
        begun: Instant::now(),
        away: None,
        seen: None,
    };
    let end = waiting.begun + shell.global.timeout.unwrap_or(USUAL);
    let mut events = waiting.listen().await;
    let mut rhythm = interval(RHYTHM);
    rhythm.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = shell.world.interrupted() => return Ok(Ended::Interrupted),
            () = sleep_until(end.into()) => return Ok(Ended::TooLong(waiting.seen)),
            event = next(&mut events) => match event {
                Some(event) => waiting.tell(&event),
                None => events = None,
            },
            _ = rhythm.tick() => {}
        }
        // A scheduler that hangs must not make us deaf.
        let verdict = tokio::select! {
            () = shell.world.interrupted() => return Ok(Ended::Interrupted),
            verdict = waiting.look() => verdict?,
        };
        if verdict != Verdict::Wait {
            // What was said up to now is told before the end is.
            while let Some(Some(event)) = ready(&mut events).await {
                waiting.tell(&event);
            }
            return Ok(Ended::Verdict(verdict, waiting.seen));
        }
    }
}

/// The next event; never, where none can come.
async fn next(
    events: &mut Option<Streaming<wire::SchedulerEventView>>,
) -> Option<wire::SchedulerEventView> {
    match events {
        Some(stream) => stream.next().await.and_then(Result::ok),
        None => std::future::pending().await,
    }
}

/// The next event if it comes at once.
async fn ready(
    events: &mut Option<Streaming<wire::SchedulerEventView>>,
) -> Option<Option<wire::SchedulerEventView>> {
    let soon = Duration::from_millis(20);
    tokio::time::timeout(soon, next(events)).await.ok()
}

struct Waiting<'a> {
    client: &'a Client,
    id: &'a str,
    judge: Judge,
    progress: Progress<'a>,
    after: String,
    begun: Instant,
    away: Option<Instant>,
    seen: Option<Box<wire::WorkloadView>>,
}

impl Waiting<'_> {
    async fn listen(&self) -> Option<Streaming<wire::SchedulerEventView>> {
        let request = wire::WatchEventsRequest {
            workload_id: self.id.to_owned(),
            ..wire::WatchEventsRequest::default()
        };
        self.client.answer(self.client.control().watch_events(request)).await.ok()
    }

    fn tell(&mut self, event: &wire::SchedulerEventView) {
        if event.id > self.after {
            self.after.clone_from(&event.id);
            if let Some(text) = event::progress(event) {
                self.progress.step(&text);
            }
        }
    }

    async fn look(&mut self) -> Result<Verdict, Problem> {
        let request = wire::GetWorkloadRequest { workload_id: self.id.to_owned() };
        let found = self.client.answer(self.client.control().get_workload(request)).await;
        let view = match found {
            Ok(found) => found.workload.map(Box::new),
            Err(status) if status.code() == Code::NotFound => None,
            Err(status) if self.bears(&status) => return Ok(Verdict::Wait),
            Err(status) => {
                return Err(self
                    .client
                    .refused("waiting was cut short", &status)
                    .why(format!("{} goes on in the background", self.id))
                    .next(format!("persys get {}", self.id)));
            }
        };
        self.away = None;
        if let Some(pull) = view.as_deref().and_then(show::workload::pull) {
            self.progress.amount(&pull);
        }
        let verdict = self.judge.look(view.as_deref(), self.begun.elapsed());
        if view.is_some() {
            self.seen = view;
        }
        Ok(verdict)
    }

    /// Whether this trouble may pass by itself, and there is still patience for it.
    fn bears(&mut self, status: &Status) -> bool {
        let passing = matches!(status.code(), Code::Unavailable | Code::DeadlineExceeded);
        let since = *self.away.get_or_insert_with(Instant::now);
        if passing && since.elapsed() < AWAY {
            self.progress.step("the scheduler does not answer; waiting for it");
            return true;
        }
        false
    }
}
