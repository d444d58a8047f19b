//! Where the files of machines are, and which files of the node a spec may name.
//!
//! Names of files are made from checked ids only. A path of a user's is followed to its end, links
//! and all, and must then lie under a folder that the operator opened for it: what a machine can
//! reach is decided on the node, not in a spec.

use std::collections::BTreeMap;
use std::io::{ErrorKind, Read as _};
use std::path::{Path, PathBuf};

use persys_model::id::PoolName;

use crate::error::Error;

use super::domain::{Layer, LayerFormat};
use super::image;
use super::qemu_img::QemuImg;

/// What can be set about the disks of machines. QEMU runs as a user of its own on most nodes, so
/// every folder here must let others through.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Storage {
    /// A folder for each machine: its seed, its console, the record of what was made for it.
    pub home: PathBuf,
    /// Folders that disks are made in.
    pub pools: BTreeMap<PoolName, PathBuf>,
    /// The pool for disks that name none.
    pub default_pool: PoolName,
    /// Images that specs may name: `debian-12` is `debian-12`, `debian-12.qcow2`, `.img` or `.raw`.
    pub images: PathBuf,
    /// Folders under which specs may name files of their own, and images by path.
    pub roots: Vec<PathBuf>,
    /// The largest disk, as the guest sees it.
    pub most_gib: u64,
    /// The tool that makes disks.
    pub tool: QemuImg,
}

impl Default for Storage {
    fn default() -> Self {
        let pool = PathBuf::from("/var/lib/libvirt/images");
        Self {
            home: PathBuf::from("/var/lib/libvirt/persys/machines"),
            pools: BTreeMap::from([(PoolName::fixed("default"), pool.clone())]),
            default_pool: PoolName::fixed("default"),
            images: PathBuf::from("/var/lib/libvirt/persys/images"),
            roots: vec![pool],
            most_gib: 16 * 1024,
            tool: QemuImg::default(),
        }
    }
}

/// Endings under which an image of the catalogue may be found.
const IMAGE_ENDINGS: [&str; 4] = ["", ".qcow2", ".img", ".raw"];

impl Storage {
    /// The folder of a machine, by libvirt's name of it.
    #[must_use]
    pub fn folder(&self, machine: &str) -> PathBuf {
        self.home.join(machine)
    }

    /// Its seed.
    #[must_use]
    pub fn seed(&self, machine: &str) -> PathBuf {
        self.folder(machine).join("seed.iso")
    }

    /// What its serial console printed.
    #[must_use]
    pub fn console_log(&self, machine: &str) -> PathBuf {
        self.folder(machine).join("console.log")
    }

    /// The record of what was made for it.
    #[must_use]
    pub fn manifest(&self, machine: &str) -> PathBuf {
        self.folder(machine).join("manifest.json")
    }

    /// The file of a disk that we make.
    pub fn pool_file(
        &self,
        pool: Option<&PoolName>,
        machine: &str,
        device: &str,
        format: LayerFormat,
    ) -> Result<PathBuf, Error> {
        let pool = pool.unwrap_or(&self.default_pool);
        let Some(folder) = self.pools.get(pool) else {
            let known: Vec<_> = self.pools.keys().map(PoolName::as_str).collect();
            let detail = format!("no pool {pool} on this node; it has {}", known.join(", "));
            return Err(Error::Storage { detail });
        };
        let ending = match format {
            LayerFormat::Qcow2 => "qcow2",
            LayerFormat::Raw => "img",
        };
        Ok(folder.join(format!("{machine}-{device}.{ending}")))
    }

    /// A path of a user's, followed to its end and found where it may be. What is not there yet has
    /// a folder that is.
    pub fn user_file(&self, path: &str) -> Result<PathBuf, Error> {
        self.allowed(Path::new(path), &self.roots)
    }

    /// The base image a spec names, and its format.
    pub fn os_image(&self, word: &str) -> Result<Layer, Error> {
        let path = if word.starts_with('/') {
            let open: Vec<_> = self.roots.iter().chain([&self.images]).cloned().collect();
            let path = self.allowed(Path::new(word), &open)?;
            if !path.exists() {
                let detail = format!("os_image {word} does not exist on this node");
                return Err(Error::ImageNotFound { image: word.to_owned(), detail });
            }
            path
        } else {
            let named = IMAGE_ENDINGS.map(|ending| self.images.join(format!("{word}{ending}")));
            let found = named.into_iter().find(|path| path.exists());
            let path = found.ok_or_else(|| Error::ImageNotFound {
                image: word.to_owned(),
                detail: format!("put {word}.qcow2 into {}", self.images.display()),
            })?;
            self.allowed(&path, std::slice::from_ref(&self.images))?
        };
        base_layer(&path)
    }

    fn allowed(&self, path: &Path, roots: &[PathBuf]) -> Result<PathBuf, Error> {
        let real = real_path(path)?;
        let mut shown = Vec::new();
        for root in roots {
            let Ok(root) = root.canonicalize() else { continue };
            // Records and seeds of machines are nobody's disks, wherever they are kept.
            let home = self.home.canonicalize().unwrap_or_else(|_| self.home.clone());
            if real.starts_with(&root) && !real.starts_with(home) {
                return Ok(real);
            }
            shown.push(root.display().to_string());
        }
        let open = if shown.is_empty() { "nothing".to_owned() } else { shown.join(", ") };
        Err(Error::Storage {
            detail: format!(
                "{} is not under a folder open to specs on this node: {open}",
                path.display()
            ),
        })
    }
}

/// Where a path really leads; its last part may be missing.
fn real_path(path: &Path) -> Result<PathBuf, Error> {
    match path.canonicalize() {
        Ok(real) => Ok(real),
        // A link to nowhere is there, and is not what it seems.
        Err(error) if error.kind() == ErrorKind::NotFound && path.symlink_metadata().is_err() => {
            let folder = path.parent().unwrap_or(Path::new("/"));
            let name = path.file_name().ok_or_else(|| storage(path, "has no name"))?;
            let folder = folder.canonicalize().map_err(|error| storage(folder, error))?;
            Ok(folder.join(name))
        }
        Err(error) => Err(storage(path, error)),
    }
}

/// The first bytes of an ordinary file, and its length.
pub(super) fn head_of(path: &Path) -> Result<(Vec<u8>, u64), Error> {
    let facts = path.metadata().map_err(|error| storage(path, error))?;
    if !facts.is_file() {
        return Err(storage(path, "is not an ordinary file"));
    }
    let file = std::fs::File::open(path).map_err(|error| storage(path, error))?;
    let mut head = Vec::with_capacity(image::HEAD_BYTES);
    let most = u64::try_from(image::HEAD_BYTES).unwrap_or(u64::MAX);
    file.take(most).read_to_end(&mut head).map_err(|error| storage(path, error))?;
    Ok((head, facts.len()))
}

/// A base image: its format is what it is, as nobody says it.
pub(super) fn base_layer(path: &Path) -> Result<Layer, Error> {
    let (head, _) = head_of(path)?;
    let format = match image::begins_as(&head) {
        None => LayerFormat::Raw,
        Some("qcow2") => LayerFormat::Qcow2,
        Some(other) => {
            let detail = format!("is a {other} image; convert it to qcow2 first");
            return Err(storage(path, detail));
        }
    };
    Ok(Layer { path: path.to_owned(), format })
}

pub(super) fn storage(path: &Path, why: impl std::fmt::Display) -> Error {
    Error::Storage { detail: format!("{} {why}", path.display()) }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    struct Place {
        _folder: tempfile::TempDir,
        root: PathBuf,
        storage: Storage,
    }

    fn place() -> Place {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().canonicalize().unwrap();
        for name in ["home", "pool", "images", "open", "closed"] {
            std::fs::create_dir(root.join(name)).unwrap();
        }
        let storage = Storage {
            home: root.join("home"),
            pools: BTreeMap::from([(PoolName::fixed("default"), root.join("pool"))]),
            images: root.join("images"),
            roots: vec![root.join("open")],
            ..Storage::default()
        };
        Place { _folder: folder, root, storage }
    }

    #[test]
    fn a_users_path_stays_under_what_is_open() {
        let place = place();
        let at = |path: &str| place.root.join(path).display().to_string();
        std::fs::write(at("closed/secret"), "x").unwrap();
        std::fs::write(at("open/disk.img"), "x").unwrap();
        symlink(at("closed/secret"), at("open/link")).unwrap();
        symlink(at("closed"), at("open/door")).unwrap();
        symlink(at("closed/later"), at("open/dangling")).unwrap();
        let file = |path: &str| place.storage.user_file(&at(path));
        assert_eq!(file("open/disk.img").unwrap(), place.root.join("open/disk.img"));
        assert_eq!(file("open/new.img").unwrap(), place.root.join("open/new.img"));
        for bad in [
            "closed/secret",
            "closed/new",
            "open/link",
            "open/door/secret",
            "open/door/new",
            "open/dangling",
            "open/../closed/secret",
            "open/missing/new",
            "home/x",
        ] {
            assert!(file(bad).is_err(), "{bad}");
        }
        let words = file("closed/secret").unwrap_err().to_string();
        assert!(words.contains("is not under a folder open to specs") && words.contains("/open"));
        assert!(place.storage.user_file("/etc/passwd").is_err());
    }

    #[test]
    fn a_home_inside_an_open_folder_is_not_open() {
        let mut place = place();
        place.storage.roots = vec![place.root.clone()];
        let seed = place.storage.seed("persys-db");
        std::fs::create_dir(seed.parent().unwrap()).unwrap();
        std::fs::write(&seed, "secrets").unwrap();
        assert!(place.storage.user_file(seed.to_str().unwrap()).is_err());
    }

    #[test]
    fn images_are_found_by_name_and_known_by_content() {
        let place = place();
        let image = |name: &str| place.storage.os_image(name);
        let missing = image("debian-12").unwrap_err();
        assert!(matches!(missing, Error::ImageNotFound { .. }), "{missing}");
        let put = |name: &str, bytes: &[u8]| {
            std::fs::write(place.root.join("images").join(name), bytes).unwrap();
        };
        put("debian-12.qcow2", b"QFI\xfb\0\0\0\x03");
        put("plain.img", b"\xeb\x63");
        put("other", b"KDMV");
        symlink("/etc/passwd", place.root.join("images/passwd.img")).unwrap();
        assert_eq!(image("debian-12").unwrap().format, LayerFormat::Qcow2);
        assert_eq!(image("plain").unwrap().format, LayerFormat::Raw);
        assert!(image("other").unwrap_err().to_string().contains("vmdk"));
        assert!(image("passwd").is_err(), "a link out of the catalogue");
        assert!(image("/etc/passwd").is_err());
        let path = place.root.join("images/plain.img");
        assert_eq!(image(path.to_str().unwrap()).unwrap().path, path);
    }

    #[test]
    fn a_pool_nobody_has_is_named_with_those_there_are() {
        let place = place();
        let file = |pool: Option<&PoolName>| {
            place.storage.pool_file(pool, "persys-web", "vda", LayerFormat::Qcow2)
        };
        assert_eq!(file(None).unwrap(), place.root.join("pool/persys-web-vda.qcow2"));
        let error = file(Some(&PoolName::fixed("fast"))).unwrap_err().to_string();
        assert!(error.contains("no pool fast") && error.contains("it has default"), "{error}");
    }
}
