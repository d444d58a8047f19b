//! Certificates made with the real `openssl`, as an operator without our authority makes them.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// An authority of OpenSSL in a folder.
pub(crate) struct OpenSsl {
    folder: PathBuf,
}

/// Files of one certificate.
pub(crate) struct Files {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
    pub(crate) roots: PathBuf,
}

const KEY: [&str; 5] = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"];

impl OpenSsl {
    /// A new authority.
    pub(crate) fn at(folder: &Path) -> Self {
        fs::create_dir_all(folder).unwrap();
        let this = Self { folder: folder.to_owned() };
        let mut words = vec!["req", "-x509", "-days", "30", "-subj", "/CN=Example CA"];
        words.extend(KEY);
        words.extend(["-keyout", "ca.key", "-out", "ca.pem"]);
        this.runs(&words);
        this
    }

    /// A certificate with a subject such as `/CN=ann` and lines of extensions, such as
    /// `subjectAltName = DNS:node1.example.org`.
    pub(crate) fn issue(&self, name: &str, subject: &str, extensions: &[&str]) -> Files {
        let file = |end: &str| format!("{name}.{end}");
        let (key, request, certificate, extension) =
            (file("key"), file("csr"), file("crt"), file("ext"));
        let mut words = vec!["req", "-new", "-subj", subject];
        words.extend(KEY);
        words.extend(["-keyout", &key, "-out", &request]);
        self.runs(&words);
        let path = self.folder.join(&extension);
        // One extension at least: without any OpenSSL makes certificates of version 1.
        let lines = ["basicConstraints = critical,CA:FALSE"].into_iter();
        let lines: Vec<_> = lines.chain(extensions.iter().copied()).collect();
        fs::write(&path, lines.join("\n") + "\n").unwrap();
        let mut words = vec!["x509", "-req", "-in", &request, "-days", "1", "-CAcreateserial"];
        words.extend(["-CA", "ca.pem", "-CAkey", "ca.key", "-extfile", &extension]);
        words.extend(["-out", &certificate]);
        self.runs(&words);
        let key = self.folder.join(key);
        fs::set_permissions(&key, fs::Permissions::from_mode(0o600)).unwrap();
        let (certificate, roots) = (self.folder.join(certificate), self.folder.join("ca.pem"));
        Files { certificate, key, roots }
    }

    fn runs(&self, words: &[&str]) {
        let ran = Command::new("openssl").args(words).current_dir(&self.folder).output();
        let ran = ran.expect("openssl is installed");
        let said = String::from_utf8_lossy(&ran.stderr);
        assert!(ran.status.success(), "openssl {}: {said}", words.join(" "));
    }
}
