//! A spec with its secrets in it, as it is handed to a runtime and nowhere else.

use std::collections::BTreeSet;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use persys_compose::secret_file;

use super::container::Bind;
use super::secret::Secret;
use super::{Kind, Spec};
use crate::id::SecretName;
use crate::secret::{Redacted, SecretSeen, SecretUse, SecretValue, SecretValues};

/// The label that says which versions of secrets a container was made with.
pub const VERSIONS: &str = "persys.secrets";

/// A file to be written before the workload starts.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SecretFile {
    /// The secret in it.
    pub secret: SecretName,
    /// Its name in the workload's own folder.
    pub name: String,
    /// Its permissions.
    pub mode: u32,
    /// Its owner.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// What is in it.
    pub content: Redacted,
}

/// Why a secret cannot be filled in.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Unfilled {
    /// Somebody has to set it, or to use it otherwise.
    #[error("{0}")]
    NotThere(String),
    /// Another order may bring it.
    #[error("{0}")]
    NotSent(String),
}

/// The spec with all its secrets, and the files it expects in `folder`; or which secret cannot be
/// used as it says. What cannot be filled in is never left empty.
pub fn filled(
    spec: &Spec,
    values: &SecretValues,
    folder: &str,
) -> Result<(Spec, Vec<SecretFile>), Unfilled> {
    let mut whole = spec.clone();
    let mut files: Vec<SecretFile> = Vec::new();
    let mut versions = BTreeSet::new();
    let mut in_guest = String::new();
    for SecretUse { secret, seen } in &spec.secrets {
        let SecretValue { version, value } = match values.get(secret) {
            Some(Ok(value)) => value,
            Some(Err(why)) => return Err(Unfilled::NotThere(why.to_string())),
            None => {
                let why = format!("the secret {secret} did not come with the order");
                return Err(Unfilled::NotSent(why));
            }
        };
        match (seen, &mut whole.kind) {
            (SecretSeen::Env(name), Kind::Container(body)) => {
                let text = std::str::from_utf8(value.reveal()).ok();
                let Some(text) = text.filter(|text| !text.contains('\0')) else {
                    return Err(Unfilled::NotThere(format!(
                        "the secret {secret} is not text, so it cannot be the variable {name}; \
                         have it as a file"
                    )));
                };
                body.env.insert(Arc::clone(name), Secret::new(text));
                versions.insert(format!("{secret}@{version}"));
            }
            (SecretSeen::File { path, mode, uid, gid, signal: _ }, kind) => {
                let name = secret_file(secret.as_str(), *mode, *uid, *gid);
                let content = value.clone();
                match kind {
                    Kind::Container(body) => body.binds.push(Bind {
                        host_path: Arc::from(format!("{folder}/{name}")),
                        container_path: Arc::clone(path),
                        read_only: true,
                    }),
                    Kind::Compose(_) => {}
                    Kind::Vm(_) => {
                        in_guest.push_str(&guest_file(path, *mode, *uid, *gid, value));
                        continue;
                    }
                }
                if files.iter().all(|file| file.name != name) {
                    let secret = secret.clone();
                    files.push(SecretFile {
                        secret,
                        name,
                        mode: *mode,
                        uid: *uid,
                        gid: *gid,
                        content,
                    });
                }
            }
            (SecretSeen::Env(name), Kind::Compose(_) | Kind::Vm(_)) => {
                let why = format!("the secret {secret} cannot be the variable {name} here");
                return Err(Unfilled::NotThere(why));
            }
        }
    }
    match &mut whole.kind {
        Kind::Container(body) if !versions.is_empty() => {
            let all: Vec<_> = versions.into_iter().collect();
            body.labels.insert(Arc::from(VERSIONS), Arc::from(all.join(",")));
        }
        Kind::Vm(body) if !in_guest.is_empty() => {
            let text = format!("#cloud-config\nwrite_files:\n{in_guest}");
            body.cloud_init.vendor_data = Secret::new(&text);
        }
        Kind::Container(_) | Kind::Compose(_) | Kind::Vm(_) => {}
    }
    Ok((whole, files))
}

/// A file for cloud-init to write. Nothing in it needs quoting: the path was checked, the content
/// is base64.
fn guest_file(path: &str, mode: u32, uid: u32, gid: u32, value: &Redacted) -> String {
    let content = STANDARD.encode(value.reveal());
    format!(
        "- path: '{}'\n  permissions: '{mode:04o}'\n  owner: '{uid}:{gid}'\n  encoding: b64\n  \
         content: {content}\n",
        path.replace('\'', "''")
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::check::check;
    use crate::spec::draft::{ContainerDraft, Draft, SecretDraft, VmDraft};

    fn values(value: &[u8]) -> SecretValues {
        let value = SecretValue { version: 2, value: Redacted::new(value) };
        [(SecretName::fixed("db"), Ok(value))].into()
    }

    fn secret(env: &str) -> SecretDraft {
        SecretDraft { name: "db".to_owned(), env: env.to_owned(), ..SecretDraft::default() }
    }

    fn container(secrets: Vec<SecretDraft>) -> Spec {
        let body = ContainerDraft { image: "web".to_owned(), ..ContainerDraft::default() };
        check(&Draft { container: Some(body), secrets, ..Draft::default() }).unwrap()
    }

    #[test]
    fn a_container_gets_variables_and_files() {
        let spec = container(vec![secret("KEY"), secret("")]);
        let (whole, files) = filled(&spec, &values(b"hunter2"), "/run/x").unwrap();
        let Kind::Container(body) = &whole.kind else { panic!("no container") };
        assert_eq!(body.env.get("KEY").map(Secret::reveal), Some("hunter2"));
        assert_eq!(body.labels.get(VERSIONS).map(|text| &**text), Some("db@2"));
        assert_eq!(&*body.binds[0].host_path, "/run/x/db");
        assert_eq!(&*body.binds[0].container_path, "/run/secrets/db");
        assert_eq!((files[0].mode, files[0].content.reveal()), (0o400, &b"hunter2"[..]));
        assert!(!format!("{whole:?} {files:?}").contains("hunter2"));
    }

    #[test]
    fn what_cannot_be_filled_in_is_said_and_never_empty() {
        let missing = filled(&container(vec![secret("")]), &SecretValues::new(), "/x").unwrap_err();
        assert!(missing.to_string().contains("db did not come"), "{missing}");
        let unset = [(SecretName::fixed("db"), Err(Arc::from("db is not set")))].into();
        let unset = filled(&container(vec![secret("")]), &unset, "/x").unwrap_err();
        assert_eq!(unset, Unfilled::NotThere("db is not set".to_owned()));
        for bytes in [&b"\xff\xfe"[..], b"a\0b"] {
            let binary = filled(&container(vec![secret("KEY")]), &values(bytes), "/x").unwrap_err();
            assert!(binary.to_string().contains("not text"), "{binary}");
            assert!(filled(&container(vec![secret("")]), &values(bytes), "/x").is_ok());
        }
    }

    #[test]
    fn a_vm_gets_files_from_cloud_init() {
        let vm = VmDraft {
            vcpus: 1,
            memory_mb: 64,
            os_image: "debian".to_owned(),
            ..VmDraft::default()
        };
        let draft = Draft { vm: Some(vm), secrets: vec![secret("")], ..Draft::default() };
        let (whole, files) = filled(&check(&draft).unwrap(), &values(b"hunter2"), "/x").unwrap();
        let Kind::Vm(body) = &whole.kind else { panic!("no VM") };
        let text = body.cloud_init.vendor_data.reveal();
        assert_eq!(
            text,
            "#cloud-config\nwrite_files:\n- path: '/run/secrets/db'\n  permissions: '0400'\n  \
             owner: '0:0'\n  encoding: b64\n  content: aHVudGVyMg==\n"
        );
        assert_eq!(files, []);
    }
}
