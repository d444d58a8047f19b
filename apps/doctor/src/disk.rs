//! Whether there is room where things are kept.

use std::io;
use std::path::Path;

use rustix::fs::{StatVfs, statvfs};

use crate::finding::Finding;

const GIB: u64 = 1024 * 1024 * 1024;
/// Below this an image or a record may fail to be written at any moment.
const LEAST_BYTES: u64 = GIB;
/// Below these it is a matter of time.
const FEW_BYTES: u64 = 5 * GIB;
const FEW_PERCENT: u64 = 10;

/// Room in bytes and in files.
#[derive(Debug, Clone, Copy)]
struct Room {
    free: u64,
    total: u64,
    free_files: u64,
    total_files: u64,
}

impl From<StatVfs> for Room {
    fn from(disk: StatVfs) -> Self {
        Self {
            free: disk.f_bavail.saturating_mul(disk.f_frsize),
            total: disk.f_blocks.saturating_mul(disk.f_frsize),
            free_files: disk.f_favail,
            total_files: disk.f_files,
        }
    }
}

/// Whether there is room in `folder`, or where it will be made.
pub fn room(purpose: &str, folder: &Path) -> Finding {
    let subject = format!("room for {purpose}");
    let there = folder.ancestors().find(|path| path.exists()).unwrap_or(Path::new("/"));
    match statvfs(there) {
        Ok(disk) => judge(subject, folder, disk.into()),
        Err(error) => {
            Finding::bad(subject, format!("{}: {}", there.display(), io::Error::from(error)))
                .mend(format!("ls -ld {}", there.display()))
        }
    }
}

fn judge(subject: String, folder: &Path, room: Room) -> Finding {
    let folder = folder.display();
    let says = format!("{} of {} GiB free at {folder}", room.free / GIB, room.total / GIB);
    let of_hundred = |free: u64, total: u64| free.saturating_mul(100) / total.max(1);
    // Some file systems make files as they need them and count none.
    if room.total_files > 0 && of_hundred(room.free_files, room.total_files) < FEW_PERCENT {
        let says = format!("{} of {} files left at {folder}", room.free_files, room.total_files);
        return Finding::bad(subject, says)
            .mend("docker system prune")
            .mend(format!("df -i {folder}"));
    }
    if room.free < LEAST_BYTES {
        return Finding::bad(subject, says)
            .mend("docker system prune")
            .mend(format!("df -h {folder}"));
    }
    if room.free < FEW_BYTES && of_hundred(room.free, room.total) < FEW_PERCENT {
        return Finding::weak(subject, says).mend("docker system prune");
    }
    Finding::good(subject, says)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Verdict;

    #[test]
    fn bytes_and_files_run_out_each_for_itself() {
        let wide = Room { free: 50 * GIB, total: 100 * GIB, free_files: 900, total_files: 1000 };
        let of = |room| judge("room".to_owned(), Path::new("/var"), room).verdict;
        assert_eq!(of(wide), Verdict::Good);
        assert_eq!(of(Room { free: 3 * GIB, ..wide }), Verdict::Weak);
        assert_eq!(of(Room { free: 3 * GIB, total: 8 * GIB, ..wide }), Verdict::Good);
        assert_eq!(of(Room { free: GIB / 2, total: GIB, ..wide }), Verdict::Bad);
        assert_eq!(of(Room { free_files: 10, ..wide }), Verdict::Bad);
        assert_eq!(of(Room { free_files: 0, total_files: 0, ..wide }), Verdict::Good);
    }

    #[test]
    fn a_folder_that_is_yet_to_be_made_is_judged_by_the_one_above() {
        let finding = room("state", Path::new("/proc-that-is-not/there/at/all"));
        assert!(finding.says.contains("GiB free at /proc-that-is-not"), "{}", finding.says);
    }
}
