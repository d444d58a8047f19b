//! Memory and open files of every process, from round to round.

use std::collections::BTreeMap;

/// What one process used: first, most, last.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Used {
    /// MiB of memory.
    pub memory: [u64; 3],
    /// Open files.
    pub files: [u64; 3],
}

/// What all processes used.
#[derive(Debug, Clone, Default)]
pub struct Usage(pub BTreeMap<String, Used>);

impl Usage {
    /// Looks at these processes.
    pub fn take(&mut self, ids: &[(String, u32)]) {
        for (name, id) in ids {
            let (Some(memory), Some(files)) = (memory(*id), files(*id)) else { continue };
            let used = self
                .0
                .entry(name.clone())
                .or_insert(Used { memory: [memory; 3], files: [files; 3] });
            used.memory = next(used.memory, memory);
            used.files = next(used.files, files);
        }
    }
}

fn next([first, most, _]: [u64; 3], now: u64) -> [u64; 3] {
    [first, most.max(now), now]
}

fn memory(id: u32) -> Option<u64> {
    let status = std::fs::read_to_string(format!("/proc/{id}/status")).ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib / 1024)
}

fn files(id: u32) -> Option<u64> {
    u64::try_from(std::fs::read_dir(format!("/proc/{id}/fd")).ok()?.count()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_uses_something() {
        let mut usage = Usage::default();
        usage.take(&[("this".to_owned(), std::process::id()), ("none".to_owned(), u32::MAX)]);
        let used = usage.0.get("this").unwrap();
        assert!(used.memory[0] > 0 && used.files[2] > 2, "{used:?}");
        assert_eq!(usage.0.len(), 1);
        assert_eq!(next([3, 5, 4], 7), [3, 7, 7]);
    }
}
