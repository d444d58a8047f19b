//! Everything outside a command: variables, terminal, what is typed, Ctrl-C.
//!
//! A command gets it as an argument, so that a test can run a command in this process and read
//! what it said.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal as _, Read as _, Write as _};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tokio::sync::Notify;

/// Where text goes.
#[derive(Debug, Clone)]
enum Sink {
    Out,
    Err,
    Kept(Arc<Mutex<Vec<u8>>>),
}

impl Sink {
    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Out => {
                let mut out = io::stdout().lock();
                out.write_all(bytes)?;
                out.flush()
            }
            Self::Err => io::stderr().lock().write_all(bytes),
            Self::Kept(kept) => {
                kept.lock().unwrap_or_else(PoisonError::into_inner).extend_from_slice(bytes);
                Ok(())
            }
        }
    }

    fn text(&self) -> String {
        match self {
            Self::Out | Self::Err => String::new(),
            Self::Kept(kept) => {
                let kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                String::from_utf8_lossy(&kept).into_owned()
            }
        }
    }
}

/// Everything outside a command.
#[derive(Debug, Clone)]
pub struct World {
    /// Environment variables.
    pub env: BTreeMap<String, String>,
    /// Whether what is printed is read on a terminal.
    pub out_terminal: bool,
    /// Whether what is remarked is read on a terminal.
    pub err_terminal: bool,
    /// Whether somebody types.
    pub in_terminal: bool,
    out: Sink,
    err: Sink,
    given: Option<Arc<Vec<u8>>>,
    interrupt: Option<Arc<Notify>>,
}

impl World {
    /// This process.
    #[must_use]
    pub fn real() -> Self {
        Self {
            env: std::env::vars_os()
                .filter_map(|(key, value)| {
                    Some((key.into_string().ok()?, value.into_string().ok()?))
                })
                .collect(),
            out_terminal: io::stdout().is_terminal(),
            err_terminal: io::stderr().is_terminal(),
            in_terminal: io::stdin().is_terminal(),
            out: Sink::Out,
            err: Sink::Err,
            given: None,
            interrupt: None,
        }
    }

    /// One without a terminal that keeps what is said, for tests.
    #[must_use]
    pub fn kept(env: BTreeMap<String, String>, typed: &[u8]) -> Self {
        Self {
            env,
            out_terminal: false,
            err_terminal: false,
            in_terminal: false,
            out: Sink::Kept(Arc::default()),
            err: Sink::Kept(Arc::default()),
            given: Some(Arc::new(typed.to_vec())),
            interrupt: Some(Arc::default()),
        }
    }

    /// What was printed so far, if it is kept.
    #[must_use]
    pub fn printed(&self) -> String {
        self.out.text()
    }

    /// What was remarked so far, if it is kept.
    #[must_use]
    pub fn remarked(&self) -> String {
        self.err.text()
    }

    /// Acts as Ctrl-C does, if nothing is real.
    pub fn interrupt(&self) {
        if let Some(interrupt) = &self.interrupt {
            interrupt.notify_one();
        }
    }

    /// Waits for Ctrl-C.
    pub(crate) async fn interrupted(&self) {
        match &self.interrupt {
            Some(interrupt) => interrupt.notified().await,
            None => {
                if tokio::signal::ctrl_c().await.is_err() {
                    std::future::pending::<()>().await;
                }
            }
        }
    }

    /// Prints bytes as they are. An error means that nobody reads any more.
    pub(crate) fn print(&self, bytes: &[u8]) -> io::Result<()> {
        self.out.write(bytes)
    }

    /// Remarks bytes as they are. Whether anybody reads remarks does not matter.
    pub(crate) fn remark(&self, bytes: &[u8]) {
        drop(self.err.write(bytes));
    }

    /// Remarks a line.
    pub(crate) fn note(&self, line: &str) {
        self.remark(format!("{line}\n").as_bytes());
    }

    /// A variable that is set to something.
    pub(crate) fn var(&self, name: &str) -> Option<&str> {
        self.env.get(name).map(String::as_str).filter(|value| !value.is_empty())
    }

    /// All that is typed, up to `most` bytes and one. Whoever asks again gets the same: it can be read
    /// only once.
    pub(crate) fn typed(&self, most: u64) -> io::Result<Vec<u8>> {
        static TYPED: OnceLock<Vec<u8>> = OnceLock::new();
        if let Some(given) = &self.given {
            return Ok(given.to_vec());
        }
        if let Some(typed) = TYPED.get() {
            return Ok(typed.clone());
        }
        let mut typed = Vec::new();
        io::stdin().lock().take(most.saturating_add(1)).read_to_end(&mut typed)?;
        Ok(TYPED.get_or_init(|| typed).clone())
    }

    /// What is typed, piece by piece as it comes.
    pub(crate) fn keys(&self) -> tokio::sync::mpsc::Receiver<Vec<u8>> {
        let (to, keys) = tokio::sync::mpsc::channel(16);
        let given = self.given.clone();
        // A thread of its own: a read that waits for a key must not hold up the end of the program.
        std::thread::spawn(move || {
            if let Some(given) = given {
                drop(to.blocking_send(given.to_vec()));
                return;
            }
            let mut piece = vec![0_u8; 4096];
            loop {
                match io::stdin().lock().read(&mut piece) {
                    Ok(0) | Err(_) => return,
                    Ok(length) => {
                        let typed = piece.get(..length).unwrap_or_default().to_vec();
                        if to.blocking_send(typed).is_err() {
                            return;
                        }
                    }
                }
            }
        });
        keys
    }
}
