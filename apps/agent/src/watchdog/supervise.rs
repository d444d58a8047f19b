//! The agent's side of the watchdog: it is started, looked after and started again.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Stdio;
use std::time::Duration;

use persys_runtime::Clock;
use tokio::process::{Child, Command};
use tokio::sync::watch;
use tokio::time::Instant;

use crate::ledger::lease;

use super::pulse::Pulse;
use super::{Options, release};

/// How often the pulse is felt.
const FEEL: Duration = Duration::from_millis(200);
/// Wait before a dead one is started again; doubles while they die young.
const AGAIN: (Duration, Duration) = (Duration::from_millis(200), Duration::from_secs(10));
/// One that lived so long did not die of its start.
const GROWN_UP: Duration = Duration::from_secs(10);
const LOG: &str = "watchdog.log";
const MOST_LOG_BYTES: u64 = 1024 * 1024;

/// Keeps a watchdog running for ever, and says whether one guards. It is left running when this
/// ends, for that is what it is for.
pub(crate) async fn supervise(command: Vec<String>, options: Options, fence: watch::Sender<bool>) {
    let options = Options { agent: Some(std::process::id()), ..options };
    let (boot, clock) = (lease::boot_id(), Clock::since_boot());
    release::forget(&options.state_dir);
    let mut wait = AGAIN.0;
    loop {
        let begun = Instant::now();
        match spawn(&command, &options) {
            Ok(mut child) => {
                let pid = child.id();
                let able = || {
                    let pulse = Pulse::read(&options.state_dir);
                    pulse.is_some_and(|pulse| {
                        Some(pulse.pid) == pid && pulse.is_able(&boot, clock.now())
                    })
                };
                let ended = look_after(&mut child, &able, &fence).await;
                tracing::error!(%ended, "the watchdog ended; it is started again");
            }
            Err(error) => tracing::error!(%error, ?command, "the watchdog does not start"),
        }
        tell(&fence, false);
        wait = if begun.elapsed() > GROWN_UP { AGAIN.0 } else { wait };
        tokio::time::sleep(wait).await;
        wait = wait.saturating_mul(2).min(AGAIN.1);
    }
}

/// Waits for its end and tells, meanwhile, whether it guards.
async fn look_after(
    child: &mut Child,
    able: &(impl Fn() -> bool + Sync),
    fence: &watch::Sender<bool>,
) -> String {
    loop {
        tokio::select! {
            ended = child.wait() => {
                return ended.map_or_else(|error| error.to_string(), |status| status.to_string());
            }
            () = tokio::time::sleep(FEEL) => tell(fence, able()),
        }
    }
}

fn tell(fence: &watch::Sender<bool>, guards: bool) {
    fence.send_if_modified(|now| std::mem::replace(now, guards) != guards);
}

fn spawn(command: &[String], options: &Options) -> io::Result<Child> {
    let (program, arguments) =
        command.split_first().ok_or_else(|| io::Error::other("no command is given"))?;
    Command::new(program)
        .args(arguments)
        .args(options.arguments())
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(log(&options.state_dir)?)
        .spawn()
}

/// A file, since it outlives whatever reads what the agent says. It begins anew when it is long.
fn log(dir: &Path) -> io::Result<File> {
    let path = dir.join(LOG);
    let long = path.metadata().is_ok_and(|known| known.len() > MOST_LOG_BYTES);
    let mut open = OpenOptions::new();
    open.create(true).mode(0o600);
    if long {
        open.write(true).truncate(true)
    } else {
        open.append(true)
    };
    open.open(path)
}

#[cfg(test)]
mod tests {
    use persys_model::id::NodeId;

    use super::*;

    #[tokio::test]
    async fn one_that_proves_nothing_is_no_fence_and_one_that_dies_is_started_again() {
        let dir = tempfile::tempdir().unwrap();
        let options = Options {
            state_dir: dir.path().to_path_buf(),
            cluster: "c".to_owned(),
            node: NodeId::fixed("n"),
            docker: None,
            machines: None,
            agent: None,
        };
        let script = format!("echo $$ >> {}", dir.path().join("born").display());
        let command = ["/bin/sh", "-c", &script].map(ToOwned::to_owned).to_vec();
        let (fence, guards) = watch::channel(false);
        let task = tokio::spawn(supervise(command, options, fence));
        let deadline = Instant::now() + Duration::from_secs(20);
        let born = || std::fs::read_to_string(dir.path().join("born")).unwrap_or_default();
        while born().lines().count() < 3 {
            assert!(Instant::now() < deadline, "it is not started again: {}", born());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        assert!(!*guards.borrow());
        task.abort();
    }
}
