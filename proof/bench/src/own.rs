//! A process of the benchmark: this program again, with other words. It tells whoever started it what they
//! need to know, a line at a time, and ends when its standard input does.

use std::fmt::Display;
use std::io::{self, Write as _};
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use crate::fleet::Fault;

/// This program, to be given its words.
pub(crate) fn again() -> io::Result<Command> {
    Ok(Command::new(std::env::current_exe()?))
}

/// Such a process, seen from outside. Dropping it kills it.
pub(crate) struct Own {
    what: &'static str,
    child: Child,
    pid: u32,
    input: Option<ChildStdin>,
    told: Lines<BufReader<ChildStdout>>,
}

impl Own {
    /// Starts it. `what` it is called in complaints.
    pub(crate) fn start(what: &'static str, command: &mut Command) -> Result<Self, Fault> {
        let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).kill_on_drop(true);
        let mut child = piped.spawn()?;
        let missing = || format!("{what} ended at once");
        let pid = child.id().ok_or_else(missing)?;
        let told = BufReader::new(child.stdout.take().ok_or_else(missing)?).lines();
        let input = child.stdin.take();
        Ok(Self { what, child, pid, input, told })
    }

    pub(crate) fn pid(&self) -> u32 {
        self.pid
    }

    /// The next thing it tells.
    pub(crate) async fn told(&mut self) -> Result<String, Fault> {
        let line = self.told.next_line().await?;
        Ok(line.ok_or_else(|| format!("{} ended instead of saying more", self.what))?)
    }

    /// Tells it something.
    pub(crate) async fn tell(&mut self, what: &dyn Display) -> Result<(), Fault> {
        let input = self.input.as_mut().ok_or_else(|| format!("{} is to end", self.what))?;
        Ok(input.write_all(format!("{what}\n").as_bytes()).await?)
    }

    /// Nothing more is wanted of it.
    pub(crate) fn close(&mut self) {
        drop(self.input.take());
    }

    /// It ends, in good order.
    pub(crate) async fn end(mut self) -> Result<(), Fault> {
        self.close();
        let status = self.child.wait().await?;
        if status.success() {
            Ok(())
        } else {
            Err(format!("{} ended badly: {status}", self.what).into())
        }
    }
}

/// As such a process: tells this to whoever started it.
pub(crate) fn tell(what: &dyn Display) -> io::Result<()> {
    let mut out = io::stdout();
    writeln!(out, "{what}")?;
    out.flush()
}

/// As such a process: waits until nothing more is wanted.
pub(crate) async fn until_closed() -> Result<(), Fault> {
    tokio::task::spawn_blocking(|| io::copy(&mut io::stdin(), &mut io::sink())).await??;
    Ok(())
}
