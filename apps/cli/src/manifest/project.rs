//! A Compose project as it lies on the disk of whoever types: which files it has, and what is beside
//! them.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use persys_compose::ContentFile;
use persys_compose::project::{self, Ask, Files, Found, Most, Project};

use super::{Beside, Wanted, count, name, text};
use crate::problem::Problem;
use crate::world::World;

/// What the compose program calls its files, the first that is there.
const NAMES: [&str; 4] =
    ["compose.yaml", "compose.yml", "docker-compose.yml", "docker-compose.yaml"];

/// The Compose file in a folder, under one of its usual names.
pub(crate) fn in_folder(folder: &Path) -> Option<PathBuf> {
    NAMES.iter().map(|name| folder.join(name)).find(|path| path.is_file())
}

/// The file that goes over a file of a usual name without being named.
fn over(file: &Path) -> Option<PathBuf> {
    let name = file.file_name()?.to_str().filter(|name| NAMES.contains(name))?;
    let stem = name.split_once('.').map(|(stem, _)| stem)?;
    let folder = file.parent()?;
    let paths = ["yaml", "yml"].map(|ending| folder.join(format!("{stem}.override.{ending}")));
    paths.into_iter().find(|path| path.is_file())
}

/// Whether a file is of a Compose project. What cannot be read is told of by whoever reads it.
pub(super) fn is_one(text: &str) -> bool {
    project::is_compose(text)
}

/// The project of these files, the later over the earlier. Named without `-f`, a file brings the one
/// that goes over it.
pub(crate) fn read(
    world: &World,
    files: &[PathBuf],
    alone: bool,
    beside: &Beside,
) -> Result<Project, Problem> {
    let disk = Disk::of(world, files)?;
    let mut paths: Vec<PathBuf> = files.to_vec();
    if alone && let Some(file) = files.first() {
        paths.extend(over(file));
    }
    let ask = Ask {
        files: paths.iter().map(|path| disk.seen(path)).collect(),
        given: beside.env.clone(),
        shell: if disk.typed.is_some() { BTreeMap::new() } else { world.env.clone() },
        profiles: beside.profiles.clone(),
        name: beside.id.clone(),
        folder: disk.name(),
    };
    Ok(project::load(&disk, &ask))
}

/// What a project wants, or everything that is wrong with it.
pub(super) fn wanted(
    world: &World,
    files: &[PathBuf],
    alone: bool,
    beside: &Beside,
) -> Result<Wanted, Problem> {
    let project = read(world, files, alone, beside)?;
    let names: Vec<_> = files.iter().map(|file| name(file)).collect();
    let from = names.join(", ");
    let request = persys_proto::manifest::of_project(&project, beside).map_err(|found| {
        let what = format!("{from} has {}; nothing was sent", count(found.count(), "fault"));
        Problem::faults(what, &found)
    })?;
    Ok(Wanted { request, from, project: Some(Box::new(project)) })
}

/// Files of the folder that a project is in.
pub(crate) struct Disk {
    folder: PathBuf,
    home: Option<PathBuf>,
    /// What was typed instead of a file: it has no folder.
    typed: Option<String>,
}

impl Disk {
    fn of(world: &World, files: &[PathBuf]) -> Result<Self, Problem> {
        let first = files.first().map_or_else(|| Path::new("-"), PathBuf::as_path);
        let home = world.env.get("HOME").map(PathBuf::from);
        if first == Path::new("-") {
            let typed = Some(text(world, first)?);
            return Ok(Self { folder: PathBuf::new(), home, typed });
        }
        // Whatever is wrong with the file is told as of any other file.
        drop(text(world, first)?);
        let whole = first.canonicalize().unwrap_or_else(|_| first.to_path_buf());
        let folder = whole.parent().map(Path::to_path_buf).unwrap_or_default();
        Ok(Self { folder, home, typed: None })
    }

    /// What the folder is called.
    fn name(&self) -> String {
        let name = self.folder.file_name().and_then(|name| name.to_str());
        name.unwrap_or_default().to_owned()
    }

    /// A path that was typed, as it is seen from the folder.
    fn seen(&self, path: &Path) -> String {
        if path == Path::new("-") {
            return "-".to_owned();
        }
        let whole = path.canonicalize().unwrap_or_else(|_| path.to_path_buf());
        match whole.strip_prefix(&self.folder) {
            Ok(inside) => format!("./{}", inside.display()),
            Err(_) => whole.display().to_string(),
        }
    }

    fn path(&self, path: &str) -> Result<PathBuf, String> {
        let of_home = path.strip_prefix('~').map(|rest| (rest, &self.home));
        match of_home {
            Some((rest, Some(home))) if rest.is_empty() || rest.starts_with('/') => {
                Ok(home.join(rest.trim_start_matches('/')))
            }
            Some(_) => Err("is of a home that is not known here".to_owned()),
            None => Ok(self.folder.join(path)),
        }
    }
}

impl Files for Disk {
    fn look(&self, path: &str, most: Most) -> Result<Found, String> {
        if let Some(typed) = &self.typed {
            if path == "-" {
                let bytes = typed.clone().into_bytes();
                return Ok(Found::File(ContentFile { bytes, ..ContentFile::default() }));
            }
            return Err("is beside the file, and what is typed has no folder; name the file".into());
        }
        let path = self.path(path)?;
        let found = match fs::metadata(&path) {
            Ok(found) => found,
            Err(why) if why.kind() == std::io::ErrorKind::NotFound => return Ok(Found::Nothing),
            Err(why) => return Err(format!("cannot be read: {why}")),
        };
        if found.is_file() {
            return file(&path, most.bytes).map(Found::File);
        }
        if !found.is_dir() {
            return Err("is neither a file nor a folder".to_owned());
        }
        let mut files = BTreeMap::new();
        let mut left = most;
        folder(&path, "", &mut files, &mut left, most)?;
        Ok(Found::Folder(files))
    }
}

fn too_much(most: Most) -> String {
    format!("holds more than {} files or {} bytes", most.files, most.bytes)
}

fn file(path: &Path, most: usize) -> Result<ContentFile, String> {
    let unread = |why: std::io::Error| format!("cannot be read: {why}");
    let opened = fs::File::open(path).map_err(unread)?;
    let mode = opened.metadata().map_err(unread)?.permissions().mode() & 0o777;
    let mut bytes = Vec::new();
    let limit = u64::try_from(most).unwrap_or(u64::MAX).saturating_add(1);
    opened.take(limit).read_to_end(&mut bytes).map_err(unread)?;
    if bytes.len() > most {
        return Err(format!("has more than {most} bytes"));
    }
    Ok(ContentFile { mode, bytes, ..ContentFile::default() })
}

/// Takes all files below a folder, as long as they fit. Links are not followed: what they name may be
/// anywhere.
fn folder(
    path: &Path,
    prefix: &str,
    files: &mut BTreeMap<String, ContentFile>,
    left: &mut Most,
    most: Most,
) -> Result<(), String> {
    let unread = |why: std::io::Error| format!("cannot be read: {why}");
    for entry in fs::read_dir(path).map_err(unread)? {
        let entry = entry.map_err(unread)?;
        let Some(name) = entry.file_name().to_str().map(|name| format!("{prefix}{name}")) else {
            return Err(format!("has a name in {} that is not text", path.display()));
        };
        let kind = entry.file_type().map_err(unread)?;
        if kind.is_dir() {
            folder(&entry.path(), &format!("{name}/"), files, left, most)?;
            continue;
        }
        if !kind.is_file() {
            return Err(format!(
                "has {name} in it, which is a link or no file, and is not followed"
            ));
        }
        if left.files == 0 || !persys_compose::grammar::is_path_within(&name) {
            return Err(too_much(most));
        }
        let Ok(found) = file(&entry.path(), left.bytes) else { return Err(too_much(most)) };
        left.files = left.files.saturating_sub(1);
        left.bytes = left.bytes.saturating_sub(found.bytes.len());
        files.insert(name, found);
    }
    Ok(())
}
