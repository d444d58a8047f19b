//! Whether the processor of this node really runs guests.
//!
//! A device file is no proof: on nodes that are guests themselves it may be there while every guest
//! under it hangs. So three things are asked, each cheaper than the next: does the processor say it
//! can, may we open the device, and does a guest of two instructions come to its end. The answer holds
//! until the program ends. Without it guests run under QEMU's own emulation, many times slower, and
//! the words for that are part of the answer.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use tokio::sync::OnceCell;

use crate::process::{Child, Ended, ProcessError, run};

use super::domain::Engine;

/// How long the guest of two instructions may take. It needs a tenth of a second.
const WITHIN: Duration = Duration::from_secs(10);
/// What is kept of QEMU's complaints.
const OUTPUT_BYTES: usize = 4096;
/// A disk whose first sector tells the port below "sixteen" and then stands still.
const SECTOR: [u8; 6] = [0xba, 0xf4, 0x00, 0xb0, 0x10, 0xee];
const HALT: [u8; 2] = [0xeb, 0xfe];
/// What QEMU makes of sixteen told to that port: twice that, and one.
const TOLD: i32 = 33;

/// What is known about hardware virtualisation here.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Who carries out the instructions of guests.
    pub engine: Engine,
    /// Why, for people.
    pub why: String,
}

/// Finds out once and remembers.
#[derive(Debug)]
pub struct Kvm {
    emulator: PathBuf,
    scratch: PathBuf,
    verdict: OnceCell<Verdict>,
}

impl Kvm {
    /// With the program that runs guests, and a folder for a file of one sector.
    #[must_use]
    pub fn new(emulator: PathBuf, scratch: PathBuf) -> Self {
        Self { emulator, scratch, verdict: OnceCell::new() }
    }

    /// The verdict.
    pub async fn verdict(&self) -> &Verdict {
        self.verdict.get_or_init(|| self.find_out()).await
    }

    async fn find_out(&self) -> Verdict {
        let doubt = self.doubt().await;
        match doubt {
            None => Verdict {
                engine: Engine::Kvm,
                why: "KVM: a throwaway guest ran to its end".to_owned(),
            },
            Some(why) => Verdict {
                engine: Engine::Tcg,
                why: format!("guests run under emulation (TCG), many times slower: {why}"),
            },
        }
    }

    /// The first thing that speaks against it.
    async fn doubt(&self) -> Option<String> {
        let cpuinfo = tokio::fs::read_to_string("/proc/cpuinfo").await.unwrap_or_default();
        if !can_virtualise(&cpuinfo) {
            return Some("the processor names neither vmx nor svm".to_owned());
        }
        let device = tokio::fs::OpenOptions::new().read(true).write(true).open("/dev/kvm").await;
        if let Err(error) = device {
            return Some(format!("/dev/kvm cannot be opened: {error}"));
        }
        self.try_guest("kvm").await.err()
    }

    /// Runs the guest of two instructions under `engine` (`kvm` or `tcg`).
    pub async fn try_guest(&self, engine: &'static str) -> Result<(), String> {
        let sector = self.scratch.join(format!("kvm-proof-{}.img", std::process::id()));
        tokio::fs::create_dir_all(&self.scratch)
            .await
            .map_err(|error| format!("{}: {error}", self.scratch.display()))?;
        tokio::fs::write(&sector, boot_sector())
            .await
            .map_err(|error| format!("{}: {error}", sector.display()))?;
        let ended = run(&self.guest(engine, &sector)).await;
        // A sector left behind does no harm and is written over next time.
        let _removed = tokio::fs::remove_file(&sector).await;
        judge(ended)
    }

    fn guest(&self, engine: &str, sector: &Path) -> Child {
        // A comma in a path is written twice, or it would end the path.
        let file = sector.display().to_string().replace(',', ",,");
        let drive = format!("file={file},format=raw,if=ide");
        let args = [
            "-accel",
            engine,
            "-machine",
            "pc",
            "-m",
            "16",
            "-nodefaults",
            "-no-user-config",
            "-display",
            "none",
            "-no-reboot",
            "-device",
            "isa-debug-exit,iobase=0xf4,iosize=4",
            "-snapshot",
            "-drive",
            &drive,
        ];
        Child {
            program: self.emulator.clone(),
            args: args.map(str::to_owned).into(),
            env: BTreeMap::from([("TMPDIR".to_owned(), self.scratch.display().to_string())]),
            folder: PathBuf::from("/"),
            deadline: WITHIN,
            output_limit: OUTPUT_BYTES,
        }
    }
}

/// Whether the text of `/proc/cpuinfo` names a processor that runs guests.
#[must_use]
pub fn can_virtualise(cpuinfo: &str) -> bool {
    let flags = cpuinfo.lines().filter(|line| line.starts_with("flags"));
    flags.flat_map(str::split_whitespace).any(|flag| matches!(flag, "vmx" | "svm"))
}

fn boot_sector() -> Vec<u8> {
    let mut sector = [&SECTOR[..], &HALT].concat();
    sector.resize(510, 0);
    sector.extend([0x55, 0xaa]);
    sector
}

fn judge(ended: Result<Ended, ProcessError>) -> Result<(), String> {
    match ended {
        Ok(ended) if ended.code == Some(TOLD) => Ok(()),
        Ok(ended) => {
            let said = ended.stderr.text();
            let said = said.lines().next().unwrap_or("it gave no reason").to_owned();
            Err(format!("a throwaway guest did not run: {said}"))
        }
        Err(ProcessError::Deadline { within_ms, .. }) => {
            Err(format!("a throwaway guest hung for {} s", within_ms / 1000))
        }
        Err(error) => Err(format!("a throwaway guest could not be tried: {error}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_flags_of_the_processor_count() {
        for (text, can) in [
            ("flags\t\t: fpu vme svm_lock vmx sse", true),
            ("flags\t\t: fpu svm sse\n", true),
            ("flags\t\t: fpu vmxnet hypervisor\nmodel name: vmx svm", false),
            ("vmx flags\t: vnmi\n", false),
            ("", false),
        ] {
            assert_eq!(can_virtualise(text), can, "{text}");
        }
    }

    #[test]
    fn a_guest_counts_only_if_it_told_the_number() {
        let ended = |code| Ended {
            code,
            stdout: crate::process::Kept::default(),
            stderr: crate::process::Kept { bytes: b"no kvm\nmore".to_vec(), cut: false },
        };
        assert_eq!(judge(Ok(ended(Some(TOLD)))), Ok(()));
        assert!(judge(Ok(ended(Some(0)))).unwrap_err().ends_with(": no kvm"));
        let program = PathBuf::from("/q");
        let hung = judge(Err(ProcessError::Deadline { program, within_ms: 10_000 }));
        assert_eq!(hung, Err("a throwaway guest hung for 10 s".to_owned()));
    }

    #[tokio::test]
    async fn a_node_without_an_emulator_is_told_so() {
        let folder = tempfile::tempdir().unwrap();
        let kvm = Kvm::new(PathBuf::from("/no/such/qemu"), folder.path().to_owned());
        assert!(kvm.try_guest("tcg").await.unwrap_err().contains("could not be tried"));
        assert_eq!(folder.path().read_dir().unwrap().count(), 0, "nothing is left");
        assert_eq!(kvm.verdict().await.engine, Engine::Tcg);
    }

    #[test]
    fn the_sector_is_one_that_firmware_boots() {
        let sector = boot_sector();
        assert_eq!((sector.len(), &sector[510..]), (512, &[0x55, 0xaa][..]));
    }
}
