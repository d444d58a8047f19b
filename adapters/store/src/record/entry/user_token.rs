//! `/user-tokens/<id>`

use std::sync::Arc;

use persys_model::entry::{TokenHash, UserToken};
use persys_model::hex::{hex, unhex};
use persys_model::id::{EntryName, SubjectName};
use persys_model::time::WallMillis;
use serde::{Deserialize, Serialize};

use super::scope::{RoleShape, ScopeShape};
use crate::record::{Record, VERSION, name};

#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct UserTokenShape {
    v: u32,
    id: Arc<str>,
    user: Arc<str>,
    sha256: Arc<str>,
    role: RoleShape,
    scope: ScopeShape,
    created_at_ms: u64,
    expires_at_ms: u64,
}

impl Record for UserToken {
    type Shape = UserTokenShape;

    fn shape(&self) -> UserTokenShape {
        let Self { id, user, hash, role, scope, created_at, expires_at } = self;
        UserTokenShape {
            v: VERSION,
            id: Arc::from(id.as_str()),
            user: Arc::from(user.as_str()),
            sha256: Arc::from(hex(&hash.0)),
            role: (*role).into(),
            scope: scope.into(),
            created_at_ms: created_at.0,
            expires_at_ms: expires_at.0,
        }
    }

    fn version(shape: &UserTokenShape) -> u32 {
        shape.v
    }

    fn read(shape: UserTokenShape) -> Result<Self, String> {
        let hash = hash_of(&shape.sha256).ok_or("sha256 is not 64 digits in hex")?;
        Ok(Self {
            id: name("id", &shape.id, EntryName::new)?,
            user: name("user", &shape.user, SubjectName::new)?,
            hash: TokenHash(hash),
            role: shape.role.into(),
            scope: shape.scope.read()?,
            created_at: WallMillis(shape.created_at_ms),
            expires_at: WallMillis(shape.expires_at_ms),
        })
    }
}

fn hash_of(text: &str) -> Option<[u8; 32]> {
    unhex(text)?.try_into().ok()
}
