//! Files that hold keys, and how they are replaced.
//!
//! A private file is opened first and judged by what was opened, so that nothing can be put in its
//! place in between. A write is complete or absent after a crash at any point: a new file beside it,
//! made durable, then renamed over it, then the folder made durable.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::fs::{DirBuilderExt as _, MetadataExt as _, OpenOptionsExt as _};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{Mode, OFlags};
use zeroize::Zeroizing;

/// Most that is read of a file of certificates: hundreds of them fit.
const MOST_BYTES: u64 = 1 << 20;
/// Permissions that concern others than the owner.
const OTHERS: u32 = 0o077;
/// Permissions with which others could replace what is in a folder.
const OTHERS_WRITE: u32 = 0o022;
/// Names tried for a new file before giving up; more than one is only needed after a crash.
const MOST_NAMES: u32 = 16;

/// Why a file cannot be used, and what to do about it.
#[derive(Debug, thiserror::Error)]
pub enum FileError {
    /// Not there.
    #[error("{path} does not exist")]
    Missing {
        /// Which.
        path: PathBuf,
    },
    /// A link where the thing itself should be.
    #[error("{path} is a symbolic link; put the file or folder itself there")]
    Link {
        /// Which.
        path: PathBuf,
    },
    /// Neither a plain file nor, where one is wanted, a folder.
    #[error("{path} is not a plain {wanted}")]
    Kind {
        /// Which.
        path: PathBuf,
        /// What it should be.
        wanted: &'static str,
    },
    /// Others may read the key.
    #[error("{path} has mode {mode:04o}, so others could use it: chmod {wanted:o} {path}")]
    Mode {
        /// Which.
        path: PathBuf,
        /// What it has.
        mode: u32,
        /// What it should have.
        wanted: u32,
    },
    /// Others may change it.
    #[error("{path} has mode {mode:04o}, so others could write it: chmod go-w {path}")]
    Writable {
        /// Which.
        path: PathBuf,
        /// What it has.
        mode: u32,
    },
    /// Somebody else's.
    #[error(
        "{path} belongs to user {owner}, not to {wanted} as whom this runs: chown {wanted} {path}"
    )]
    Owner {
        /// Which.
        path: PathBuf,
        /// Whose it is.
        owner: u32,
        /// Whose it should be.
        wanted: u32,
    },
    /// Too large to be what it should be.
    #[error("{path} is larger than {MOST_BYTES} bytes; is it the right file?")]
    Large {
        /// Which.
        path: PathBuf,
    },
    /// Reading failed.
    #[error("cannot read {path}")]
    Read {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Writing failed.
    #[error("cannot write {path}")]
    Write {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Whether the last part of a path may be a symbolic link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Links {
    /// Files of our own are what they are, and ours.
    Refuse,
    /// Mounted secrets are links into a folder that is swapped as a whole, and whoever mounted them
    /// owns them.
    Follow,
}

/// What to do when the file to be written is there already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Existing {
    Replace,
    Keep,
}

/// Reads a file that only its owner may read.
pub(crate) fn read_private(path: &Path, links: Links) -> Result<Zeroizing<Vec<u8>>, FileError> {
    let mut flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    if links == Links::Refuse {
        flags |= OFlags::NOFOLLOW;
    }
    let file = match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(opened) => File::from(opened),
        Err(rustix::io::Errno::LOOP) => return Err(FileError::Link { path: path.to_owned() }),
        Err(errno) => return Err(unreadable(path, errno.into())),
    };
    let metadata = file.metadata().map_err(|source| unreadable(path, source))?;
    if !metadata.is_file() {
        return Err(FileError::Kind { path: path.to_owned(), wanted: "file" });
    }
    if links == Links::Refuse {
        check_owner(path, metadata.uid())?;
    }
    let mode = metadata.mode() & 0o7777;
    if mode & OTHERS != 0 {
        return Err(FileError::Mode { path: path.to_owned(), mode, wanted: 0o600 });
    }
    read_all(path, file)
}

/// Reads a file that anybody may read.
pub(crate) fn read_public(path: &Path) -> Result<Zeroizing<Vec<u8>>, FileError> {
    let file = File::open(path).map_err(|source| unreadable(path, source))?;
    read_all(path, file)
}

/// Reads a file that nobody but root and us can write. Links are followed, as mounted files are links.
pub(crate) fn read_guarded(path: &Path) -> Result<Zeroizing<Vec<u8>>, FileError> {
    let file = File::open(path).map_err(|source| unreadable(path, source))?;
    let metadata = file.metadata().map_err(|source| unreadable(path, source))?;
    if !metadata.is_file() {
        return Err(FileError::Kind { path: path.to_owned(), wanted: "file" });
    }
    check_owner(path, metadata.uid())?;
    let mode = metadata.mode() & 0o7777;
    if mode & OTHERS_WRITE != 0 {
        return Err(FileError::Writable { path: path.to_owned(), mode });
    }
    read_all(path, file)
}

/// Makes `path` a folder of ours that nobody else can put anything into.
pub(crate) fn private_folder(path: &Path) -> Result<(), FileError> {
    let unwritable = |source| FileError::Write { path: path.to_owned(), source };
    let is_new = |folder: &&Path| !folder.as_os_str().is_empty() && !folder.exists();
    let new: Vec<&Path> = path.ancestors().take_while(is_new).collect();
    match DirBuilder::new().recursive(true).mode(0o700).create(path) {
        // Told apart below: a link to nowhere, or a file.
        Err(source) if source.kind() == io::ErrorKind::AlreadyExists => {}
        created => created.map_err(unwritable)?,
    }
    for folder in new {
        sync(folder_of(folder)).map_err(unwritable)?;
    }
    let metadata = fs::symlink_metadata(path).map_err(|source| unreadable(path, source))?;
    if metadata.is_symlink() {
        return Err(FileError::Link { path: path.to_owned() });
    }
    if !metadata.is_dir() {
        return Err(FileError::Kind { path: path.to_owned(), wanted: "folder" });
    }
    check_owner(path, metadata.uid())?;
    let mode = metadata.mode() & 0o7777;
    if mode & OTHERS_WRITE != 0 {
        return Err(FileError::Mode { path: path.to_owned(), mode, wanted: 0o700 });
    }
    Ok(())
}

/// Puts `bytes` at `path`, durably and at once. With [`Existing::Keep`], says false and changes
/// nothing when something is there already.
pub(crate) fn write(
    path: &Path,
    bytes: &[u8],
    mode: u32,
    existing: Existing,
) -> Result<bool, FileError> {
    let unwritable = |source| FileError::Write { path: path.to_owned(), source };
    let fresh = new_beside(path, mode).map_err(unwritable)?;
    let written = fill(&fresh, bytes, mode).and_then(|()| put(&fresh.path, path, existing));
    if !matches!(written, Ok(true)) || existing == Existing::Keep {
        // After a rename there is nothing left to remove; in every other case there is.
        fs::remove_file(&fresh.path).map_err(unwritable)?;
    }
    let written = written.map_err(unwritable)?;
    sync(folder_of(path)).map_err(unwritable)?;
    Ok(written)
}

/// Moves a file over another in the same folder, durably.
pub(crate) fn rename(from: &Path, to: &Path) -> Result<(), FileError> {
    let unwritable = |source| FileError::Write { path: to.to_owned(), source };
    fs::rename(from, to).map_err(unwritable)?;
    sync(folder_of(to)).map_err(unwritable)
}

/// Adds `bytes` to the end of a private file, durably. The file is made if it is not there.
pub(crate) fn append(path: &Path, bytes: &[u8]) -> Result<(), FileError> {
    let unwritable = |source| FileError::Write { path: path.to_owned(), source };
    let opened = OpenOptions::new().append(true).create(true).mode(0o600).open(path);
    let mut file = opened.map_err(unwritable)?;
    file.write_all(bytes).map_err(unwritable)?;
    file.sync_all().map_err(unwritable)
}

struct Fresh {
    path: PathBuf,
    file: File,
}

fn new_beside(path: &Path, mode: u32) -> io::Result<Fresh> {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    let name = path.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let mut failure = io::Error::from(io::ErrorKind::AlreadyExists);
    for _ in 0..MOST_NAMES {
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let beside = folder_of(path).join(format!(".{name}.{}-{number}", std::process::id()));
        match OpenOptions::new().write(true).create_new(true).mode(mode).open(&beside) {
            Ok(file) => return Ok(Fresh { path: beside, file }),
            Err(source) if source.kind() == io::ErrorKind::AlreadyExists => failure = source,
            Err(source) => return Err(source),
        }
    }
    Err(failure)
}

fn fill(fresh: &Fresh, bytes: &[u8], mode: u32) -> io::Result<()> {
    let mut file = &fresh.file;
    // The process may have been told to create files narrower than asked.
    file.set_permissions(fs::Permissions::from_mode(mode))?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn put(fresh: &Path, path: &Path, existing: Existing) -> io::Result<bool> {
    match existing {
        Existing::Replace => fs::rename(fresh, path).map(|()| true),
        Existing::Keep => match fs::hard_link(fresh, path) {
            Err(source) if source.kind() == io::ErrorKind::AlreadyExists => Ok(false),
            linked => linked.map(|()| true),
        },
    }
}

/// Makes durable what a folder lists.
fn sync(folder: &Path) -> io::Result<()> {
    File::open(folder)?.sync_all()
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder != Path::new("") => folder,
        _ => Path::new("."),
    }
}

fn check_owner(path: &Path, owner: u32) -> Result<(), FileError> {
    let wanted = rustix::process::geteuid().as_raw();
    // What belongs to root is as safe as what belongs to us.
    if owner == wanted || owner == 0 {
        Ok(())
    } else {
        Err(FileError::Owner { path: path.to_owned(), owner, wanted })
    }
}

fn read_all(path: &Path, file: File) -> Result<Zeroizing<Vec<u8>>, FileError> {
    // Room for all of it at once: growing would leave copies of a key behind.
    let length = file.metadata().map_err(|source| unreadable(path, source))?.len();
    if length > MOST_BYTES {
        return Err(FileError::Large { path: path.to_owned() });
    }
    let room = usize::try_from(length).unwrap_or_default().saturating_add(1);
    let mut bytes = Zeroizing::new(Vec::with_capacity(room));
    file.take(MOST_BYTES).read_to_end(&mut bytes).map_err(|source| unreadable(path, source))?;
    Ok(bytes)
}

fn unreadable(path: &Path, source: io::Error) -> FileError {
    if source.kind() == io::ErrorKind::NotFound {
        FileError::Missing { path: path.to_owned() }
    } else {
        FileError::Read { path: path.to_owned(), source }
    }
}
