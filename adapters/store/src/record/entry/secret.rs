//! `/secrets/<namespace>.<name>`: ciphertext, and who set it when.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use persys_model::entry::SecretEntry;
use persys_model::entry::vault::{KvVersion, OnChange, VaultPath, VaultSource};
use persys_model::id::{NamespaceName, SecretName};
use persys_model::secret::Envelope;
use persys_model::time::WallMillis;
use serde::{Deserialize, Serialize};

use crate::record::{Record, VERSION, name};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct SecretShape {
    v: u32,
    namespace: Arc<str>,
    name: Arc<str>,
    version: u64,
    set_at: u64,
    set_by: Arc<str>,
    key: Arc<str>,
    wrapped: String,
    sealed: String,
    digest: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    vault: Option<VaultShape>,
}

#[derive(Debug, Serialize, Deserialize)]
struct VaultShape {
    mount: Arc<str>,
    path: Arc<str>,
    field: Arc<str>,
    kv_version: u32,
    on_change: Arc<str>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    fetched_at: Option<u64>,
}

impl VaultShape {
    fn of(source: &VaultSource) -> Self {
        let VaultSource { at, on_change, fetched_at } = source;
        Self {
            mount: Arc::from(at.mount()),
            path: Arc::from(at.path()),
            field: Arc::from(at.field()),
            kv_version: at.version().number(),
            on_change: Arc::from(on_change.word()),
            fetched_at: fetched_at.map(|moment| moment.0),
        }
    }

    fn read(self) -> Result<VaultSource, String> {
        let version = KvVersion::of(self.kv_version).ok_or("kv_version is neither 1 nor 2")?;
        let at = VaultPath::new(&self.mount, &self.path, &self.field, version);
        Ok(VaultSource {
            at: at.map_err(|fault| format!("vault: {fault}"))?,
            on_change: OnChange::of(&self.on_change).ok_or("on_change is not known")?,
            fetched_at: self.fetched_at.map(WallMillis),
        })
    }
}

impl Record for SecretEntry {
    type Shape = SecretShape;

    fn shape(&self) -> SecretShape {
        let Self { namespace, name, version, set_at, set_by, sealed, vault } = self;
        let Envelope { key, wrapped, body, digest } = sealed;
        SecretShape {
            v: VERSION,
            namespace: Arc::from(namespace.as_str()),
            name: Arc::from(name.as_str()),
            version: *version,
            set_at: set_at.0,
            set_by: Arc::clone(set_by),
            key: Arc::clone(key),
            wrapped: STANDARD.encode(wrapped),
            sealed: STANDARD.encode(body),
            digest: Arc::clone(digest),
            vault: vault.as_ref().map(VaultShape::of),
        }
    }

    fn version(shape: &SecretShape) -> u32 {
        shape.v
    }

    fn read(shape: SecretShape) -> Result<Self, String> {
        let bytes = |text: &str| STANDARD.decode(text).ok().ok_or("is not base64 where it should");
        Ok(Self {
            namespace: name("namespace", &shape.namespace, NamespaceName::new)?,
            name: name("name", &shape.name, SecretName::new)?,
            version: shape.version,
            set_at: WallMillis(shape.set_at),
            set_by: shape.set_by,
            sealed: Envelope {
                key: shape.key,
                wrapped: bytes(&shape.wrapped)?.into(),
                body: bytes(&shape.sealed)?.into(),
                digest: shape.digest,
            },
            vault: shape.vault.map(VaultShape::read).transpose()?,
        })
    }
}
