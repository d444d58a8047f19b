//! `qemu-img`, on a short leash.
//!
//! It reads what strangers made, so it runs with bounds on time, memory, processor and output, and is
//! always told the format: it never guesses. Paths are absolute, so none is an option or the name of
//! a protocol, and stand behind `--` all the same.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde::Deserialize;

use crate::error::Error;
use crate::process::{Child, Ended, ProcessError, run};

use super::domain::Layer;

/// What is kept of its output. A report on one image takes about one KiB.
const OUTPUT_BYTES: usize = 64 * 1024;
/// How much memory it may map. It needs about a tenth.
const MEMORY_BYTES: u64 = 2 << 30;
/// How much processor time it may take for a question.
const CPU_SECONDS: u64 = 30;

/// The tool and its bounds.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct QemuImg {
    /// The program.
    pub program: PathBuf,
    /// The program that sets the bounds on memory and processor time; `None` runs without them.
    pub prlimit: Option<PathBuf>,
    /// How long a question may take.
    pub ask: Duration,
    /// How long making or growing a disk may take.
    pub act: Duration,
}

impl Default for QemuImg {
    fn default() -> Self {
        Self {
            program: PathBuf::from("/usr/bin/qemu-img"),
            prlimit: Some(PathBuf::from("/usr/bin/prlimit")),
            ask: Duration::from_secs(10),
            act: Duration::from_mins(1),
        }
    }
}

/// What it says about an image.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct Info {
    /// The format it was read as.
    pub format: String,
    /// The size the guest sees.
    pub virtual_size: u64,
    /// What it takes on its file system.
    #[serde(default)]
    pub actual_size: u64,
    /// The file it records changes to.
    #[serde(default)]
    pub backing_filename: Option<PathBuf>,
    /// The format it says that file has.
    #[serde(default)]
    pub backing_filename_format: Option<String>,
    /// Whether it is encrypted.
    #[serde(default)]
    pub encrypted: bool,
    #[serde(default)]
    format_specific: Option<FormatSpecific>,
}

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
struct FormatSpecific {
    #[serde(default)]
    data: Specific,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "kebab-case")]
struct Specific {
    #[serde(default)]
    data_file: Option<String>,
    #[serde(default)]
    corrupt: bool,
}

impl Info {
    /// The file its data is in, if that is another one.
    #[must_use]
    pub fn data_file(&self) -> Option<&str> {
        self.format_specific.as_ref()?.data.data_file.as_deref()
    }

    /// Whether it was found damaged.
    #[must_use]
    pub fn is_corrupt(&self) -> bool {
        self.format_specific.as_ref().is_some_and(|specific| specific.data.corrupt)
    }

    /// Reads a report.
    pub fn read(report: &[u8]) -> Result<Self, Error> {
        serde_json::from_slice(report).map_err(|error| Error::Unreadable {
            verb: "looking at a disk",
            detail: error.to_string(),
        })
    }
}

impl QemuImg {
    /// What an image of this format says; a running machine may have it open.
    pub async fn info(&self, image: &Layer) -> Result<Info, Error> {
        let mut args =
            words(&["info", "--force-share", "--output=json", "-f", image.format.word()]);
        args.extend(positional([text(&image.path)?]));
        let ended = self.call(args, self.ask).await?;
        if ended.stdout.cut {
            return Err(Error::Storage {
                detail: format!("{}: its description is endless", image.path.display()),
            });
        }
        succeeded(&ended, &image.path)?;
        Info::read(&ended.stdout.bytes)
    }

    /// Makes an image where none is. An existing file would be overwritten: the caller sees to that.
    pub async fn create(
        &self,
        image: &Layer,
        backing: Option<&Layer>,
        bytes: u64,
    ) -> Result<(), Error> {
        let mut args = words(&["create", "-q", "-f", image.format.word()]);
        if let Some(backing) = backing {
            args.extend(words(&["-F", backing.format.word(), "-b", text(&backing.path)?]));
        }
        args.extend(positional([text(&image.path)?, &bytes.to_string()]));
        succeeded(&self.call(args, self.act).await?, &image.path)
    }

    /// Makes an image larger. Nobody may have it open. It never shrinks one: that is not asked for.
    pub async fn grow(&self, image: &Layer, bytes: u64) -> Result<(), Error> {
        let mut args = words(&["resize", "-q", "-f", image.format.word()]);
        args.extend(positional([text(&image.path)?, &bytes.to_string()]));
        succeeded(&self.call(args, self.act).await?, &image.path)
    }

    async fn call(&self, args: Vec<String>, deadline: Duration) -> Result<Ended, Error> {
        let program = text(&self.program)?.to_owned();
        let (program, args) = match &self.prlimit {
            None => (self.program.clone(), args),
            Some(prlimit) => {
                let bounds = [
                    format!("--as={MEMORY_BYTES}"),
                    format!("--cpu={CPU_SECONDS}"),
                    "--core=0".to_owned(),
                    "--".to_owned(),
                    program,
                ];
                (prlimit.clone(), bounds.into_iter().chain(args).collect())
            }
        };
        let child = Child {
            program,
            args,
            env: BTreeMap::from([("LC_ALL".to_owned(), "C".to_owned())]),
            folder: PathBuf::from("/"),
            deadline,
            output_limit: OUTPUT_BYTES,
        };
        run(&child).await.map_err(|error| match error {
            ProcessError::Deadline { .. } => Error::NoAnswer {
                verb: "qemu-img",
                within_ms: u64::try_from(deadline.as_millis()).unwrap_or(u64::MAX),
            },
            ProcessError::Spawn { .. } | ProcessError::NotAbsolute { .. } => {
                Error::Storage { detail: format!("{error}; install the package qemu-utils") }
            }
            ProcessError::Wait { .. } => Error::Unreachable { detail: error.to_string() },
        })
    }
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

fn positional<const N: usize>(words: [&str; N]) -> impl Iterator<Item = String> {
    std::iter::once("--".to_owned()).chain(words.map(str::to_owned))
}

fn text(path: &Path) -> Result<&str, Error> {
    let sound = path.is_absolute();
    path.to_str().filter(|_| sound).ok_or_else(|| Error::Storage {
        detail: format!("{} is not an absolute path of text", path.display()),
    })
}

fn succeeded(ended: &Ended, image: &Path) -> Result<(), Error> {
    if ended.code == Some(0) {
        return Ok(());
    }
    let said = ended.stderr.text();
    let said = said.lines().next().unwrap_or("it gave no reason").trim_start_matches("qemu-img: ");
    Err(Error::Storage { detail: format!("{}: {said}", image.display()) })
}

#[cfg(test)]
mod tests {
    use super::super::domain::LayerFormat;
    use super::*;

    #[test]
    fn a_report_is_read_with_all_that_matters() {
        let info = Info::read(
            br#"{"virtual-size": 1048576, "filename": "/x", "cluster-size": 65536,
            "format": "qcow2", "actual-size": 200704, "full-backing-filename": "/etc/passwd",
            "backing-filename": "/etc/passwd", "backing-filename-format": "raw", "encrypted": true,
            "format-specific": {"type": "qcow2", "data": {"compat": "1.1", "corrupt": true,
            "data-file": "/etc/shadow", "data-file-raw": false}}, "dirty-flag": false}"#,
        )
        .unwrap();
        assert_eq!((info.virtual_size, info.encrypted, info.is_corrupt()), (1 << 20, true, true));
        assert_eq!(info.backing_filename, Some(PathBuf::from("/etc/passwd")));
        assert_eq!(info.data_file(), Some("/etc/shadow"));
        let raw = Info::read(br#"{"virtual-size": 1, "format": "raw"}"#).unwrap();
        assert!(raw.data_file().is_none() && raw.backing_filename.is_none());
    }

    #[test]
    fn what_is_no_report_is_an_unknown_outcome() {
        for text in [&b""[..], b"{}", b"[]", b"{\"virtual-size\": -1, \"format\": \"raw\"}"] {
            assert!(Info::read(text).unwrap_err().is_unknown());
        }
    }

    #[tokio::test]
    async fn a_relative_path_is_never_handed_over() {
        let layer = Layer { path: PathBuf::from("--help"), format: LayerFormat::Raw };
        let error = QemuImg::default().info(&layer).await.unwrap_err();
        assert!(error.to_string().contains("not an absolute path"), "{error}");
    }

    #[tokio::test]
    async fn a_tool_that_is_missing_is_named_with_what_to_do() {
        let tool = QemuImg {
            program: PathBuf::from("/no/such/qemu-img"),
            prlimit: None,
            ..QemuImg::default()
        };
        let layer = Layer { path: PathBuf::from("/x"), format: LayerFormat::Raw };
        let error = tool.info(&layer).await.unwrap_err();
        assert!(error.to_string().contains("install the package qemu-utils"), "{error}");
    }
}
