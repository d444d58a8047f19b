//! What the descriptor set offers on the wire, as plain facts in canonical order.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorProto,
    FileDescriptorSet, MessageOptions, MethodDescriptorProto,
};

/// Field or value by number, as text: `name: type`, with `in oneof` where it is a member of one.
pub(crate) type Rows = BTreeMap<i32, String>;

/// One package. Two sources produce it: the descriptor set, and the table written by hand.
#[derive(Debug, Default)]
pub(crate) struct Package {
    pub(crate) services: BTreeMap<String, BTreeMap<String, String>>,
    pub(crate) messages: BTreeMap<String, Rows>,
    pub(crate) enums: BTreeMap<String, Rows>,
}

/// Our packages by name. Imports (Timestamp) are not ours and are left out.
pub(crate) fn compiled() -> BTreeMap<String, Package> {
    let mut packages: BTreeMap<String, Package> = BTreeMap::new();
    for file in descriptors().file.iter().filter(|file| file.package().starts_with("persys.")) {
        // A package may have several files.
        let Package { services, messages, enums } = package(file);
        let all = packages.entry(file.package().to_owned()).or_default();
        all.services.extend(services);
        all.messages.extend(messages);
        all.enums.extend(enums);
    }
    packages
}

pub(crate) fn descriptors() -> FileDescriptorSet {
    FileDescriptorSet::decode(persys_proto::DESCRIPTOR).unwrap()
}

pub(crate) fn render(packages: &BTreeMap<String, Package>) -> String {
    let mut text = String::new();
    for (name, package) in packages {
        writeln!(text, "package {name}").unwrap();
        for (service, methods) in &package.services {
            writeln!(text, "\nservice {service}").unwrap();
            for (method, signature) in methods {
                writeln!(text, "  {method}: {signature}").unwrap();
            }
        }
        for (kind, items) in [("message", &package.messages), ("enum", &package.enums)] {
            for (item, rows) in items {
                writeln!(text, "\n{kind} {item}").unwrap();
                for (number, row) in rows {
                    writeln!(text, "  {number} {row}").unwrap();
                }
            }
        }
        text.push('\n');
    }
    text
}

fn package(file: &FileDescriptorProto) -> Package {
    assert_eq!(file.syntax(), "proto3", "{}", file.name());
    let mut package = Package::default();
    for service in &file.service {
        let methods = service.method.iter().map(|m| (m.name().to_owned(), signature(file, m)));
        package.services.insert(service.name().to_owned(), methods.collect());
    }
    for message in &file.message_type {
        assert!(message.enum_type.is_empty(), "{} nests an enum", message.name());
        for nested in &message.nested_type {
            let is_map = nested.options.as_ref().is_some_and(MessageOptions::map_entry);
            assert!(is_map, "{} nests {}", message.name(), nested.name());
        }
        let rows = message.field.iter().map(|f| (f.number(), row(file, message, f)));
        let previous = package.messages.insert(message.name().to_owned(), rows.collect());
        assert!(previous.is_none(), "{} is there twice", message.name());
    }
    for item in &file.enum_type {
        package.enums.insert(item.name().to_owned(), values(item));
    }
    package
}

fn signature(file: &FileDescriptorProto, method: &MethodDescriptorProto) -> String {
    let stream = |yes: bool| if yes { "stream " } else { "" };
    format!(
        "{}{} -> {}{}",
        stream(method.client_streaming()),
        short(file, method.input_type()),
        stream(method.server_streaming()),
        short(file, method.output_type()),
    )
}

fn values(item: &EnumDescriptorProto) -> Rows {
    item.value.iter().map(|value| (value.number(), value.name().to_owned())).collect()
}

fn row(
    file: &FileDescriptorProto,
    message: &DescriptorProto,
    field: &FieldDescriptorProto,
) -> String {
    let kind = match map_entry(message, field) {
        Some(entry) => {
            let [key, value] = entry.field.as_slice() else {
                panic!("{} is no map entry", entry.name());
            };
            format!("map<{},{}>", type_name(file, key), type_name(file, value))
        }
        None if field.label() == Label::Repeated => format!("repeated {}", type_name(file, field)),
        None if field.proto3_optional() => format!("optional {}", type_name(file, field)),
        None => type_name(file, field),
    };
    let oneof = match field.oneof_index {
        Some(index) => {
            format!(" in {}", message.oneof_decl[usize::try_from(index).unwrap()].name())
        }
        None => String::new(),
    };
    format!("{}: {kind}{oneof}", field.name())
}

fn map_entry<'a>(
    message: &'a DescriptorProto,
    field: &FieldDescriptorProto,
) -> Option<&'a DescriptorProto> {
    let name = field.type_name().rsplit('.').next()?;
    message.nested_type.iter().find(|nested| nested.name() == name)
}

fn type_name(file: &FileDescriptorProto, field: &FieldDescriptorProto) -> String {
    if matches!(field.r#type(), Type::Message | Type::Enum) {
        return short(file, field.type_name());
    }
    // `TYPE_INT64` is written `int64`.
    field.r#type().as_str_name().trim_start_matches("TYPE_").to_lowercase()
}

/// A name of the same package without its package; Timestamp as everyone says it.
fn short(file: &FileDescriptorProto, full: &str) -> String {
    if full == ".google.protobuf.Timestamp" {
        return "Timestamp".to_owned();
    }
    let own = format!(".{}.", file.package());
    full.strip_prefix(&own).unwrap_or(full).to_owned()
}
