//! Child processes that cannot get out of hand.
//!
//! A child gets an argument list and never a shell line, an empty environment but for what is named
//! here, no input, its own process group, a deadline and a bound on what is kept of its output. When
//! the deadline passes, or when whoever waits goes away, the whole group is killed. A child does not
//! outlive this process either, however that ends: the kernel sees to it.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process_group};
use tokio::io::{AsyncRead, AsyncReadExt};
use tokio::time::{Instant, timeout, timeout_at};

/// How long a child that ended may leave its output open through children of its own.
const DRAIN: Duration = Duration::from_millis(200);

/// Sets what a process dies of when its parent does, and becomes the program named after it. It is
/// part of every Linux; where it is missing a child may outlive a parent that was killed.
const TIED: (&str, [&str; 3]) = ("/usr/bin/setpriv", ["--pdeathsig", "KILL", "--"]);

/// A child to run.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Child {
    /// The program, by its absolute path.
    pub program: PathBuf,
    /// Its arguments, as they are.
    pub args: Vec<String>,
    /// Its whole environment.
    pub env: BTreeMap<String, String>,
    /// Where it runs.
    pub folder: PathBuf,
    /// How long it may take.
    pub deadline: Duration,
    /// How much is kept of each of its outputs; the rest is read and dropped.
    pub output_limit: usize,
}

/// How a child ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ended {
    /// Its exit code; `None` if a signal ended it.
    pub code: Option<i32>,
    /// What it printed.
    pub stdout: Kept,
    /// What it complained about.
    pub stderr: Kept,
}

/// The beginning of an output.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Kept {
    /// What was kept.
    pub bytes: Vec<u8>,
    /// Whether there was more.
    pub cut: bool,
}

impl Kept {
    /// As text; what is no text is replaced.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.bytes).into_owned()
    }
}

/// Why a child did not come to its own end.
#[derive(Debug, thiserror::Error)]
pub enum ProcessError {
    /// A name that would be looked up somewhere is not run.
    #[error("{} is not an absolute path", program.display())]
    NotAbsolute {
        /// What was to run.
        program: PathBuf,
    },
    /// It could not be started.
    #[error("{} could not be started", program.display())]
    Spawn {
        /// What was to run.
        program: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
    /// It took too long and was killed, with all it had started.
    #[error("{} took longer than {within_ms} ms and was killed", program.display())]
    Deadline {
        /// What ran.
        program: PathBuf,
        /// How long it had.
        within_ms: u128,
    },
    /// Its end could not be waited for.
    #[error("the end of {} could not be seen", program.display())]
    Wait {
        /// What ran.
        program: PathBuf,
        /// Why.
        #[source]
        source: std::io::Error,
    },
}

/// Kills a whole process group when it goes out of scope, whatever the reason.
struct Group(Option<Pid>);

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(leader) = self.0 {
            // Nobody left to kill is what we want.
            let _gone = kill_process_group(leader, Signal::KILL);
        }
    }
}

/// Runs `child` to its end, or to the end of its time.
pub async fn run(child: &Child) -> Result<Ended, ProcessError> {
    let program = child.program.clone();
    if !program.is_absolute() {
        return Err(ProcessError::NotAbsolute { program });
    }
    let deadline = Instant::now() + child.deadline;
    let spawn = |source| ProcessError::Spawn { program: program.clone(), source };
    tokio::fs::metadata(&program).await.map_err(spawn)?;
    let tied = tokio::fs::try_exists(TIED.0).await.unwrap_or(false);
    let mut running = command(child, tied).spawn().map_err(spawn)?;
    let leader = running.id().and_then(|id| Pid::from_raw(i32::try_from(id).ok()?));
    let group = Group(leader);

    let (mut stdout, mut stderr) = (Kept::default(), Kept::default());
    let status = {
        let (out, err) = (running.stdout.take(), running.stderr.take());
        let reading = async {
            tokio::join!(
                keep(out, child.output_limit, &mut stdout),
                keep(err, child.output_limit, &mut stderr)
            )
        };
        tokio::pin!(reading);
        let mut read_all = false;
        let waiting = async {
            loop {
                tokio::select! {
                    status = running.wait() => return status,
                    _ = &mut reading, if !read_all => read_all = true,
                }
            }
        };
        let Ok(status) = timeout_at(deadline, waiting).await else {
            let within_ms = child.deadline.as_millis();
            return Err(ProcessError::Deadline { program, within_ms });
        };
        if !read_all {
            // A child of the child may hold the pipe open for ever; what came so far is kept.
            let _cut = timeout(DRAIN, &mut reading).await;
        }
        status
    };
    drop(group);
    let status = status.map_err(|source| ProcessError::Wait { program, source })?;
    Ok(Ended { code: status.code(), stdout, stderr })
}

fn command(child: &Child, tied: bool) -> tokio::process::Command {
    let mut command = if tied {
        let mut command = tokio::process::Command::new(TIED.0);
        command.args(TIED.1).arg(&child.program);
        command
    } else {
        tokio::process::Command::new(&child.program)
    };
    command
        .args(&child.args)
        .env_clear()
        .envs(&child.env)
        .current_dir(as_folder(&child.folder))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .process_group(0)
        .kill_on_drop(true);
    command
}

fn as_folder(folder: &Path) -> &Path {
    if folder.as_os_str().is_empty() { Path::new("/") } else { folder }
}

/// Reads to the end, keeping the first `limit` bytes.
async fn keep(source: Option<impl AsyncRead + Unpin>, limit: usize, kept: &mut Kept) {
    let Some(mut source) = source else { return };
    let mut buffer = vec![0; 8192];
    // An output that cannot be read any more has ended.
    while let Ok(length @ 1..) = source.read(&mut buffer).await {
        let room = limit.saturating_sub(kept.bytes.len());
        kept.cut |= length > room;
        kept.bytes.extend(buffer.iter().take(length.min(room)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Child {
        Child {
            program: PathBuf::from("/bin/sh"),
            args: vec!["-c".to_owned(), script.to_owned()],
            env: BTreeMap::from([("GREETING".to_owned(), "hello".to_owned())]),
            folder: PathBuf::from("/"),
            deadline: Duration::from_secs(20),
            output_limit: 1000,
        }
    }

    fn alive(pid: &str) -> bool {
        // A zombie has ended.
        std::fs::read_to_string(format!("/proc/{}/stat", pid.trim()))
            .is_ok_and(|stat| !stat.contains(") Z "))
    }

    async fn until_dead(pid: &str) -> bool {
        for _ in 0..200 {
            if !alive(pid) {
                return true;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        false
    }

    #[tokio::test]
    async fn a_child_has_its_arguments_its_environment_and_nothing_else() {
        let ended = run(&shell("echo $GREETING; env; pwd; cat; exit 3")).await.unwrap();
        assert_eq!(ended.code, Some(3));
        let text = ended.stdout.text();
        assert!(text.starts_with("hello\n") && !text.contains("HOME="), "{text}");
        assert!(text.ends_with("/\n"), "its input is empty: {text}");
        let mut child = shell("");
        child.program = PathBuf::from("/bin/echo");
        child.args = vec!["; touch /tmp/x".to_owned(), "$HOME".to_owned()];
        assert_eq!(run(&child).await.unwrap().stdout.text(), "; touch /tmp/x $HOME\n");
    }

    #[tokio::test]
    async fn a_noisy_child_is_cut_and_still_ends() {
        let ended = run(&shell("head -c 1000000 /dev/zero; echo oops >&2")).await.unwrap();
        assert_eq!((ended.code, ended.stdout.bytes.len(), ended.stdout.cut), (Some(0), 1000, true));
        assert_eq!((ended.stderr.text().as_str(), ended.stderr.cut), ("oops\n", false));
    }

    #[tokio::test]
    async fn past_its_deadline_a_child_is_killed_with_its_children() {
        let folder = std::env::temp_dir().join(format!("persys-process-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut child = shell("sleep 1000 & echo $! > grandchild; wait");
        child.deadline = Duration::from_millis(500);
        child.folder.clone_from(&folder);
        let error = run(&child).await.unwrap_err();
        assert!(matches!(error, ProcessError::Deadline { .. }), "{error}");
        let pid = std::fs::read_to_string(folder.join("grandchild")).unwrap();
        assert!(until_dead(&pid).await, "{pid} lives");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test]
    async fn a_grandchild_that_holds_the_pipe_holds_nobody_up() {
        let begun = Instant::now();
        let ended = run(&shell("sleep 1000 & echo $!")).await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(10));
        assert!(until_dead(&ended.stdout.text()).await, "what it left behind is killed");
    }

    #[tokio::test]
    async fn whoever_stops_waiting_leaves_nothing_running() {
        let folder = std::env::temp_dir().join(format!("persys-dropped-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut child = shell("sleep 1000 & echo $! > grandchild; wait");
        child.folder.clone_from(&folder);
        let path = folder.join("grandchild");
        let written = async {
            while std::fs::read_to_string(&path).unwrap_or_default().is_empty() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::select! {
            _ = run(&child) => panic!("it cannot end by itself"),
            () = written => {}
        }
        let pid = std::fs::read_to_string(&path).unwrap();
        assert!(until_dead(&pid).await, "{pid} lives");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[tokio::test]
    async fn a_name_without_a_path_is_not_looked_up() {
        let mut child = shell("");
        child.program = PathBuf::from("sh");
        assert!(matches!(run(&child).await, Err(ProcessError::NotAbsolute { .. })));
        child.program = PathBuf::from("/no/such/program");
        assert!(matches!(run(&child).await, Err(ProcessError::Spawn { .. })));
    }
}
