//! Tokens and revocations in a file of their own, for an authority that runs alone.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use async_trait::async_trait;
use persys_identity::{Denied, Subject};
use persys_model::id::EntryName;
use persys_model::join::{Admission, Claim, JoinRefused, JoinToken, Use};
use persys_model::time::WallMillis;
use serde::{Deserialize, Serialize};

use crate::register::{Register, RegisterError};

const FILE: &str = "register.json";
const DRAFT: &str = "register.json.new";
const LOCK: &str = "register.lock";
/// Most tokens that are kept at a time.
const MOST_TOKENS: usize = 1000;

/// The register in the folder of an authority.
#[derive(Debug, Clone)]
pub struct FileRegister {
    folder: PathBuf,
}

#[derive(Debug, Default, Serialize, Deserialize)]
struct Kept {
    tokens: BTreeMap<String, Token>,
    revoked: BTreeMap<String, Revoked>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
struct Token {
    hash: String,
    role: String,
    name: Option<String>,
    expires_ms: u64,
    uses_left: u32,
    /// Key and name of each who joined.
    uses: Vec<(String, String)>,
}

/// Since when and why somebody is no longer believed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Revoked {
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// Why.
    pub reason: String,
}

impl FileRegister {
    /// That in `folder`.
    pub fn of(folder: &Path) -> Self {
        Self { folder: folder.to_path_buf() }
    }

    /// Keeps a new token.
    pub fn invite(&self, token: &JoinToken) -> Result<(), RegisterError> {
        self.change(|kept, now| {
            kept.tokens.retain(|_, token| token.expires_ms > now.0);
            if kept.tokens.len() >= MOST_TOKENS {
                let text = format!("there are {MOST_TOKENS} tokens already; delete some");
                return Err(RegisterError::Unavailable(text));
            }
            kept.tokens.insert(token.id.to_string(), stored(token));
            Ok(())
        })
    }

    /// The tokens that are good.
    pub fn tokens(&self) -> Result<Vec<JoinToken>, RegisterError> {
        let kept = self.read()?;
        let all = kept.tokens.iter().filter_map(|(id, token)| token_of(id, token));
        Ok(all.filter(|token| token.expires > now()).collect())
    }

    /// Lets nobody join with a token any more; says whether there was one.
    pub fn uninvite(&self, id: &str) -> Result<bool, RegisterError> {
        self.change(|kept, _| Ok(kept.tokens.remove(id).is_some()))
    }

    /// Believes somebody no longer.
    pub fn revoke(&self, subject: &Subject, reason: &str) -> Result<(), RegisterError> {
        self.change(|kept, now| {
            let revoked = Revoked { since_ms: now.0, reason: reason.to_owned() };
            kept.revoked.entry(subject.to_string()).or_insert(revoked);
            Ok(())
        })
    }

    /// Believes somebody again; says whether they were revoked.
    pub fn reinstate(&self, subject: &Subject) -> Result<bool, RegisterError> {
        self.change(|kept, _| Ok(kept.revoked.remove(&subject.to_string()).is_some()))
    }

    /// Who is no longer believed, and why.
    pub fn revoked(&self) -> Result<BTreeMap<String, Revoked>, RegisterError> {
        self.read().map(|kept| kept.revoked)
    }

    fn read(&self) -> Result<Kept, RegisterError> {
        let path = self.folder.join(FILE);
        match fs::read(&path) {
            Ok(text) => serde_json::from_slice(&text).map_err(|fault| broken(&path, &fault)),
            Err(fault) if fault.kind() == std::io::ErrorKind::NotFound => Ok(Kept::default()),
            Err(fault) => Err(broken(&path, &fault)),
        }
    }

    /// Reads, changes and writes, one process at a time; what is written is whole and durable.
    fn change<T>(
        &self,
        change: impl FnOnce(&mut Kept, WallMillis) -> Result<T, RegisterError>,
    ) -> Result<T, RegisterError> {
        let path = self.folder.join(FILE);
        let failed = |fault: std::io::Error| broken(&path, &fault);
        let lock = File::create(self.folder.join(LOCK)).map_err(failed)?;
        lock.lock().map_err(failed)?;
        let mut kept = self.read()?;
        let changed = change(&mut kept, now())?;
        let text = serde_json::to_vec_pretty(&kept).map_err(|fault| broken(&path, &fault))?;
        let draft = self.folder.join(DRAFT);
        write_private(&draft, &text).map_err(failed)?;
        fs::rename(&draft, &path).map_err(failed)?;
        File::open(&self.folder).and_then(|folder| folder.sync_all()).map_err(failed)?;
        Ok(changed)
    }
}

#[async_trait]
impl Register for FileRegister {
    async fn redeem(&self, claim: Claim) -> Result<Admission, RegisterError> {
        let register = self.clone();
        blocking(move || {
            register.change(|kept, now| {
                let id = claim.id.to_string();
                let token = kept.tokens.get(&id).and_then(|token| token_of(&id, token));
                let token = token.ok_or(JoinRefused::Unknown)?;
                let (after, admission) = token.redeem(&claim, now)?;
                kept.tokens.insert(id, stored(&after));
                Ok(admission)
            })
        })
        .await
    }

    async fn denied(&self) -> Result<Denied, RegisterError> {
        let register = self.clone();
        let revoked = blocking(move || register.revoked()).await?;
        let denied = Denied::of_lines(revoked.keys());
        denied.map_err(|fault| RegisterError::Unavailable(fault.to_string()))
    }
}

async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, RegisterError> + Send + 'static,
) -> Result<T, RegisterError> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|fault| Err(RegisterError::Unavailable(fault.to_string())))
}

fn write_private(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let mut options = fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

fn broken(path: &Path, fault: &dyn std::fmt::Display) -> RegisterError {
    RegisterError::Unavailable(format!("{}: {fault}", path.display()))
}

fn now() -> WallMillis {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    WallMillis(u64::try_from(since.as_millis()).unwrap_or_default())
}

fn stored(token: &JoinToken) -> Token {
    Token {
        hash: token.hash.to_string(),
        role: token.role.to_string(),
        name: token.name.as_ref().map(ToString::to_string),
        expires_ms: token.expires.0,
        uses_left: token.uses_left,
        uses: token.uses.iter().map(|one| (one.key.to_string(), one.name.to_string())).collect(),
    }
}

fn token_of(id: &str, token: &Token) -> Option<JoinToken> {
    let used = |(key, name): &(String, String)| Use {
        key: Arc::from(key.as_str()),
        name: Arc::from(name.as_str()),
    };
    Some(JoinToken {
        id: EntryName::new(id).ok()?,
        hash: Arc::from(token.hash.as_str()),
        role: Arc::from(token.role.as_str()),
        name: token.name.as_deref().map(Arc::from),
        expires: WallMillis(token.expires_ms),
        uses_left: token.uses_left,
        uses: token.uses.iter().map(used).collect(),
    })
}
