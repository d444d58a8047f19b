//! Projects mean to us what they mean to the compose program: its `config` of each, read by us, says the
//! same of every service.

#![expect(clippy::disallowed_types, reason = "asks the real program")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use persys_compose::project::{Ask, Files, Found, Most, load};
use persys_compose::{ContentFile, Document, Service};

struct Disk(PathBuf);

impl Files for Disk {
    fn look(&self, path: &str, _: Most) -> Result<Found, String> {
        let path = self.0.join(path);
        if path.is_dir() {
            return Ok(Found::Folder(BTreeMap::new()));
        }
        match std::fs::read(path) {
            Ok(bytes) => Ok(Found::File(ContentFile { bytes, ..ContentFile::default() })),
            Err(_) => Ok(Found::Nothing),
        }
    }
}

/// A project, and the folders that it is built from.
fn document(folder: &Path, files: &[&str], profiles: &[&str]) -> (Document, Vec<String>) {
    let ask = Ask {
        files: files.iter().map(|&file| file.to_owned()).collect(),
        profiles: profiles.iter().map(|&name| name.to_owned()).collect(),
        shell: [("HOME".to_owned(), "/h".to_owned())].into(),
        name: Some("p".to_owned()),
        ..Ask::default()
    };
    let project = load(&Disk(folder.to_owned()), &ask);
    let (reading, builds) = (project.reading, project.builds);
    let document = reading.document;
    let document =
        document.unwrap_or_else(|| panic!("{}: {:?}", folder.display(), reading.findings));
    (document, builds.into_iter().map(|build| build.context).collect())
}

/// A folder that is gone when it is dropped.
struct Own(PathBuf);

impl Own {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("persys-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).expect("a folder");
        Self(path)
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

/// What the program makes of a project, as a project of one file.
fn config(folder: &Path, files: &[&str], profiles: &[&str]) -> Document {
    let mut words: Vec<&str> = files.iter().flat_map(|file| ["-f", *file]).collect();
    words.extend(profiles.iter().flat_map(|name| ["--profile", *name]));
    let output = Command::new("docker-compose")
        .args(words)
        .arg("config")
        .current_dir(folder)
        .env_clear()
        .envs([("PATH", "/usr/local/bin:/usr/bin:/bin"), ("HOME", "/h")])
        .output()
        .expect("docker-compose is installed");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", folder.display());
    let name = folder.file_name().expect("a name").to_string_lossy();
    let own = Own::new(&format!("config-{name}"));
    std::fs::write(own.0.join("config.yaml"), output.stdout).expect("a file");
    document(&own.0, &["./config.yaml"], profiles).0
}

/// What a service is, without what is beside it: there, paths are of another folder.
fn told(service: &Service) -> String {
    let Service { name, image, entrypoint, command, environment, ports, expose, .. } = service;
    let targets: Vec<_> = service.mounts.iter().map(|m| (&m.target, m.read_only)).collect();
    let links: Vec<_> = service.depends_on.keys().collect();
    let Service { labels, network, restart, limits, .. } = service;
    format!(
        "{name} {image} {entrypoint:?} {command:?} {environment:?} {ports:?} {expose:?} {targets:?} \
         {links:?} {labels:?} {network:?} {restart:?} {limits:?} {:?} {:?}",
        service.identity.runtime, service.identity.hostname
    )
}

fn same(folder: &Path, files: &[&str], profiles: &[&str]) {
    let (ours, theirs) = (document(folder, files, profiles).0, config(folder, files, profiles));
    let tell = |document: &Document| document.services().map(told).collect::<Vec<_>>();
    assert_eq!(tell(&ours), tell(&theirs), "{}", folder.display());
}

fn copy(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a folder").flatten() {
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            copy(&entry.path(), &target);
        } else {
            std::fs::copy(entry.path(), target).expect("a copy");
        }
    }
}

#[test]
fn every_project_of_the_corpus_means_the_same() {
    let corpus = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../apps/cli/tests/corpus");
    let mut seen = 0;
    for entry in std::fs::read_dir(corpus).expect("the corpus") {
        let folder = entry.expect("an entry").path();
        let names = ["compose.yaml", "compose.yml"];
        let Some(file) = names.into_iter().find(|name| folder.join(name).is_file()) else {
            continue;
        };
        let file = format!("./{file}");
        // The program wants the folders that are built, and has no use for what is in them.
        let staged = Own::new(&folder.file_name().expect("a name").to_string_lossy());
        copy(&folder, &staged.0);
        let text = std::fs::read_to_string(folder.join(&file)).expect("a text");
        // Older versions of the program do not know the name of a project.
        let lines = text.lines().filter(|line| !line.starts_with("name:"));
        let text: String = lines.flat_map(|line| [line, "\n"]).collect();
        std::fs::write(staged.0.join(&file), text).expect("a file");
        for context in document(&folder, &[&file], &[]).1 {
            std::fs::create_dir_all(staged.0.join(context)).expect("a folder");
        }
        same(&staged.0, &[&file], &[]);
        seen += 1;
    }
    assert_eq!(seen, 39);
}

#[test]
fn files_over_files_with_all_that_is_beside_them_mean_the_same() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/compose_cli/project");
    same(&folder, &["./compose.yaml"], &[]);
    same(&folder, &["./compose.yaml", "./over.yaml"], &["dev"]);
}
