//! Records of an earlier system of this contract, which used the same keys.
//!
//! A store without a head has none of our records. What stands below its root then is somebody
//! else's, and the first node of ours to register would overwrite `/nodes/<id>`.

use persys_etcd::{KeyValue, Range};
use serde::Deserialize;

use super::Inner;
use crate::error::Error;

/// Folders that only the earlier system has.
const ITS_OWN: [&str; 2] = ["workloads-spec", "workloads-status"];
/// Folders that both have.
const SHARED: [&str; 3] = ["nodes", "workloads", "assignments"];
/// Records of a shared folder that are looked at.
const FEW: i64 = 16;

/// A record of the earlier system: it has no version, and one of these names.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Its {
    v: Option<u32>,
    node_id: Option<String>,
    workload_id: Option<String>,
    revision_id: Option<String>,
}

impl Inner {
    /// Refuses to begin where an earlier system has its records.
    pub(super) async fn refuse_earlier(&self) -> Result<(), Error> {
        for (folder, own) in
            ITS_OWN.iter().map(|name| (name, true)).chain(SHARED.iter().map(|name| (name, false)))
        {
            let (from, to) = self.keys.folder(folder);
            let range = Range { limit: FEW, ..Range::between(from, to) };
            let (found, _, _) = self.client.range(range).await.map_err(Error::unavailable)?;
            if let Some(kv) = found.iter().find(|kv| own || is_its(kv)) {
                return Err(Error::Earlier { key: String::from_utf8_lossy(&kv.key).into_owned() });
            }
        }
        Ok(())
    }
}

fn is_its(kv: &KeyValue) -> bool {
    serde_json::from_slice::<Its>(&kv.value).is_ok_and(|its| {
        its.v.is_none()
            && (its.node_id.is_some() || its.workload_id.is_some() || its.revision_id.is_some())
    })
}
