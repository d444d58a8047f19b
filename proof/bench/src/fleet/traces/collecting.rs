//! The collector: a process of its own, because what it costs is not ours.

use std::io::Write as _;
use std::net::SocketAddr;
use std::process::Stdio;

use persys_collector::Collector;
use tokio::io::{AsyncBufReadExt as _, BufReader};
use tokio::process::{Child, ChildStdout, Command};

use crate::fleet::Fault;

/// Takes spans until standard input ends; says where, and then how many.
pub(in crate::fleet) async fn collect() -> Result<(), Fault> {
    let collector = Collector::counting().await?;
    let mut out = std::io::stdout();
    writeln!(out, "{}", collector.at)?;
    out.flush()?;
    let until_end = || std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
    tokio::task::spawn_blocking(until_end).await??;
    writeln!(out, "{}", collector.count())?;
    out.flush()?;
    Ok(())
}

/// The collector's process, seen from outside.
pub(super) struct Collecting {
    child: Child,
    out: BufReader<ChildStdout>,
    pub(super) at: SocketAddr,
}

impl Collecting {
    pub(super) async fn start() -> Result<Self, Fault> {
        let mut child = Command::new(std::env::current_exe()?)
            .arg("collector")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .kill_on_drop(true)
            .spawn()?;
        let mut out = BufReader::new(child.stdout.take().ok_or("the collector has no output")?);
        let mut line = String::new();
        out.read_line(&mut line).await?;
        Ok(Self { child, out, at: line.trim().parse()? })
    }

    /// How many spans came.
    pub(super) async fn finish(mut self) -> Result<u64, Fault> {
        drop(self.child.stdin.take());
        let mut line = String::new();
        self.out.read_line(&mut line).await?;
        Ok(line.trim().parse()?)
    }
}
