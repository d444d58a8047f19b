//! One process of the product: started, killed, paused, and started again as it was.

use std::fs::OpenOptions;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use rustix::process::{Pid, Signal, kill_process};

use crate::Fault;

/// A process, whether it runs or not.
#[derive(Debug)]
pub struct Process {
    /// Its name in reports.
    pub name: String,
    program: PathBuf,
    words: Vec<String>,
    log: PathBuf,
    child: Option<Child>,
    paused: bool,
}

impl Process {
    /// One that is not started yet. Its log is in `folder`.
    #[must_use]
    pub fn new(name: &str, program: &Path, words: Vec<String>, folder: &Path) -> Self {
        Self {
            name: name.to_owned(),
            program: program.to_owned(),
            words,
            log: folder.join(format!("{name}.log")),
            child: None,
            paused: false,
        }
    }

    /// Starts it, unless it runs.
    pub fn start(&mut self) -> Result<(), Fault> {
        if self.runs() {
            return Ok(());
        }
        let log = OpenOptions::new().create(true).append(true).open(&self.log)?;
        // It ends with whoever started it, however that ends. What it starts itself may live on.
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "KILL"])
            .arg(&self.program)
            .args(&self.words)
            .env_clear()
            .envs(std::env::vars().filter(|(name, _)| name == "PATH" || name == "HOME"))
            .stdin(Stdio::null())
            .stdout(log.try_clone()?)
            .stderr(log)
            .spawn()?;
        self.child = Some(child);
        self.paused = false;
        Ok(())
    }

    /// True while it runs or is paused.
    pub fn runs(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| matches!(child.try_wait(), Ok(None)))
    }

    /// True if it ended without being killed here.
    pub fn has_ended(&mut self) -> bool {
        self.child.is_some() && !self.runs()
    }

    /// True while it is paused.
    #[must_use]
    pub fn is_paused(&self) -> bool {
        self.paused
    }

    /// Its process id.
    #[must_use]
    pub fn id(&self) -> Option<u32> {
        self.child.as_ref().map(Child::id)
    }

    /// Ends it without a word.
    pub fn kill(&mut self) -> Result<(), Fault> {
        if let Some(mut child) = self.child.take() {
            child.kill()?;
            child.wait()?;
        }
        self.paused = false;
        Ok(())
    }

    /// Stops it in its tracks.
    pub fn pause(&mut self) -> Result<(), Fault> {
        self.signal(Signal::STOP)?;
        self.paused = true;
        Ok(())
    }

    /// Lets it go on.
    pub fn resume(&mut self) -> Result<(), Fault> {
        self.paused = false;
        self.signal(Signal::CONT)
    }

    fn signal(&self, signal: Signal) -> Result<(), Fault> {
        match &self.child {
            Some(child) => Ok(kill_process(Pid::from_child(child), signal)?),
            None => Ok(()),
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.kill().ok();
    }
}

/// Processes whose command line has all these words in it.
#[must_use]
pub fn with_words(words: &[&str]) -> Vec<u32> {
    let Ok(all) = std::fs::read_dir("/proc") else { return Vec::new() };
    let has = |id: &u32| {
        let line = std::fs::read(format!("/proc/{id}/cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).into_owned();
        words.iter().all(|word| line.contains(word))
    };
    let ids = all.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    ids.filter(has).collect()
}

/// Ends a process without a word.
pub fn kill_id(id: u32) {
    if let Some(id) = i32::try_from(id).ok().and_then(Pid::from_raw) {
        // One that has ended is fine too.
        kill_process(id, Signal::KILL).ok();
    }
}
