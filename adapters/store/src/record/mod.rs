//! What is stored, byte for byte: one file per noun.
//!
//! A stored record is one JSON object that an operator can read, with its version in `v`. The shapes
//! here are not the types of the model: a model type may change freely, a shape only by adding
//! fields that have a default, or by a new version. Whatever a shape does not know is found by
//! writing it again and comparing, so that fields of a newer release survive being rewritten.
//!
//! Beside its own fields a record may have the names that an operator of the earlier system knows
//! ([`Record::beside`]). They are made from the record whenever it is written, and never read.

mod assignment;
mod attachment;
mod audit;
mod beside;
mod drift;
mod entry;
mod event;
mod grave;
mod head;
mod history;
mod leader;
mod lease;
mod node;
mod reconciliation;
mod resources;
mod retry;
mod spec;
#[cfg(test)]
mod tests;
mod unknown;
mod volume;
mod workload;

use persys_model::id::NameError;
use serde::Serialize;
use serde::de::DeserializeOwned;

pub(crate) use audit::AuditHeadShape;
pub(crate) use beside::Beside;
pub(crate) use entry::{decode_entry, encode_entry};
pub use leader::Leader;
pub(crate) use reconciliation::encode_reconciliation;
pub use spec::StoredSpec;
pub(crate) use unknown::Unknown;

/// The version that is written, and the newest that is read.
pub(crate) const VERSION: u32 = 1;

/// A thing that is stored as one record.
pub(crate) trait Record: Sized {
    /// The stored form.
    type Shape: Serialize + DeserializeOwned;

    /// The stored form of this.
    fn shape(&self) -> Self::Shape;
    /// The version of a stored form.
    fn version(shape: &Self::Shape) -> u32;
    /// What a stored form means, or what is wrong with it.
    fn read(shape: Self::Shape) -> Result<Self, String>;

    /// Top-level names that [`Self::beside`] may write. None is a name of the shape.
    const BESIDE: &'static [&'static str] = &[];
    /// Writes the fields of the earlier system, from this record alone.
    fn beside(&self, fields: &mut Beside) {
        let _ = fields;
    }
}

/// The bytes of a record, with the fields of another release that it had before.
pub(crate) fn encode<R: Record>(
    record: &R,
    unknown: Option<&Unknown>,
) -> Result<Vec<u8>, serde_json::Error> {
    let bytes = match unknown {
        None => serde_json::to_vec(&record.shape()),
        Some(unknown) => {
            let mut value = serde_json::to_value(record.shape())?;
            unknown.merge_into(&mut value);
            serde_json::to_vec(&value)
        }
    }?;
    let mut fields = Beside::after(bytes);
    record.beside(&mut fields);
    Ok(fields.into_bytes())
}

/// A record and the fields that its shape does not know, or why it cannot be read.
///
/// The reason never quotes the record: it may hold secrets, and reasons are logged.
pub(crate) fn decode<R: Record>(bytes: &[u8]) -> Result<(R, Option<Unknown>), String> {
    if bytes.trim_ascii_start().first() == Some(&b'[') {
        // Fields without names would be taken by their order.
        return Err(NOT_OURS.to_owned());
    }
    let shape: R::Shape = serde_json::from_slice(bytes).map_err(|error| misfit(bytes, &error))?;
    let version = R::version(&shape);
    if version != VERSION {
        return Err(other_version(version));
    }
    let record = R::read(shape)?;
    let again = encode(&record, None).map_err(|error| misfit(bytes, &error))?;
    let unknown = if again == bytes { None } else { Unknown::between(bytes, &again, R::BESIDE) };
    Ok((record, unknown))
}

const NOT_OURS: &str = "is not a record of ours: it has no version";

fn other_version(version: u32) -> String {
    format!("has version {version}; this release reads version {VERSION}")
}

fn misfit(bytes: &[u8], error: &serde_json::Error) -> String {
    #[derive(serde::Deserialize)]
    struct Versioned {
        v: u32,
    }
    let (line, column) = (error.line(), error.column());
    match serde_json::from_slice::<Versioned>(bytes) {
        Ok(Versioned { v }) if v != VERSION => other_version(v),
        Ok(_) => {
            format!("is not a record of version {VERSION}: see line {line}, column {column}")
        }
        Err(other) if other.is_data() => NOT_OURS.to_owned(),
        Err(_) => format!("is not JSON: see line {line}, column {column}"),
    }
}

/// A checked name out of a stored text.
fn name<T>(
    field: &str,
    text: &str,
    make: impl FnOnce(&str) -> Result<T, NameError>,
) -> Result<T, String> {
    make(text).map_err(|error| format!("{field} {error}"))
}

/// `false` is not written.
#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(flag: &bool) -> bool {
    !*flag
}

/// A stored word for each variant of a model's enum, and the way back.
macro_rules! mirror {
    ($(#[$doc:meta])* $shape:ident of $model:ty { $($variant:ident),+ $(,)? }) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "snake_case")]
        pub(crate) enum $shape {
            $($variant),+
        }

        impl From<$model> for $shape {
            fn from(model: $model) -> Self {
                match model {
                    $(<$model>::$variant => Self::$variant),+
                }
            }
        }

        impl From<$shape> for $model {
            fn from(shape: $shape) -> Self {
                match shape {
                    $($shape::$variant => Self::$variant),+
                }
            }
        }
    };
}
use mirror;
