//! Which secrets a workload uses: their names, never their values.

use std::sync::Arc;

use persys_model::id::SecretName;
use persys_model::secret::{FILE_MODE, SecretSeen, SecretUse, Signal};
use serde::{Deserialize, Serialize};

#[derive(Serialize, Deserialize)]
pub(super) struct SecretShape {
    name: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    env: Option<Arc<str>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    path: Option<Arc<str>>,
    #[serde(default = "file_mode", skip_serializing_if = "is_file_mode")]
    mode: u32,
    #[serde(default, skip_serializing_if = "is_root")]
    uid: u32,
    #[serde(default, skip_serializing_if = "is_root")]
    gid: u32,
    /// Releases that do not know this leave what runs with the value it has.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    signal: Option<Arc<str>>,
}

fn file_mode() -> u32 {
    FILE_MODE
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_file_mode(mode: &u32) -> bool {
    *mode == FILE_MODE
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "as serde calls it")]
fn is_root(id: &u32) -> bool {
    *id == 0
}

impl From<&SecretUse> for SecretShape {
    fn from(SecretUse { secret, seen }: &SecretUse) -> Self {
        let name = Arc::from(secret.as_str());
        match seen {
            SecretSeen::Env(env) => {
                let env = Some(Arc::clone(env));
                Self { name, env, path: None, mode: FILE_MODE, uid: 0, gid: 0, signal: None }
            }
            SecretSeen::File { path, mode, uid, gid, signal } => {
                let path = Some(Arc::clone(path));
                let signal = signal.map(|signal| Arc::from(signal.word()));
                Self { name, env: None, path, mode: *mode, uid: *uid, gid: *gid, signal }
            }
        }
    }
}

impl SecretShape {
    pub(super) fn read(self) -> Result<SecretUse, String> {
        let Self { name, env, path, mode, uid, gid, signal } = self;
        let signal = signal.map(|text| Signal::of(&text)).transpose();
        let signal = signal.map_err(|why| format!("secrets.signal {why}"))?;
        let secret = SecretName::new(&name).map_err(|error| format!("secrets.name {error}"))?;
        let seen = match (env, path) {
            (Some(env), None) => SecretSeen::Env(env),
            (None, Some(path)) => SecretSeen::File { path, mode, uid, gid, signal },
            (Some(_), Some(_)) | (None, None) => {
                return Err("secrets has neither env nor path, or both".to_owned());
            }
        };
        Ok(SecretUse { secret, seen })
    }
}
