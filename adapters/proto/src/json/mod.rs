//! Messages as JSON, both ways, by the contract's own description.
//!
//! People write and read messages as JSON and YAML. What can be written is exactly what the
//! contract has: an unknown key, a value of another type and a doubled key are faults, all named
//! at once with their paths. Keys may be written as in the contract (`host_port`) or in camel case
//! (`hostPort`); they are shown in either way, as [`Style`] says.

mod bytes;
mod describe;
mod diff;
mod read;
mod schema;
#[cfg(test)]
mod tests;
mod write;

pub use describe::{Method, method, schema};
pub use diff::{Difference, diff};
use persys_model::fault::Faults;
pub use prost::Message;
use serde_json::Value;

/// How a message is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// As the contract names it, numbers as numbers.
    Plain,
    /// As existing clients of this kind show it: camel case, 64-bit numbers as text.
    Camel,
    /// As existing clients over HTTP read it: the contract's names, 64-bit numbers as text.
    Snake,
}

/// The message as JSON; what is zero is left out. `name` is its full name, such as
/// `persys.control.v1.NodeView`.
pub fn write<M: Message>(name: &str, message: &M, style: Style) -> Value {
    write::message(name, &message.encode_to_vec(), style)
}

/// The same of a message in its binary form.
#[must_use]
pub fn write_bytes(name: &str, bytes: &[u8], style: Style) -> Value {
    write::message(name, bytes, style)
}

/// The binary form of the message a value means, or everything that is wrong with it.
pub fn read_bytes(name: &str, path: &str, value: &Value) -> Result<Vec<u8>, Faults> {
    let mut faults = Faults::none();
    let bytes = read::message(&mut faults, name, path, value);
    if faults.is_empty() { Ok(bytes) } else { Err(faults) }
}

/// The message a value means, or everything that is wrong with it. Paths begin with `path`, which
/// may be empty.
pub fn read<M: Message + Default>(name: &str, path: &str, value: &Value) -> Result<M, Faults> {
    let mut faults = Faults::none();
    let bytes = read::message(&mut faults, name, path, value);
    if !faults.is_empty() {
        return Err(faults);
    }
    M::decode(bytes.as_slice()).map_err(|why| {
        faults.push(path, format!("is not a {name}: {why}"));
        faults
    })
}

/// The keys a message has, as the contract names them.
#[must_use]
pub fn keys(name: &str) -> Vec<&'static str> {
    schema::of(name)
        .map(|message| message.field.iter().map(prost_types::FieldDescriptorProto::name).collect())
        .unwrap_or_default()
}
