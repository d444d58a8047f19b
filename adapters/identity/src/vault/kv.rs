//! Values of Vault's key/value engine, versions 1 and 2.
//!
//! ```text
//!   version 1   GET <mount>/<path>        {"data": {"<field>": "<value>"}}
//!   version 2   GET <mount>/data/<path>   {"data": {"data": {"<field>": "<value>"}, "metadata": {..}}}
//! ```

use serde_json::{Map, Value};
use zeroize::Zeroizing;

use super::session::Session;
use super::wire::{Failure, Fault};
use super::{Auth, BadSettings};

/// Fields named in one message.
const MOST_FIELDS_SHOWN: usize = 10;

/// The shape of an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Engine {
    /// Version 1.
    One,
    /// Version 2.
    Two,
}

/// The kind of failure, as it is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ReadFault {
    /// Nothing is there, or it was deleted.
    Missing,
    /// Our login may not read it, or there is no login.
    Forbidden,
    /// Vault is sealed.
    Sealed,
    /// What is there has no such field, or not as a text.
    Field,
    /// Vault does not answer, or not now.
    Away,
}

/// Why there is no value.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct ReadError {
    /// What kind of failure.
    pub fault: ReadFault,
    /// The whole reason, without anything secret.
    pub text: String,
}

/// Reads values.
#[derive(Debug)]
pub struct KvReader {
    session: Session,
    address: String,
}

impl KvReader {
    /// Asks nothing yet.
    pub fn new(address: &str, auth: Auth) -> Result<Self, BadSettings> {
        Ok(Self { session: Session::new(address, auth)?, address: address.to_owned() })
    }

    /// The field of what is at `path`, which begins with the mount and, for version 2, has `data` in it.
    pub async fn read(
        &self,
        path: &str,
        engine: Engine,
        field: &str,
    ) -> Result<Zeroizing<Vec<u8>>, ReadError> {
        let mut answered = self.ask(path).await;
        if let Err(Failure { fault: Fault::Forbidden, .. }) = &answered {
            // The login may have been revoked; the next one tells.
            self.session.forget().await;
            answered = self.ask(path).await;
        }
        let answer = answered.map_err(|failure| self.failed(path, failure))?;
        let data = match engine {
            Engine::One => answer.get("data"),
            Engine::Two => answer.get("data").and_then(|data| data.get("data")),
        };
        let missing = || ReadError {
            fault: ReadFault::Missing,
            text: format!("Vault at {} has no value at {path}", self.address),
        };
        let fields = data.and_then(Value::as_object).ok_or_else(missing)?;
        value_of(path, fields, field)
    }

    async fn ask(&self, path: &str) -> Result<Value, Failure> {
        let login = self.session.login().await?;
        self.session.vault().read(&login, path).await
    }

    fn failed(&self, path: &str, Failure { fault, text }: Failure) -> ReadError {
        let address = &self.address;
        let (fault, text) = match fault {
            Fault::Away if text.to_ascii_lowercase().contains("sealed") => {
                (ReadFault::Sealed, format!("Vault at {address} is sealed: {text}"))
            }
            Fault::Away => (ReadFault::Away, text),
            Fault::Forbidden => {
                let text = format!("permission denied: Vault does not let us read {path}: {text}");
                (ReadFault::Forbidden, text)
            }
            Fault::NoSuchPath => {
                (ReadFault::Missing, format!("Vault at {address} has nothing at {path}: {text}"))
            }
            Fault::Refused => (ReadFault::Away, text),
        };
        ReadError { fault, text }
    }
}

/// Texts as they are, numbers and truth values as JSON writes them.
fn value_of(
    path: &str,
    fields: &Map<String, Value>,
    field: &str,
) -> Result<Zeroizing<Vec<u8>>, ReadError> {
    let wrong = |text| Err(ReadError { fault: ReadFault::Field, text });
    match fields.get(field) {
        Some(Value::String(text)) => Ok(Zeroizing::new(text.as_bytes().to_vec())),
        Some(value @ (Value::Number(_) | Value::Bool(_))) => {
            Ok(Zeroizing::new(value.to_string().into_bytes()))
        }
        Some(Value::Null | Value::Array(_) | Value::Object(_)) => {
            wrong(format!("the field {field} at {path} in Vault is not a text"))
        }
        None => {
            let known: Vec<_> = fields.keys().take(MOST_FIELDS_SHOWN).cloned().collect();
            let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
            wrong(format!("what is at {path} in Vault has no field {field}; its fields: {known}"))
        }
    }
}
