//! Signs on a machine's serial console that its boot has failed for good.
//!
//! A slow boot is not a failed one: only text that a kernel or a firmware writes as its last words
//! counts, and only if nothing follows it. A guest that reboots after each panic never falls silent;
//! there the panics are counted.
//!
//! | on the console since the start | then | it is |
//! |---|---|---|
//! | `Kernel panic - not syncing`, among the last lines | silence | a panic |
//! | the same, three times | anything | a panic after each reboot |
//! | `No bootable device`, in the last line | silence | nothing to boot |
//!
//! A crash that the panic device reports needs none of this: libvirt says so itself.

use std::path::Path;
use std::time::{Duration, SystemTime};

use persys_model::failure::clip;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _, SeekFrom};

use super::console;

/// Time after its start in which the console of a machine is looked at.
pub(super) const WINDOW: Duration = Duration::from_mins(10);
/// Silence after which the last words of a guest count as its last.
const SILENCE: Duration = Duration::from_secs(10);
/// Most that is read of a console.
const BYTES: u64 = 256 << 10;
/// Lines at the end among which a panic must be; it is followed by a trace of the stack.
const LAST_LINES: usize = 60;
/// Panics that show that each reboot ends in the next one.
const PANICS: usize = 3;
/// Longest words of a panic that are told.
const PANIC_BYTES: usize = 100;
const PANIC: &str = "Kernel panic - not syncing";
/// Last words of `SeaBIOS`, and of the firmware of UEFI.
const NOTHING_TO_BOOT: [&str; 2] = ["No bootable device", "No bootable option or device was found"];

/// The length of a console now: what a later run writes comes after it.
pub(super) async fn mark(folder: &Path) -> u64 {
    tokio::fs::metadata(console::path(folder)).await.map_or(0, |about| about.len())
}

/// The sign of a failed boot on the console of a machine, from `mark` on, in words.
pub(super) async fn sign(folder: &Path, mark: u64) -> Option<&'static str> {
    let (text, changed) = since(folder, mark).await?;
    let silent = SystemTime::now().duration_since(changed).ok()? >= SILENCE;
    judge(&text, silent)
}

/// What the guest's kernel said last when it panicked, from `mark` on.
pub(super) async fn last_panic(folder: &Path, mark: u64) -> Option<String> {
    let (text, _) = since(folder, mark).await?;
    let line = text.lines().map(plain).rfind(|line| is_panic(line))?;
    let said = line.find(PANIC).and_then(|at| line.get(at..))?;
    Some(clip(said, PANIC_BYTES).to_owned())
}

/// The console from `mark` on, as far as it is read, and the moment it was last written to.
async fn since(folder: &Path, mark: u64) -> Option<(String, SystemTime)> {
    let mut file = tokio::fs::File::open(console::path(folder)).await.ok()?;
    let about = file.metadata().await.ok()?;
    // A shorter file is a new one: the log daemon has moved the old one away.
    let from = if mark <= about.len() { mark } else { 0 };
    file.seek(SeekFrom::Start(from.max(about.len().saturating_sub(BYTES)))).await.ok()?;
    let mut bytes = Vec::new();
    file.take(BYTES).read_to_end(&mut bytes).await.ok()?;
    Some((String::from_utf8_lossy(&bytes).into_owned(), about.modified().ok()?))
}

/// The sign in `text`, the console since the start.
fn judge(text: &str, silent: bool) -> Option<&'static str> {
    let lines: Vec<String> = text.lines().map(plain).filter(|line| !line.is_empty()).collect();
    if lines.iter().filter(|line| is_panic(line)).count() >= PANICS {
        return Some("the guest's kernel panics at each boot");
    }
    if !silent {
        return None;
    }
    let end = lines.len().saturating_sub(LAST_LINES);
    if lines.get(end..).unwrap_or_default().iter().any(|line| is_panic(line)) {
        return Some("the guest's kernel panicked while it booted");
    }
    let last = lines.last()?;
    let nothing = NOTHING_TO_BOOT.iter().any(|words| last.contains(words));
    nothing.then_some("the machine found nothing to boot")
}

/// True for the line in which a kernel says that it panics; not for the line that ends the trace, nor
/// for text that only quotes it.
fn is_panic(line: &str) -> bool {
    let said = match line.strip_prefix('[').and_then(|line| line.split_once(']')) {
        Some((stamp, said)) if stamp.chars().all(|c| c.is_ascii_digit() || " .".contains(c)) => {
            said.trim_start()
        }
        Some(_) | None => line,
    };
    said.starts_with(PANIC)
}

/// A line without the sequences that move the cursor or set colours.
fn plain(line: &str) -> String {
    let mut text = String::with_capacity(line.len());
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        if c == '\u{1b}' {
            // `ESC [ parameters letter`, or `ESC letter`.
            if chars.next() == Some('[') {
                chars.by_ref().find(char::is_ascii_alphabetic);
            }
        } else if !c.is_control() {
            text.push(c);
        }
    }
    text.trim().to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "[    1.20] Kernel panic - not syncing: VFS: Unable to mount root fs on \
        unknown-block(0,0)\n[    1.21] CPU: 0 PID: 1\n[    1.22] Call Trace:\n[    1.23] ---[ end \
        Kernel panic - not syncing: VFS: Unable to mount root fs ]---\n";

    #[test]
    fn last_words_count_only_if_nothing_follows() {
        assert_eq!(judge(TRACE, true), Some("the guest's kernel panicked while it booted"));
        assert_eq!(judge(TRACE, false), None, "it may be about to reboot");
        let went_on = format!("{TRACE}{}", "login:\n".repeat(LAST_LINES));
        assert_eq!(judge(&went_on, true), None);
        let firmware = "SeaBIOS (version 1.16)\r\n\u{1b}[2JBooting from Hard Disk...\r\nBoot failed: \
            not a bootable disk\r\n\r\n\u{1b}[0mNo bootable device.\r\n";
        assert_eq!(judge(firmware, true), Some("the machine found nothing to boot"));
        assert_eq!(judge(firmware, false), None);
        assert_eq!(judge(&format!("{firmware}Linux version 6\n"), true), None);
    }

    #[test]
    fn a_guest_that_reboots_after_each_panic_is_found_out() {
        assert_eq!(judge(&TRACE.repeat(2), false), None);
        let each = Some("the guest's kernel panics at each boot");
        assert_eq!(judge(&TRACE.repeat(3), false), each);
    }

    #[test]
    fn a_slow_boot_and_a_quotation_are_no_signs() {
        for text in [
            "",
            "[    0.00] Linux version 6.1\n",
            "GRUB loading.\n",
            "guest: a log says Kernel panic - not syncing: x\n",
            "cloud-init: echo 'No bootable device' is what the firmware said\nlogin: \n",
        ] {
            assert_eq!(judge(text, true), None, "{text}");
        }
    }

    #[tokio::test]
    async fn what_an_earlier_run_wrote_does_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let path = console::path(folder.path());
        assert_eq!(sign(folder.path(), 0).await, None, "no console yet");
        std::fs::write(&path, TRACE).unwrap();
        let past = SystemTime::now() - Duration::from_mins(1);
        let age = || std::fs::File::options().write(true).open(&path).unwrap().set_modified(past);
        age().unwrap();
        assert!(sign(folder.path(), 0).await.is_some());
        let said = last_panic(folder.path(), 0).await.unwrap();
        assert!(said.starts_with("Kernel panic - not syncing: VFS: Unable to mount"), "{said}");
        let mark = mark(folder.path()).await;
        assert_eq!(sign(folder.path(), mark).await, None);
        assert_eq!(last_panic(folder.path(), mark).await, None);
        std::fs::write(&path, "No bootable device.\n").unwrap();
        assert_eq!(sign(folder.path(), mark).await, None, "not yet silent");
        age().unwrap();
        assert!(sign(folder.path(), mark).await.is_some(), "the log was moved away");
    }
}
