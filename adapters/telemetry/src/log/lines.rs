//! Lines on their way out: written by a thread of their own, so that a reader who stands still holds
//! up nobody.

use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use tracing_subscriber::fmt::MakeWriter;

/// Lines that may wait; beyond that they are dropped and counted.
const MOST_WAITING: usize = 4096;
/// Longest line; one that is longer is cut.
const LONGEST_LINE: usize = 16 * 1024;
/// How long what waits may take to be written when the process ends.
const FAREWELL: Duration = Duration::from_secs(1);

/// Where lines go. Copies are the same.
#[derive(Debug, Clone)]
pub struct Lines {
    to: SyncSender<Vec<u8>>,
    dropped: Arc<AtomicU64>,
}

/// The thread that writes. When it is dropped, what waits is written, for a second at most.
#[derive(Debug)]
pub struct Writing {
    to: Option<SyncSender<Vec<u8>>>,
    thread: Option<JoinHandle<()>>,
}

impl Lines {
    /// Lines that are written to `out`.
    pub fn open(out: impl Write + Send + 'static) -> (Self, Writing) {
        let (to, lines) = sync_channel(MOST_WAITING);
        let dropped = Arc::<AtomicU64>::default();
        let count = Arc::clone(&dropped);
        let work = move || write_all(out, &lines, &count);
        let thread = std::thread::Builder::new().name("log".to_owned()).spawn(work).ok();
        (Self { to: to.clone(), dropped }, Writing { to: Some(to), thread })
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        // An empty line is the last; a queue that is full has nobody who reads it.
        if let Some(to) = self.to.take() {
            drop(to.try_send(Vec::new()));
        }
        let Some(thread) = self.thread.take() else { return };
        let until = Instant::now() + FAREWELL;
        while !thread.is_finished() && Instant::now() < until {
            std::thread::park_timeout(Duration::from_millis(2));
        }
    }
}

fn write_all(mut out: impl Write, lines: &Receiver<Vec<u8>>, dropped: &AtomicU64) {
    let mut told = 0;
    loop {
        let line = match lines.recv_timeout(Duration::from_secs(1)) {
            Ok(line) if line.is_empty() => return,
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => return,
        };
        // A sink that is gone is nobody's fault here, and there is nowhere to say so.
        if let Some(line) = line {
            drop(out.write_all(&line));
            continue;
        }
        let all = dropped.load(Ordering::Relaxed);
        if all > told {
            told = all;
            // Through the log itself, so that it has the form of every other line.
            tracing::warn!(
                dropped = all,
                "lines of this log were dropped: nobody read them in time"
            );
        }
    }
}

impl<'a> MakeWriter<'a> for Lines {
    type Writer = Line;

    fn make_writer(&'a self) -> Line {
        Line { text: Vec::with_capacity(256), lines: self.clone() }
    }
}

/// One line while it is put together.
#[derive(Debug)]
pub struct Line {
    text: Vec<u8>,
    lines: Lines,
}

impl Write for Line {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let room = LONGEST_LINE.saturating_sub(self.text.len());
        self.text.extend(bytes.iter().take(room));
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut text = std::mem::take(&mut self.text);
        if text.is_empty() {
            return;
        }
        if text.len() == LONGEST_LINE {
            text.push(b'\n');
        }
        if self.lines.to.try_send(text).is_err() {
            self.lines.dropped.fetch_add(1, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::*;

    #[derive(Clone, Default)]
    struct Shared(Arc<Mutex<Vec<u8>>>);

    impl Write for Shared {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.0.lock().unwrap().extend_from_slice(bytes);
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn what_waits_is_written_before_the_end_and_long_lines_are_cut() {
        let out = Shared::default();
        let (lines, writing) = Lines::open(out.clone());
        writeln!(lines.make_writer(), "one").unwrap();
        lines.make_writer().write_all(&vec![b'x'; 100_000]).unwrap();
        writeln!(lines.make_writer(), "three").unwrap();
        drop(writing);
        let text = String::from_utf8(out.0.lock().unwrap().clone()).unwrap();
        let lengths: Vec<_> = text.lines().map(str::len).collect();
        assert_eq!(lengths, [3, LONGEST_LINE, 5]);
    }

    #[test]
    fn a_reader_who_stands_still_costs_lines_and_nobody_waits() {
        // Nobody reads what is written here while the lock is held.
        let out = Shared::default();
        let held = Arc::clone(&out.0);
        let still = held.lock().unwrap();
        let (lines, writing) = Lines::open(out.clone());
        let begun = Instant::now();
        for _ in 0..MOST_WAITING + 100 {
            writeln!(lines.make_writer(), "line").unwrap();
        }
        let dropped = lines.dropped.load(Ordering::Relaxed);
        assert!((98..=100).contains(&dropped), "{dropped}");
        assert!(begun.elapsed() < Duration::from_secs(5), "{:?}", begun.elapsed());
        drop(still);
        drop(writing);
    }
}
