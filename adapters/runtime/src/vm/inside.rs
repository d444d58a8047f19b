//! Looking into a machine: its console, what it uses, and what is left of its end.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::{StreamExt as _, stream};
use persys_libvirt::{Domain, Groups, Session as Libvirt, State, Stats};
use persys_model::id::WorkloadId;
use persys_node::input::Existing;
use tokio::io::{AsyncReadExt as _, DuplexStream};
use tokio::sync::mpsc;
use tokio::time::Instant;

use crate::error::Error;
use crate::exclusive::Exclusive;
use crate::inside::{
    Chunk, Console, ConsoleSession, End, Evidence, Exec, ExecCommand, LogRange, Logs, Output,
    Reading, Session, Source, Usage,
};

use super::console::{self, Written};
use super::observe::Ours;
use super::{Machines, boot, call};

/// How long one reading of all machines serves everybody who asks.
const FRESH: Duration = Duration::from_secs(1);
/// How often a reader that follows asks whether the machine still runs.
const STILL: Duration = Duration::from_secs(2);
/// Largest picture of a screen that is kept.
const SCREEN_BYTES: usize = 32 << 20;
/// How long a picture may take.
const SCREEN_TIME: Duration = Duration::from_secs(5);
/// The picture of a screen, whatever its type.
const SCREEN: &str = "screen";

/// Bytes typed on a console and not yet taken by the guest.
const TYPED_BYTES: usize = 4096;
/// Pieces of a console that may wait for its reader.
const PIECES: usize = 16;

/// The last reading of all machines.
pub(super) type Sampled = tokio::sync::Mutex<Option<(Instant, Arc<Vec<Stats>>)>>;

impl Machines {
    async fn present(&self, workload: &WorkloadId) -> Result<Ours, Error> {
        if self.never_had(workload).await {
            return Err(Error::Absent { workload: workload.clone() });
        }
        let session = self.session().await?;
        let ours = self.ours(&session, workload).await?;
        ours.ok_or_else(|| Error::Absent { workload: workload.clone() })
    }

    /// What all machines use, by one call for all who ask within a moment.
    async fn sample(&self) -> Result<Arc<Vec<Stats>>, Error> {
        let mut last = self.sampled.lock().await;
        if let Some((at, stats)) = last.as_ref()
            && at.elapsed() < FRESH
        {
            return Ok(Arc::clone(stats));
        }
        let session = self.session().await?;
        let stats = session.stats(Groups::USAGE).await.map_err(|said| call::told("usage", said))?;
        let stats = Arc::new(stats);
        *last = Some((Instant::now(), Arc::clone(&stats)));
        Ok(stats)
    }

    /// Keeps a picture of the screen of a machine that crashed, and says where. It crashed once, so
    /// one picture is enough.
    async fn picture(&self, session: &Libvirt, ours: &Ours) -> Option<String> {
        let folder = self.folder(&ours.mark.workload);
        for kind in ["png", "ppm"] {
            let path = folder.join(format!("{SCREEN}.{kind}"));
            if tokio::fs::try_exists(&path).await.unwrap_or_default() {
                return Some(path.display().to_string());
            }
        }
        if ours.state != State::Crashed && !ours.is_stuck() {
            return None;
        }
        let (kind, stream) = session.screenshot(&ours.domain).await.ok()?;
        let bytes = stream.rest(SCREEN_BYTES, SCREEN_TIME).await.ok()?;
        let kind = if kind.as_deref() == Some("image/png") { "png" } else { "ppm" };
        let path = folder.join(format!("{SCREEN}.{kind}"));
        tokio::fs::write(&path, bytes).await.ok()?;
        Some(path.display().to_string())
    }

    /// Forgets the picture of an earlier run.
    pub(super) async fn forget_picture(&self, workload: &WorkloadId) {
        for kind in ["png", "ppm"] {
            let path = self.folder(workload).join(format!("{SCREEN}.{kind}"));
            // None there is what is wanted.
            let _none = tokio::fs::remove_file(path).await;
        }
    }
}

#[async_trait]
impl Logs for Machines {
    async fn logs(&self, workload: &WorkloadId, range: LogRange) -> Result<Output, Error> {
        self.present(workload).await?;
        let console = Written::open(&self.folder(workload), &range).await;
        if range.follow {
            return Ok(follow(self.clone(), workload.clone(), console));
        }
        let pieces = stream::unfold(console, |mut console| async move {
            console.next().await.map(|bytes| (Ok(chunk(bytes)), console))
        });
        Ok(pieces.boxed())
    }
}

fn chunk(bytes: bytes::Bytes) -> Chunk {
    Chunk { source: Source::Stdout, bytes }
}

/// Goes on until the machine no longer runs. libvirt's silence is no such end.
fn follow(machines: Machines, workload: WorkloadId, console: Written) -> Output {
    let begun = (machines, workload, console, Instant::now());
    let pieces = stream::unfold(begun, |(machines, workload, mut console, mut asked)| async move {
        let mut over = false;
        loop {
            if let Some(bytes) = console.next().await {
                return Some((Ok(chunk(bytes)), (machines, workload, console, asked)));
            }
            if over {
                return None;
            }
            tokio::time::sleep(console::LOOK_AGAIN).await;
            if asked.elapsed() >= STILL {
                asked = Instant::now();
                // One more look at the console comes after: what it wrote last is not lost.
                over = !machines.goes_on(&workload).await;
            }
        }
    });
    pieces.boxed()
}

impl Machines {
    async fn goes_on(&self, workload: &WorkloadId) -> bool {
        match self.present(workload).await {
            Ok(ours) => ours.existing().is_alive(),
            Err(Error::Absent { .. }) => false,
            Err(_) => true,
        }
    }
}

#[async_trait]
impl Exec for Machines {
    async fn exec(&self, workload: &WorkloadId, _command: &ExecCommand) -> Result<Session, Error> {
        self.present(workload).await?;
        let detail = format!(
            "commands cannot be run inside a virtual machine from here; log in at its console with \
             `persys console {workload}`, or over the network"
        );
        Err(Error::Refused { verb: "exec", detail })
    }
}

#[async_trait]
impl Console for Machines {
    async fn console(&self, workload: &WorkloadId, force: bool) -> Result<ConsoleSession, Error> {
        let ours = self.present(workload).await?;
        let refused = |detail: String| Error::Refused { verb: "console", detail };
        if !ours.existing().is_alive() {
            return Err(refused("it does not run".to_owned()));
        }
        let session = self.session().await?;
        let held = match session.console(&ours.domain, force).await {
            Ok(held) => held,
            Err(said) if said.refusal().is_some() && !force => {
                let text = format!("{said}; `persys console --force` takes it over");
                return Err(refused(text));
            }
            Err(said) => return Err(call::told("console", said)),
        };
        let (typed, to_guest) = tokio::io::duplex(TYPED_BYTES);
        let (to_reader, printed) = mpsc::channel(PIECES);
        tokio::spawn(carry(held, to_guest, to_reader));
        let output = stream::unfold(printed, |mut printed| async move {
            printed.recv().await.map(|piece| (piece, printed))
        });
        Ok(ConsoleSession { output: output.boxed(), input: Box::pin(typed) })
    }
}

/// Carries both ways until the console ends or nobody reads it. Whoever types no more may still read.
async fn carry(
    mut held: persys_libvirt::Stream,
    mut typed: DuplexStream,
    to: mpsc::Sender<Result<Chunk, Error>>,
) {
    let mut buffer = vec![0; TYPED_BYTES];
    let mut more = true;
    loop {
        tokio::select! {
            piece = held.next() => {
                let piece = match piece {
                    Ok(Some(bytes)) => Ok(chunk(bytes)),
                    Ok(None) => return,
                    Err(said) => Err(call::told("console", said)),
                };
                let over = piece.is_err();
                if to.send(piece).await.is_err() || over {
                    return;
                }
            }
            length = typed.read(&mut buffer), if more => match length {
                Ok(length @ 1..) => {
                    let bytes = buffer.get(..length).unwrap_or_default();
                    if held.send(bytes).await.is_err() {
                        return;
                    }
                }
                Ok(_) | Err(_) => more = false,
            },
            () = to.closed() => return,
        }
    }
}

#[async_trait]
impl Usage for Machines {
    async fn usage(&self, workload: &WorkloadId) -> Result<Option<Reading>, Error> {
        let session = self.session().await?;
        let Some(ours) = self.ours(&session, workload).await? else { return Ok(None) };
        if !ours.existing().is_alive() {
            return Ok(None);
        }
        let stats = self.sample().await?;
        Ok(of(&stats, &ours.domain).map(reading))
    }

    async fn usage_of_all(&self) -> Result<BTreeMap<WorkloadId, Reading>, Error> {
        let (all, stats) = (self.all().await?, self.sample().await?);
        let running = all.iter().filter(|ours| ours.existing().is_alive());
        let readings = running.filter_map(|ours| {
            Some((ours.mark.workload.clone(), reading(of(&stats, &ours.domain)?)))
        });
        Ok(readings.collect())
    }
}

fn of<'a>(stats: &'a [Stats], domain: &Domain) -> Option<&'a Stats> {
    stats.iter().find(|stats| stats.domain.uuid == domain.uuid)
}

/// libvirt counts memory in KiB. What the host really gave is the emulator's own memory; the guest's
/// view of it stays in the guest.
fn reading(stats: &Stats) -> Reading {
    let bytes = |name| stats.natural(name).unwrap_or_default().saturating_mul(1024);
    Reading {
        cpu_nanos: stats.natural("cpu.time").unwrap_or_default(),
        memory_bytes: bytes("balloon.rss"),
        memory_limit_bytes: bytes("balloon.maximum"),
        // A machine is one process to the host; what runs in it is its own affair.
        pids: 1,
        network_in_bytes: stats.sum("net", "rx.bytes"),
        network_out_bytes: stats.sum("net", "tx.bytes"),
        disk_read_bytes: stats.sum("block", "rd.bytes"),
        disk_written_bytes: stats.sum("block", "wr.bytes"),
    }
}

#[async_trait]
impl Evidence for Machines {
    async fn evidence(&self, workload: &WorkloadId) -> Result<Option<End>, Error> {
        let session = self.session().await?;
        let Some(ours) = self.ours(&session, workload).await? else { return Ok(None) };
        let Existing::Exited { code } = ours.existing() else { return Ok(None) };
        let folder = self.folder(workload);
        let (mut picture, mut panic) = (None, None);
        if code != 0 {
            panic = boot::last_panic(&folder, ours.record.console_from).await;
            picture = self.picture(&session, &ours).await;
        }
        Ok(Some(End {
            code,
            signal: End::signal_of(code),
            runtime_error: words(&ours, code, panic, picture),
            last_lines: console::last_lines(&folder).await,
            ..End::default()
        }))
    }
}

/// What happened, in words.
fn words(ours: &Ours, code: i32, panic: Option<String>, picture: Option<String>) -> Option<String> {
    let stuck = ours.record.stuck.as_ref().map(|sign| format!("{sign}; it is kept as it was"));
    let happened = match (stuck, ours.state, code) {
        (_, _, 0) => return None,
        (Some(stuck), _, _) => stuck,
        (None, State::Crashed, _) => "the guest crashed and is kept as it was".to_owned(),
        (None, _, 1) => "the guest or its emulator crashed".to_owned(),
        (None, _, 137) => "it was ended from outside".to_owned(),
        (None, _, _) => "nobody saw how it ended".to_owned(),
    };
    let happened = match panic {
        Some(said) => format!("{happened} ({said})"),
        None => happened,
    };
    Some(match picture {
        Some(path) => format!("{happened}; its screen is in {path}"),
        None => happened,
    })
}

#[async_trait]
impl Exclusive for Machines {
    async fn exclusive(&self) -> Result<Vec<WorkloadId>, Error> {
        match self.exclusive_work().await {
            // Where no machine was ever made, a libvirt that is not there hides none.
            Err(error) if error.is_unknown() && self.never_had_any().await => Ok(Vec::new()),
            answer => answer,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use persys_libvirt::Param;
    use persys_model::id::RevisionId;
    use persys_model::spec::Class;
    use persys_model::token::Epoch;

    use super::super::identity;
    use super::super::record::Record;
    use super::*;

    #[test]
    fn a_reading_sums_over_disks_and_cards() {
        let values = [
            ("cpu.time", 7),
            ("balloon.rss", 2),
            ("balloon.maximum", 4),
            ("net.count", 2),
            ("net.0.rx.bytes", 10),
            ("net.1.rx.bytes", 5),
            ("net.1.tx.bytes", 3),
            ("block.count", 1),
            ("block.0.rd.bytes", 8),
            ("block.1.rd.bytes", 1000),
        ];
        let values: BTreeMap<_, _> =
            values.map(|(name, value)| (name.to_owned(), Param::Natural(value))).into();
        let domain = Domain { name: "persys-web".to_owned(), uuid: [1; 16], id: 3 };
        let stats = Stats { domain, values };
        let wanted = Reading {
            cpu_nanos: 7,
            memory_bytes: 2048,
            memory_limit_bytes: 4096,
            pids: 1,
            network_in_bytes: 15,
            network_out_bytes: 3,
            disk_read_bytes: 8,
            disk_written_bytes: 0,
        };
        assert_eq!(reading(&stats), wanted);
    }

    #[test]
    fn a_bad_end_says_what_happened_and_where_to_look() {
        let mut ours = Ours {
            domain: Domain { name: "persys-web".to_owned(), uuid: [1; 16], id: 3 },
            mark: identity::Mark {
                workload: WorkloadId::fixed("web"),
                epoch: Epoch(1),
                revision: RevisionId::fixed("r1"),
                class: Class::Default,
                stop_grace_ms: None,
            },
            state: State::Running,
            record: Record::default(),
        };
        assert_eq!(words(&ours, 0, None, None), None);
        let screen = || Some("/vms/web/screen.ppm".to_owned());
        ours.state = State::Crashed;
        let panic = Some("Kernel panic - not syncing: x".to_owned());
        let text = words(&ours, 1, panic, screen()).unwrap();
        assert!(text.contains("(Kernel panic - not syncing: x)"), "{text}");
        assert!(text.contains("crashed") && text.ends_with("/vms/web/screen.ppm"), "{text}");
        ours.state = State::Running;
        ours.record.stuck = Some("the machine found nothing to boot".to_owned());
        let text = words(&ours, 1, None, screen()).unwrap();
        assert!(text.starts_with("the machine found nothing to boot; it is kept"), "{text}");
        assert!(text.ends_with("/vms/web/screen.ppm"), "{text}");
    }
}
