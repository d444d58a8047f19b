//! The files of the repository.

use std::path::{Path, PathBuf};

/// One text file.
#[derive(Debug, Clone)]
pub struct SourceFile {
    /// Path from the root, with `/`.
    pub path: String,
    /// Its text.
    pub text: String,
}

/// The root of this repository.
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// All text files below `root` that are ours, sorted by path.
pub fn read(root: &Path) -> std::io::Result<Vec<SourceFile>> {
    let mut files = Vec::new();
    let mut folders = vec![root.to_path_buf()];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let entry = entry?;
            let name = entry.file_name().to_string_lossy().into_owned();
            if entry.file_type()?.is_dir() {
                if name != "target" && (!name.starts_with('.') || name == ".ci") {
                    folders.push(entry.path());
                }
            } else if let Ok(text) = std::fs::read_to_string(entry.path()) {
                let path = entry.path();
                let path = path.strip_prefix(root).unwrap_or(&path);
                files.push(SourceFile { path: path.to_string_lossy().into_owned(), text });
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}
