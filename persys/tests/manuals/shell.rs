//! A shell that somebody types into, line by line.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

/// How long one command may take.
const PATIENCE: Duration = Duration::from_mins(1);
/// Between two looks.
const LOOK_AGAIN: Duration = Duration::from_millis(20);
/// Stands in front of how a command ended.
const MARK: &str = "\u{1}ended";

/// A shell; everything it started ends with it.
pub(crate) struct Shell {
    child: Child,
    input: ChildStdin,
    printed: Receiver<String>,
    folder: PathBuf,
    /// How many run in the background.
    beside: usize,
}

impl Drop for Shell {
    fn drop(&mut self) {
        let group = Pid::from_child(&self.child);
        // Those who have something to put away get a moment for it; then nobody is left.
        kill_process_group(group, Signal::TERM).ok();
        drop(self.child.kill());
        drop(self.child.wait());
        kill_process_group(group, Signal::KILL).ok();
    }
}

impl Shell {
    /// A shell in this folder, with these variables and no others.
    pub(crate) fn start(folder: &Path, variables: &[(String, String)]) -> Self {
        let mut child = Command::new("bash")
            .args(["--norc", "--noprofile"])
            .env_clear()
            .envs(variables.iter().map(|(name, value)| (name, value)))
            .current_dir(folder)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            // Signals of the terminal are not for it, and one to it reaches all it started.
            .process_group(0)
            .spawn()
            .unwrap();
        let mut input = child.stdin.take().unwrap();
        writeln!(input, "exec 2>&1").unwrap();
        let output = BufReader::new(child.stdout.take().unwrap());
        let (sender, printed) = channel();
        std::thread::spawn(move || {
            for line in output.split(b'\n').map_while(Result::ok) {
                if sender.send(String::from_utf8_lossy(&line).into_owned()).is_err() {
                    return;
                }
            }
        });
        Self { child, input, printed, folder: folder.to_owned(), beside: 0 }
    }

    /// Types a command and waits: how it ended, and what it printed.
    pub(crate) fn types(&mut self, command: &str, input: Option<&str>) -> (i32, String) {
        let typed = self.folder.join(".typed");
        let from = match input {
            None => "/dev/null".to_owned(),
            Some(text) => {
                std::fs::write(&typed, text).unwrap();
                format!("'{}'", typed.display())
            }
        };
        let mark = format!("printf '\\n{MARK} %d\\n' $?");
        writeln!(self.input, "{{ {command}\n}} <{from}\n{mark}").unwrap();
        let (begun, mut printed) = (Instant::now(), String::new());
        loop {
            let left = PATIENCE.saturating_sub(begun.elapsed());
            match self.printed.recv_timeout(left) {
                Ok(line) => {
                    if let Some(code) = line.strip_prefix(MARK) {
                        return (code.trim().parse().unwrap_or(-1), printed);
                    }
                    printed.push_str(&line);
                    printed.push('\n');
                }
                Err(RecvTimeoutError::Timeout) => panic!("{command}: does not end:\n{printed}"),
                Err(RecvTimeoutError::Disconnected) => panic!("{command}: ends all:\n{printed}"),
            }
        }
    }

    /// Types a command that goes on in the background, and waits until it has printed `ready`.
    #[expect(clippy::disallowed_methods, reason = "a condition is awaited; there is no runtime")]
    pub(crate) fn leaves(&mut self, command: &str, ready: &str) -> Result<(), String> {
        self.beside += 1;
        let log = self.folder.join(format!(".beside-{}", self.beside));
        std::fs::write(&log, "").unwrap();
        let place = log.display();
        // In its place, not below it: whoever ends `$LAST` ends the program itself.
        self.types(&format!("{{ exec {command}\n}} >'{place}' 2>&1 &\nLAST=$!"), None);
        let begun = Instant::now();
        loop {
            let text = std::fs::read_to_string(&log).unwrap();
            if text.contains(ready) {
                return Ok(());
            }
            let gone = self.types("kill -0 $!", None).0 != 0;
            if gone || begun.elapsed() > PATIENCE {
                return Err(format!("never printed {ready:?}, but:\n{text}"));
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
}
