//! How answers look.

pub(crate) mod describe;
pub(crate) mod event;
pub(crate) mod history;
pub(crate) mod link;
pub(crate) mod moment;
pub(crate) mod node;
pub(crate) mod plan;
pub(crate) mod table;
pub(crate) mod why;
pub(crate) mod workload;

use persys_proto::json::{self, Style};
use serde_json::Value;

use crate::args::Output;

/// A value as a program reads it, with the line's end.
pub(crate) fn data(value: &Value, output: Output) -> String {
    match output {
        Output::Yaml => serde_saphyr::to_string(value).unwrap_or_else(|_| format!("{value:#}\n")),
        Output::Json | Output::Table | Output::Wide => format!("{value:#}\n"),
    }
}

/// A message of the control package as a value.
pub(crate) fn control<M: json::Message>(name: &str, message: &M) -> Value {
    json::write(&format!("persys.control.v1.{name}"), message, Style::Plain)
}

/// A message of the compute package as a value.
pub(crate) fn compute<M: json::Message>(name: &str, message: &M) -> Value {
    json::write(&format!("persys.compute.v1.{name}"), message, Style::Plain)
}
