//! The witness: what runs inside each container, and what it writes down.
//!
//! It holds a lock of the kernel for as long as it runs, one for each workload, in a folder that all
//! containers of all nodes share. Who finds the lock taken is a second copy, and says so. In its volume
//! it keeps a token that it makes once: another token is another volume.
//!
//! ```text
//!   START workload revision container seconds        the lock is held
//!   DUP   workload revision container seconds        somebody else holds it
//!   TOKEN workload revision container seconds volume token
//!   STOP  workload revision container seconds        it was asked to end
//! ```
//! Seconds are those since the machine was booted (`CLOCK_BOOTTIME`), as `/proc/uptime` has them.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use rustix::fs::{FlockOperation, flock};

use crate::Fault;

/// The image of the witness, made on each daemon.
pub const IMAGE: &str = "persys-chaos/witness:1";
/// Where the shared folder is inside.
pub const INSIDE: &str = "/witness";
/// Where the volume is inside.
pub const VOLUME: &str = "/data";

/// The witness as a script.
pub const SCRIPT: &str = r#"
say() { read up rest < /proc/uptime; echo "$1 $WL $REV $HOSTNAME $up $2" >> /witness/log; }
trap 'say STOP; exit 0' TERM
exec 9>>"/witness/$WL.lock"
if ! flock -n 9; then
  say DUP
  until flock -n 9; do sleep 0.2 9>&-; done
fi
say START
if [ -n "$VOL" ]; then
  token=$(cat /data/token 2>/dev/null)
  if [ -z "$token" ]; then
    token="$HOSTNAME-$REV"
    echo "$token" > /data/token.new && mv /data/token.new /data/token
  fi
  say TOKEN "$VOL $token"
fi
sleep 1000000 9>&- &
wait
"#;

/// A line of the log.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What happened.
    pub what: What,
    /// To which workload.
    pub workload: String,
    /// Its revision.
    pub revision: String,
    /// The container's own name for itself.
    pub container: String,
    /// Seconds since boot.
    pub at: f64,
}

/// What a witness says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum What {
    /// It holds the lock.
    Start,
    /// Somebody else holds the lock.
    Duplicate,
    /// What it found in its volume.
    Token {
        /// The volume.
        volume: String,
        /// The token.
        token: String,
    },
    /// It was asked to end.
    Stop,
}

impl Line {
    /// Reads a line; none if it is not whole.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let words: Vec<_> = text.split_whitespace().collect();
        let [what, workload, revision, container, at, rest @ ..] = words.as_slice() else {
            return None;
        };
        let what = match (*what, rest) {
            ("START", []) => What::Start,
            ("DUP", []) => What::Duplicate,
            ("STOP", []) => What::Stop,
            ("TOKEN", [volume, token]) => {
                What::Token { volume: (*volume).to_owned(), token: (*token).to_owned() }
            }
            _ => return None,
        };
        Some(Self {
            what,
            workload: (*workload).to_owned(),
            revision: (*revision).to_owned(),
            container: (*container).to_owned(),
            at: at.parse().ok()?,
        })
    }
}

/// The folder that all witnesses share.
#[derive(Debug, Clone)]
pub struct Folder(PathBuf);

impl Folder {
    /// Makes one.
    pub fn create(at: PathBuf) -> Result<Self, Fault> {
        std::fs::create_dir_all(&at)?;
        File::create(at.join("log"))?;
        Ok(Self(at))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// All that was written down.
    pub fn lines(&self) -> Result<Vec<Line>, Fault> {
        let log = std::fs::read_to_string(self.0.join("log"))?;
        Ok(log.lines().filter_map(Line::parse).collect())
    }

    /// Workloads whose lock somebody holds at this moment.
    pub fn held(&self) -> Result<Vec<String>, Fault> {
        let mut held = Vec::new();
        for entry in std::fs::read_dir(&self.0)? {
            let path = entry?.path();
            if path.extension().is_some_and(|end| end == "lock") {
                let file = File::open(&path)?;
                if flock(&file, FlockOperation::NonBlockingLockExclusive).is_err() {
                    let name = path.file_stem().and_then(|name| name.to_str());
                    held.push(name.unwrap_or_default().to_owned());
                }
            }
        }
        held.sort();
        Ok(held)
    }
}

/// Seconds since boot.
pub fn seconds_since_boot() -> Result<f64, Fault> {
    let text = std::fs::read_to_string("/proc/uptime")?;
    Ok(text.split(' ').next().ok_or("no uptime")?.parse()?)
}

/// The files of an image: a shell, and a program that takes locks with the libraries it needs.
pub fn tree(at: &Path) -> Result<(), Fault> {
    for folder in ["bin", "proc", "sys", "dev", "tmp", "witness", "data"] {
        std::fs::create_dir_all(at.join(folder))?;
    }
    let busybox = ["/bin/busybox", "/usr/bin/busybox"].map(Path::new);
    let busybox = busybox.iter().find(|path| path.exists()).ok_or("no busybox: hack/docker-up")?;
    std::fs::copy(busybox, at.join("bin/busybox"))?;
    for name in ["sh", "cat", "mv", "sleep", "echo"] {
        std::os::unix::fs::symlink("busybox", at.join("bin").join(name))?;
    }
    std::fs::copy("/usr/bin/flock", at.join("bin/flock"))?;
    let needs = Command::new("ldd").arg("/usr/bin/flock").output()?;
    for word in String::from_utf8_lossy(&needs.stdout).split_whitespace() {
        if word.starts_with('/') {
            let target = at.join(word.trim_start_matches('/'));
            std::fs::create_dir_all(target.parent().ok_or("no folder")?)?;
            std::fs::copy(word, target)?;
        }
    }
    Ok(())
}

/// Makes the image on the daemon at `host` from a tree of files.
pub fn import(tree: &Path, host: &str) -> Result<(), Fault> {
    let mut pack =
        Command::new("tar").arg("-C").arg(tree).args(["-c", "."]).stdout(Stdio::piped()).spawn()?;
    let packed = pack.stdout.take().ok_or("no output")?;
    let made = Command::new("docker")
        .args(["-H", host, "import", "--change", "ENV PATH=/bin", "-", IMAGE])
        .stdin(packed)
        .output()?;
    if pack.wait()?.success() && made.status.success() {
        return Ok(());
    }
    Err(format!("the image of the witness is not made: {made:?}").into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_torn_line_says_nothing() {
        let line = Line::parse("TOKEN w1 r2 abc 12.34 v1 t1").unwrap();
        assert_eq!(line.what, What::Token { volume: "v1".to_owned(), token: "t1".to_owned() });
        assert!(line.at > 12.0);
        assert_eq!(Line::parse("DUP w1 r2 abc 12.34").unwrap().what, What::Duplicate);
        for torn in ["", "DUP w1", "TOKEN w1 r2 abc 12.34 v1", "DUP w1 r2 abc 12.3.4", "X a b c 1"]
        {
            assert_eq!(Line::parse(torn), None, "{torn}");
        }
    }

    #[test]
    fn a_lock_that_is_held_is_seen_and_one_that_is_free_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let folder = Folder::create(folder.path().join("w")).unwrap();
        let file = File::create(folder.path().join("x1.lock")).unwrap();
        File::create(folder.path().join("x2.lock")).unwrap();
        flock(&file, FlockOperation::NonBlockingLockExclusive).unwrap();
        assert_eq!(folder.held().unwrap(), ["x1"]);
        drop(file);
        assert!(folder.held().unwrap().is_empty());
    }
}
