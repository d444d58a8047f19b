//! The secrets of an intent as they are on disk: sealed with a key of this agent's own, so that a
//! node that was switched off can start its work again without a scheduler, and a ledger that is
//! copied away tells nothing.

use std::collections::BTreeMap;
use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use persys_model::id::{SecretName, WorkloadId};
use persys_model::secret::{Envelope, Redacted, SecretValue, SecretValues};
use persys_model::token::Epoch;
use persys_seal::Keys;
use serde::{Deserialize, Serialize};

/// An envelope, in base64.
#[derive(Serialize, Deserialize)]
pub(super) struct Sealed {
    key: String,
    wrapped: String,
    body: String,
}

/// What is sealed.
#[derive(Serialize, Deserialize)]
struct Kept {
    version: u64,
    value: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    problem: Option<Arc<str>>,
}

pub(super) fn seal(
    workload: &WorkloadId,
    epoch: Epoch,
    values: &SecretValues,
    keys: &Keys,
) -> Result<Option<Sealed>, String> {
    if values.is_empty() {
        return Ok(None);
    }
    let value = |secret: &Result<SecretValue, Arc<str>>| match secret {
        Ok(SecretValue { version, value }) => {
            let value = STANDARD.encode(value.reveal());
            Kept { version: *version, value, problem: None }
        }
        Err(why) => Kept { version: 0, value: String::new(), problem: Some(Arc::clone(why)) },
    };
    let plain: BTreeMap<&str, Kept> =
        values.iter().map(|(name, secret)| (name.as_str(), value(secret))).collect();
    let plain = serde_json::to_vec(&plain).map_err(|error| error.to_string())?;
    let place = ["ledger", workload.as_str(), &epoch.0.to_string()];
    let envelope = keys.seal(&place, &plain).map_err(|error| error.to_string())?;
    Ok(Some(Sealed {
        key: envelope.key.to_string(),
        wrapped: STANDARD.encode(&envelope.wrapped),
        body: STANDARD.encode(&envelope.body),
    }))
}

/// The secrets of an intent. Those that do not open are not there: a start that needs them fails
/// and says so, and the scheduler's next order brings them.
pub(super) fn open(
    workload: &WorkloadId,
    epoch: Epoch,
    sealed: &Sealed,
    keys: &Keys,
) -> SecretValues {
    let opened = read(workload, epoch, sealed, keys);
    if opened.is_none() {
        tracing::error!(%workload, "its secrets in the ledger cannot be opened with this agent's key");
    }
    opened.unwrap_or_default()
}

fn read(workload: &WorkloadId, epoch: Epoch, sealed: &Sealed, keys: &Keys) -> Option<SecretValues> {
    let envelope = Envelope {
        key: sealed.key.as_str().into(),
        wrapped: STANDARD.decode(&sealed.wrapped).ok()?.into(),
        body: STANDARD.decode(&sealed.body).ok()?.into(),
        digest: "".into(),
    };
    let place = ["ledger", workload.as_str(), &epoch.0.to_string()];
    let plain = keys.open(&place, &envelope).ok()?;
    let values: BTreeMap<String, Kept> = serde_json::from_slice(&plain).ok()?;
    let one = |(name, Kept { version, value, problem }): (String, Kept)| {
        let value = Redacted::new(&STANDARD.decode(value).ok()?);
        let value = problem.map_or(Ok(SecretValue { version, value }), Err);
        Some((SecretName::new(&name).ok()?, value))
    };
    values.into_iter().map(one).collect()
}
