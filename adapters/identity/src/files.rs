//! Where a bundle is kept, and how it gets there.
//!
//! Our own are one file each: key, certificate and roots can then never be out of step. Files from
//! elsewhere come as three, where `PERSYS_TLS_CERT`, `PERSYS_TLS_KEY` and `PERSYS_TLS_CA` point; a
//! reader that meets them half replaced finds a mismatch and comes back later.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::SystemTime;

use zeroize::Zeroizing;

use crate::authority::Issued;
use crate::certificate;
use crate::credentials::{Bundle, BundleError, Terms};
use crate::disk::{self, Existing, FileError, Links};
use crate::mapping::{Mapping, MappingError};

/// Where to read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// One private file with key, certificate and roots.
    Bundle(PathBuf),
    /// One file each. They may be links, as mounted secrets are; the key must still be private.
    Separate {
        /// The certificate and what signed it.
        certificate: PathBuf,
        /// The private key.
        key: PathBuf,
        /// The trusted roots.
        roots: PathBuf,
    },
    /// Either of these, and a file that maps the names of certificates made elsewhere to roles.
    Mapped {
        /// Key, certificate and roots.
        files: Box<Source>,
        /// The mapping.
        names: PathBuf,
    },
}

/// Why nothing was loaded.
#[derive(Debug, thiserror::Error)]
pub enum LoadError {
    /// A file cannot be used.
    #[error(transparent)]
    File(#[from] FileError),
    /// The mapping cannot be used.
    #[error(transparent)]
    Mapping(#[from] MappingError),
    /// The files can be read, but not used.
    #[error("{files}: {fault}")]
    Bundle {
        /// Which.
        files: String,
        /// What is wrong, and what to do.
        fault: BundleError,
    },
}

impl Source {
    /// Reads and checks what is there.
    pub fn load(&self, now: SystemTime) -> Result<Bundle, LoadError> {
        self.read(Terms { now: Some(now), mapping: None })
    }

    /// The same, also when the certificate has ended: good for asking for the next one.
    pub fn load_ended(&self) -> Result<Bundle, LoadError> {
        self.read(Terms::default())
    }

    /// Maps the names of certificates made elsewhere by the file `names`, if there is one.
    #[must_use]
    pub fn mapped(self, names: Option<PathBuf>) -> Self {
        match names {
            Some(names) => Self::Mapped { files: Box::new(self), names },
            None => self,
        }
    }

    /// The mapping beside the files, read anew.
    pub(crate) fn mapping(&self) -> Result<Option<Arc<Mapping>>, LoadError> {
        match self {
            Self::Bundle(_) | Self::Separate { .. } => Ok(None),
            Self::Mapped { names, .. } => Ok(Some(Arc::new(Mapping::load(names)?))),
        }
    }

    fn read(&self, terms: Terms) -> Result<Bundle, LoadError> {
        let bundle = match self {
            Self::Mapped { files, .. } => {
                return files.read(Terms { mapping: self.mapping()?, ..terms });
            }
            Self::Bundle(path) => {
                Bundle::read_pem(&disk::read_private(path, Links::Refuse)?, terms)
            }
            Self::Separate { certificate, key, roots } => {
                let certificate = disk::read_public(certificate)?;
                let key = disk::read_private(key, Links::Follow)?;
                let roots = disk::read_public(roots)?;
                Bundle::read_pems((&certificate, &key, &roots), terms)
            }
        };
        bundle.map_err(|fault| LoadError::Bundle { files: self.to_string(), fault })
    }

    /// Replaces what is there, the one file at once and three files one by one.
    pub fn save(&self, issued: &Issued) -> Result<(), FileError> {
        let Issued { certificate_pem, key_pem, roots_pem, .. } = issued;
        let put = |path: &Path, text: &str, mode| {
            disk::write(path, text.as_bytes(), mode, Existing::Replace).map(|_| ())
        };
        match self {
            Self::Mapped { files, .. } => files.save(issued),
            Self::Bundle(path) => {
                let text =
                    Zeroizing::new(format!("{}{certificate_pem}{roots_pem}", key_pem.as_str()));
                put(path, &text, 0o600)
            }
            Self::Separate { certificate, key, roots } => {
                put(roots, roots_pem, 0o644)?;
                put(key, key_pem, 0o600)?;
                put(certificate, certificate_pem, 0o644)
            }
        }
    }

    /// Trusts other roots from now on; certificate and key stay.
    pub fn save_roots(&self, roots_pem: &str, now: SystemTime) -> Result<(), LoadError> {
        self.put_roots(roots_pem, Terms { now: Some(now), mapping: self.mapping()? })
    }

    fn put_roots(&self, roots_pem: &str, terms: Terms) -> Result<(), LoadError> {
        match self {
            Self::Mapped { files, .. } => files.put_roots(roots_pem, terms)?,
            Self::Bundle(path) => {
                let text = disk::read_private(path, Links::Refuse)?;
                let with_roots = with_roots(&text, roots_pem);
                // What would not load is not written.
                let checked = Bundle::read_pem(with_roots.as_bytes(), terms);
                checked.map_err(|fault| LoadError::Bundle { files: self.to_string(), fault })?;
                disk::write(path, with_roots.as_bytes(), 0o600, Existing::Replace)?;
            }
            Self::Separate { certificate, key, roots } => {
                let certificate = disk::read_public(certificate)?;
                let key = disk::read_private(key, Links::Follow)?;
                let parts = (certificate.as_slice(), key.as_slice(), roots_pem.as_bytes());
                let checked = Bundle::read_pems(parts, terms);
                checked.map_err(|fault| LoadError::Bundle { files: self.to_string(), fault })?;
                disk::write(roots, roots_pem.as_bytes(), 0o644, Existing::Replace)?;
            }
        }
        Ok(())
    }
}

/// The same text with other roots: certificates that signed themselves are replaced.
fn with_roots(text: &[u8], roots_pem: &str) -> Zeroizing<String> {
    let mut kept = Zeroizing::new(String::with_capacity(text.len() + roots_pem.len()));
    let text = Zeroizing::new(String::from_utf8_lossy(text).into_owned());
    let config = pem::EncodeConfig::new().set_line_ending(pem::LineEnding::LF);
    for part in pem::parse_many(text.as_bytes()).unwrap_or_default() {
        let is_root = part.tag() == "CERTIFICATE"
            && certificate::parse(part.contents())
                .is_ok_and(|parsed| parsed.subject().as_raw() == parsed.issuer().as_raw());
        if !is_root {
            kept.push_str(&Zeroizing::new(pem::encode_config(&part, config)));
        }
    }
    kept.push_str(roots_pem);
    kept
}

impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Mapped { files, names } => {
                write!(f, "{files}, with the names in {}", names.display())
            }
            Self::Bundle(path) => write!(f, "{}", path.display()),
            Self::Separate { certificate, key, roots } => write!(
                f,
                "{} with {} and {}",
                certificate.display(),
                key.display(),
                roots.display()
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::{PermissionsExt as _, symlink};
    use std::time::{Duration, UNIX_EPOCH};

    use super::*;
    use crate::{Authority, ClusterName, Grant, Name, Role, TrustDomain, Validity};

    const DAY: Duration = Duration::from_hours(24);

    fn now() -> SystemTime {
        UNIX_EPOCH + Duration::from_hours(500_000)
    }

    fn issue(folder: &Path) -> Issued {
        let (domain, cluster) = (TrustDomain::new("example.org"), ClusterName::new("east"));
        let (domain, cluster) = (domain.unwrap(), cluster.unwrap());
        let authority = Authority::open_or_create(folder, &domain, &cluster, now()).unwrap();
        let grant = Grant::new(Role::Agent, Name::fixed("n1"));
        authority.issue(&grant, Validity { now: now(), lifetime: DAY }).unwrap()
    }

    fn sources(folder: &Path) -> [Source; 2] {
        let separate = Source::Separate {
            certificate: folder.join("tls.crt"),
            key: folder.join("tls.key"),
            roots: folder.join("ca.crt"),
        };
        [Source::Bundle(folder.join("agent.pem")), separate]
    }

    fn key_file(source: &Source) -> &Path {
        match source {
            Source::Bundle(path) => path,
            Source::Separate { key, .. } => key,
            Source::Mapped { files, .. } => key_file(files),
        }
    }

    fn fault(source: &Source, now: SystemTime) -> String {
        source.load(now).unwrap_err().to_string()
    }

    #[test]
    fn what_is_saved_is_loaded() {
        let folder = tempfile::tempdir().unwrap();
        let issued = issue(&folder.path().join("ca"));
        for source in sources(folder.path()) {
            source.save(&issued).unwrap();
            let bundle = source.load(now()).unwrap();
            assert_eq!(bundle.certificate(), &issued.certificate);
            let mode = fs::metadata(key_file(&source)).unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }

    #[test]
    fn each_fault_names_its_file_and_what_to_do() {
        let folder = tempfile::tempdir().unwrap();
        let issued = issue(&folder.path().join("ca"));
        for source in sources(folder.path()) {
            let key = key_file(&source);
            let named = |text: String, wanted: &str| {
                let path = key.display().to_string();
                assert!(text.contains(wanted) && text.contains(&path), "{text}");
            };
            named(fault(&source, now()).replace("tls.crt", "tls.key"), "does not exist");
            source.save(&issued).unwrap();
            named(fault(&source, now() + 2 * DAY), "renew it");
            named(fault(&source, now() - DAY), "is the clock right?");
            fs::set_permissions(key, fs::Permissions::from_mode(0o644)).unwrap();
            named(fault(&source, now()), "chmod 600");
            source.save(&issued).unwrap();
            source.load(now()).unwrap();
        }
    }

    #[test]
    fn parts_of_two_bundles_do_not_make_one() {
        let folder = tempfile::tempdir().unwrap();
        let (ours, theirs) = (folder.path().join("ours"), folder.path().join("theirs"));
        let (one, two) = (issue(&ours), issue(&ours));
        let [bundle, separate] = sources(folder.path());
        for source in [&bundle, &separate] {
            source.save(&Issued { key_pem: two.key_pem.clone(), ..one.clone() }).unwrap();
            assert!(fault(source, now()).contains("does not belong"));
            let foreign = issue(&theirs).roots_pem;
            source.save(&Issued { roots_pem: foreign, ..one.clone() }).unwrap();
            assert!(fault(source, now()).contains("not signed by any of the roots"));
            source.save(&Issued { roots_pem: String::new(), ..one.clone() }).unwrap();
            assert!(fault(source, now()).contains("no root certificate"));
        }
    }

    #[test]
    fn links_are_followed_only_where_secrets_are_mounted() {
        let folder = tempfile::tempdir().unwrap();
        let issued = issue(&folder.path().join("ca"));
        let mounted = folder.path().join("mounted");
        fs::create_dir(&mounted).unwrap();
        for (real, link) in sources(&mounted).iter().zip(sources(folder.path())) {
            real.save(&issued).unwrap();
            let files = |source: &Source| match source {
                Source::Bundle(path) => vec![path.clone()],
                Source::Separate { certificate, key, roots } => {
                    vec![certificate.clone(), key.clone(), roots.clone()]
                }
                Source::Mapped { .. } => Vec::new(),
            };
            for (target, name) in files(real).iter().zip(files(&link)) {
                symlink(target, name).unwrap();
            }
            match link {
                Source::Bundle(_) => assert!(fault(&link, now()).contains("symbolic link")),
                Source::Separate { .. } | Source::Mapped { .. } => {
                    assert!(link.load(now()).is_ok());
                }
            }
        }
    }
}
