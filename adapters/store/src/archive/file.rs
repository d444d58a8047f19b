//! The file of a copy: it has its name only when it is whole.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, BufWriter, ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use super::{Archive, BadArchive, read};

/// A file that is being written beside the name it is to have. Dropped before [`NewFile::finish`]
/// it leaves nothing behind.
#[derive(Debug)]
pub struct NewFile {
    out: BufWriter<File>,
    beside: PathBuf,
    path: PathBuf,
    finished: bool,
}

impl NewFile {
    /// Begins a file for its owner's eyes only. One that is there already is not replaced.
    pub fn create(path: &Path) -> io::Result<Self> {
        if path.try_exists()? {
            return Err(io::Error::new(ErrorKind::AlreadyExists, "it is there already"));
        }
        let mut beside = path.as_os_str().to_owned();
        beside.push(format!(".new-{}", std::process::id()));
        let beside = PathBuf::from(beside);
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&beside)?;
        let out = BufWriter::new(file);
        Ok(Self { out, beside, path: path.to_owned(), finished: false })
    }

    /// Reads what was written so far, and says what is wrong with it.
    pub fn check(&mut self) -> Result<Archive, BadArchive> {
        self.out.flush()?;
        open(&self.beside)
    }

    /// Makes it durable and gives it its name.
    pub fn finish(mut self) -> io::Result<()> {
        self.out.flush()?;
        self.out.get_ref().sync_all()?;
        fs::rename(&self.beside, &self.path)?;
        self.finished = true;
        let folder = self.path.parent().filter(|folder| !folder.as_os_str().is_empty());
        File::open(folder.unwrap_or(Path::new(".")))?.sync_all()
    }
}

impl Write for NewFile {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.out.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

impl Drop for NewFile {
    fn drop(&mut self) {
        if !self.finished {
            // Nothing was promised; a file that stays behind has a name nobody takes for a copy.
            drop(fs::remove_file(&self.beside));
        }
    }
}

/// Reads the copy in a file.
pub fn open(path: &Path) -> Result<Archive, BadArchive> {
    let file = File::open(path)?;
    read(&mut BufReader::with_capacity(256 * 1024, file))
}
