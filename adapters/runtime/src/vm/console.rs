//! What a machine wrote on its serial console, from the files it is kept in.
//!
//! libvirt's log daemon writes `console.log` and, when that has grown, moves it to `console.log.0`
//! and on. A reader that follows notices by the file's number that it was moved, reads the old one to
//! its end and goes on in the new one.

use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use persys_model::failure::clip;
use tokio::fs::File;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, SeekFrom};

use crate::inside::{End, LogRange};

/// The older files, oldest first. The log daemon keeps three unless it was told otherwise.
const OLDER: [&str; 3] = ["console.log.2", "console.log.1", "console.log.0"];
const CURRENT: &str = "console.log";
/// How much is read at a time.
const PIECE: usize = 64 * 1024;
/// How far back lines are looked for.
const TAIL_BYTES: u64 = 1 << 20;
/// How often a reader that follows looks for more.
pub(super) const LOOK_AGAIN: Duration = Duration::from_millis(250);

/// The file a machine's console is written to.
pub(super) fn path(folder: &Path) -> PathBuf {
    folder.join(CURRENT)
}

/// A reader of the files of one machine.
#[derive(Debug)]
pub(super) struct Written {
    folder: PathBuf,
    /// Files still to be read before the current one, last first.
    older: Vec<PathBuf>,
    open: Option<(File, u64)>,
    /// Bytes to give before the files go on.
    ready: Option<Bytes>,
}

impl Written {
    /// At the beginning of what `range` asks for. Lines carry no time: of a console that was not
    /// written to since the moment asked for nothing is given, of any other everything.
    pub(super) async fn open(folder: &Path, range: &LogRange) -> Self {
        let older = OLDER.iter().rev().map(|name| folder.join(name)).collect();
        let mut console = Self { folder: folder.to_owned(), older, open: None, ready: None };
        let since = range.since.map(|since| UNIX_EPOCH + Duration::from_millis(since.0));
        if let Some(since) = since
            && changed(&path(folder)).await.is_none_or(|at| at < since)
        {
            console.skip().await;
            return console;
        }
        if let Some(lines) = range.tail {
            console.older.clear();
            console.seek_tail(lines).await;
        }
        console
    }

    /// To the end of what there is.
    async fn skip(&mut self) {
        self.older.clear();
        if let Some((mut file, number)) = open(&path(&self.folder)).await
            && file.seek(SeekFrom::End(0)).await.is_ok()
        {
            self.open = Some((file, number));
        }
    }

    /// To the last lines; of the older files only the youngest is looked at.
    async fn seek_tail(&mut self, lines: u32) {
        let mut text = Vec::new();
        if let Some((mut file, _)) = open(&self.folder.join("console.log.0")).await {
            end_of(&mut file, TAIL_BYTES, &mut text).await;
        }
        if let Some((mut file, number)) = open(&path(&self.folder)).await {
            let length = file.metadata().await.map_or(0, |about| about.len());
            if length > TAIL_BYTES {
                text.clear();
            }
            end_of(&mut file, TAIL_BYTES, &mut text).await;
            self.open = Some((file, number));
        }
        let from = tail_start(&text, lines);
        self.ready = Some(Bytes::from(text.split_off(from)));
    }

    /// What comes next; `None` if nothing more is there yet.
    pub(super) async fn next(&mut self) -> Option<Bytes> {
        if let Some(ready) = self.ready.take().filter(|ready| !ready.is_empty()) {
            return Some(ready);
        }
        loop {
            if self.open.is_none() && !self.advance().await {
                return None;
            }
            let (file, number) = self.open.as_mut()?;
            let mut piece = vec![0; PIECE];
            if let Ok(length @ 1..) = file.read(&mut piece).await {
                piece.truncate(length);
                return Some(Bytes::from(piece));
            }
            let current = number_of(&path(&self.folder)).await;
            if self.older.is_empty() && current == Some(*number) {
                return None;
            }
            self.open = None;
        }
    }

    async fn advance(&mut self) -> bool {
        while let Some(path) = self.older.pop() {
            self.open = open(&path).await;
            if self.open.is_some() {
                return true;
            }
        }
        self.open = open(&path(&self.folder)).await;
        self.open.is_some()
    }
}

/// The last lines, cut as evidence is.
pub(super) async fn last_lines(folder: &Path) -> Vec<String> {
    let range = LogRange { tail: Some(End::LINES), ..LogRange::default() };
    let mut console = Written::open(folder, &range).await;
    let text = console.next().await.unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    let lines = text.lines().map(|line| clip(line.trim_end(), End::LINE_BYTES).to_owned());
    lines.collect()
}

async fn open(path: &Path) -> Option<(File, u64)> {
    let file = File::open(path).await.ok()?;
    let number = file.metadata().await.ok()?.ino();
    Some((file, number))
}

async fn number_of(path: &Path) -> Option<u64> {
    tokio::fs::metadata(path).await.ok().map(|about| about.ino())
}

async fn changed(path: &Path) -> Option<SystemTime> {
    tokio::fs::metadata(path).await.ok()?.modified().ok()
}

/// Reads the last `most` bytes of a file, and leaves it at its end.
async fn end_of(file: &mut File, most: u64, into: &mut Vec<u8>) {
    let length = file.metadata().await.map_or(0, |about| about.len());
    if file.seek(SeekFrom::Start(length.saturating_sub(most))).await.is_ok() {
        // What cannot be read is not there.
        let _cut = (&mut *file).take(most).read_to_end(into).await;
    }
}

/// Where the last `lines` lines begin. A line that has not ended counts.
fn tail_start(text: &[u8], lines: u32) -> usize {
    let mut left = lines;
    if left == 0 {
        return text.len();
    }
    let whole = text.strip_suffix(b"\n").unwrap_or(text);
    for (at, byte) in whole.iter().enumerate().rev() {
        if *byte == b'\n' {
            left -= 1;
            if left == 0 {
                return at + 1;
            }
        }
    }
    0
}

#[cfg(test)]
mod tests {
    use persys_model::time::WallMillis;

    use super::*;

    async fn all(console: &mut Written) -> String {
        let mut text = Vec::new();
        while let Some(piece) = console.next().await {
            text.extend_from_slice(&piece);
        }
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn a_tail_begins_at_a_line() {
        let start = |text: &str, lines| tail_start(text.as_bytes(), lines);
        assert_eq!(start("a\nb\nc\n", 1), 4);
        assert_eq!(start("a\nb\nc", 2), 2);
        assert_eq!(start("a\nb\n", 9), 0);
        assert_eq!(start("a\nb\n", 0), 4);
        assert_eq!(start("", 3), 0);
    }

    #[tokio::test]
    async fn older_files_come_first_and_a_moved_file_is_followed() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("console.log.1"), "one\n").unwrap();
        std::fs::write(at("console.log.0"), "two\n").unwrap();
        std::fs::write(at("console.log"), "three\n").unwrap();
        let mut console = Written::open(folder.path(), &LogRange::default()).await;
        assert_eq!(all(&mut console).await, "one\ntwo\nthree\n");
        assert_eq!(console.next().await, None, "nothing more yet");
        let mut file = std::fs::OpenOptions::new().append(true).open(at("console.log")).unwrap();
        std::io::Write::write_all(&mut file, b"four\n").unwrap();
        assert_eq!(all(&mut console).await, "four\n");
        std::io::Write::write_all(&mut file, b"five\n").unwrap();
        std::fs::rename(at("console.log"), at("console.log.0")).unwrap();
        std::fs::write(at("console.log"), "six\n").unwrap();
        assert_eq!(all(&mut console).await, "five\nsix\n");
    }

    #[tokio::test]
    async fn the_end_is_given_with_what_follows() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("console.log.0"), "old\n").unwrap();
        std::fs::write(folder.path().join("console.log"), "a\nb\n").unwrap();
        let tail = |lines| LogRange { tail: Some(lines), ..LogRange::default() };
        assert_eq!(all(&mut Written::open(folder.path(), &tail(1)).await).await, "b\n");
        assert_eq!(all(&mut Written::open(folder.path(), &tail(3)).await).await, "old\na\nb\n");
        assert_eq!(last_lines(folder.path()).await, ["old", "a", "b"]);
        let never = LogRange { since: Some(WallMillis(u64::MAX / 4)), ..LogRange::default() };
        assert_eq!(all(&mut Written::open(folder.path(), &never).await).await, "");
        let nothing = tempfile::tempdir().unwrap();
        assert_eq!(last_lines(nothing.path()).await, Vec::<String>::new());
    }
}
