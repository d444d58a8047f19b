//! What a container uses, from the files of the kernel.
//!
//! Asking Docker takes it up to a second and costs it a goroutine per container; the kernel answers
//! at once. Where its files are depends on the generation of cgroups and on who drives them:
//!
//! ```text
//!   v1  /sys/fs/cgroup/<controller>/docker/<id>      /sys/fs/cgroup/<controller>/system.slice/docker-<id>.scope
//!   v2  /sys/fs/cgroup/docker/<id>                   /sys/fs/cgroup/system.slice/docker-<id>.scope
//! ```
//!
//! Anything else, and a Docker that is not on this host, gives `None`: then Docker is asked.

use std::path::{Path, PathBuf};

use crate::inside::Reading;

/// Where the kernel shows cgroups and processes.
#[derive(Debug, Clone)]
pub(super) struct Kernel {
    cgroups: PathBuf,
    processes: PathBuf,
}

impl Default for Kernel {
    fn default() -> Self {
        Self { cgroups: "/sys/fs/cgroup".into(), processes: "/proc".into() }
    }
}

impl Kernel {
    /// What the container with this full id uses, if the kernel shows it here.
    pub(super) fn reading(&self, id: &str) -> Option<Reading> {
        let sound = id.len() == 64 && id.bytes().all(|byte| byte.is_ascii_hexdigit());
        let below = [format!("docker/{id}"), format!("system.slice/docker-{id}.scope")];
        let below = below.iter().filter(|_| sound);
        below.into_iter().find_map(|below| self.second(below).or_else(|| self.first(below)))
    }

    /// The unified hierarchy.
    fn second(&self, below: &str) -> Option<Reading> {
        let folder = self.cgroups.join(below);
        let cpu = text(&folder, "cpu.stat")?;
        let memory = number(&text(&folder, "memory.current")?)?;
        let detail = text(&folder, "memory.stat").unwrap_or_default();
        let (read, written) = io_stat(&text(&folder, "io.stat").unwrap_or_default());
        let mut reading = Reading {
            cpu_nanos: named(&cpu, "usage_usec")?.saturating_mul(1000),
            memory_bytes: memory.saturating_sub(named(&detail, "inactive_file").unwrap_or(0)),
            // "max" is no number: then the machine is the limit, which the caller knows.
            memory_limit_bytes: limit(&text(&folder, "memory.max").unwrap_or_default()),
            pids: number(&text(&folder, "pids.current").unwrap_or_default()).unwrap_or(0),
            disk_read_bytes: read,
            disk_written_bytes: written,
            ..Reading::default()
        };
        self.add_network(&folder, &mut reading);
        Some(reading)
    }

    /// One hierarchy for each controller.
    fn first(&self, below: &str) -> Option<Reading> {
        let folder = |controller: &str| self.cgroups.join(controller).join(below);
        let memory = folder("memory");
        let used = number(&text(&memory, "memory.usage_in_bytes")?)?;
        let detail = text(&memory, "memory.stat").unwrap_or_default();
        let disk = text(&folder("blkio"), "blkio.throttle.io_service_bytes_recursive");
        let (read, written) = blkio(&disk.unwrap_or_default());
        let limits = text(&memory, "memory.limit_in_bytes").unwrap_or_default();
        let pids = text(&folder("pids"), "pids.current").unwrap_or_default();
        let mut reading = Reading {
            cpu_nanos: number(&text(&folder("cpuacct"), "cpuacct.usage")?)?,
            memory_bytes: used.saturating_sub(named(&detail, "total_inactive_file").unwrap_or(0)),
            memory_limit_bytes: limit(&limits),
            pids: number(&pids).unwrap_or(0),
            disk_read_bytes: read,
            disk_written_bytes: written,
            ..Reading::default()
        };
        self.add_network(&memory, &mut reading);
        Some(reading)
    }

    /// The network is that of its first process.
    fn add_network(&self, folder: &Path, reading: &mut Reading) {
        let processes = text(folder, "cgroup.procs").unwrap_or_default();
        let Some(first) = processes.lines().next().and_then(number) else { return };
        let devices = text(&self.processes.join(first.to_string()), "net/dev");
        let (received, sent) = net_dev(&devices.unwrap_or_default());
        reading.network_in_bytes = received;
        reading.network_out_bytes = sent;
    }
}

fn text(folder: &Path, name: &str) -> Option<String> {
    std::fs::read_to_string(folder.join(name)).ok()
}

fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// A limit that is larger than any machine is none.
fn limit(text: &str) -> u64 {
    number(text).filter(|limit| *limit < 1 << 50).unwrap_or(0)
}

/// The value of `name value` lines.
fn named(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| {
        let (key, value) = line.split_once(' ')?;
        (key == name).then(|| number(value))?
    })
}

/// Bytes read and written: `8:0 rbytes=1 wbytes=2 …` for each device.
fn io_stat(text: &str) -> (u64, u64) {
    let sum = |name: &str| {
        let words = text.lines().flat_map(str::split_whitespace);
        words.filter_map(|word| number(word.strip_prefix(name)?)).fold(0, u64::saturating_add)
    };
    (sum("rbytes="), sum("wbytes="))
}

/// Bytes read and written: `8:0 Read 1` and the like for each device.
fn blkio(text: &str) -> (u64, u64) {
    let sum = |way: &str| {
        let lines = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>());
        lines.fold(0_u64, |sum, words| match words.as_slice() {
            [_, what, bytes] if *what == way => sum.saturating_add(number(bytes).unwrap_or(0)),
            _ => sum,
        })
    };
    (sum("Read"), sum("Write"))
}

/// Bytes received and sent by all devices but the loop back.
fn net_dev(text: &str) -> (u64, u64) {
    let mut sums = (0_u64, 0_u64);
    for line in text.lines() {
        let Some((device, counters)) = line.split_once(':') else { continue };
        if device.trim() == "lo" {
            continue;
        }
        let counters: Vec<_> = counters.split_whitespace().map(number).collect();
        sums.0 = sums.0.saturating_add(counters.first().copied().flatten().unwrap_or(0));
        sums.1 = sums.1.saturating_add(counters.get(8).copied().flatten().unwrap_or(0));
    }
    sums
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
    const NET: &str = "Inter-| Receive | Transmit\n lo: 9 0 0 0 0 0 0 0 9 0\n\
                       eth0: 100 1 0 0 0 0 0 0 200 2\neth1:1 1 0 0 0 0 0 0 2 2\n";

    fn kernel(files: &[(String, &str)]) -> (Kernel, PathBuf) {
        let mark = files.iter().map(|(name, _)| name.len()).sum::<usize>();
        let root =
            std::env::temp_dir().join(format!("persys-cgroup-{}-{mark}", std::process::id()));
        let all = files.iter().map(|(name, text)| (root.join(name), *text));
        for (path, text) in all.chain([(root.join("proc/77/net/dev"), NET)]) {
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        (Kernel { cgroups: root.join("cgroup"), processes: root.join("proc") }, root)
    }

    fn expected() -> Reading {
        Reading {
            cpu_nanos: 5_000_000,
            memory_bytes: 700,
            memory_limit_bytes: 4096,
            pids: 3,
            network_in_bytes: 101,
            network_out_bytes: 202,
            disk_read_bytes: 11,
            disk_written_bytes: 22,
        }
    }

    #[test]
    fn both_generations_say_the_same_whoever_drives_them() {
        for below in [format!("docker/{ID}"), format!("system.slice/docker-{ID}.scope")] {
            let first = |controller: &str, name: &str, text| {
                (format!("cgroup/{controller}/{below}/{name}"), text)
            };
            let (one, root) = kernel(&[
                first("cpuacct", "cpuacct.usage", "5000000\n"),
                first("memory", "memory.usage_in_bytes", "1000\n"),
                first("memory", "memory.stat", "inactive_file 1\ntotal_inactive_file 300\n"),
                first("memory", "memory.limit_in_bytes", "4096\n"),
                first("memory", "cgroup.procs", "77\n78\n"),
                first("pids", "pids.current", "3\n"),
                first(
                    "blkio",
                    "blkio.throttle.io_service_bytes_recursive",
                    "8:0 Read 10\n8:0 Write 20\n8:0 Total 30\n8:16 Read 1\n8:16 Write 2\nTotal 33\n",
                ),
            ]);
            assert_eq!(one.reading(ID), Some(expected()), "{below}");
            std::fs::remove_dir_all(root).unwrap();
            let second = |name: &str, text| (format!("cgroup/{below}/{name}"), text);
            let (two, root) = kernel(&[
                second("cpu.stat", "usage_usec 5000\nuser_usec 1\n"),
                second("memory.current", "1000\n"),
                second("memory.stat", "anon 5\ninactive_file 300\n"),
                second("memory.max", "4096\n"),
                second("cgroup.procs", "77\n"),
                second("pids.current", "3\n"),
                second("io.stat", "8:0 rbytes=10 wbytes=20 rios=1\n8:16 rbytes=1 wbytes=2\n"),
            ]);
            assert_eq!(two.reading(ID), Some(expected()), "{below}");
            std::fs::remove_dir_all(root).unwrap();
        }
    }

    #[test]
    fn what_is_not_there_or_no_id_is_nothing() {
        let (kernel, root) = kernel(&[("cgroup/docker/x/cpu.stat".to_owned(), "usage_usec 1")]);
        for id in ["x", "", "../../etc", &ID.replace('0', "/"), ID] {
            assert_eq!(kernel.reading(id), None, "{id}");
        }
        assert_eq!((limit("max"), limit("9223372036854771712")), (0, 0));
        std::fs::remove_dir_all(root).unwrap();
    }
}
