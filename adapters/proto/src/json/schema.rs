//! What the contract says about a message.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use prost::Message as _;
use prost_types::field_descriptor_proto::{Label, Type};
use prost_types::{
    DescriptorProto, EnumDescriptorProto, FieldDescriptorProto, FileDescriptorSet,
    MethodDescriptorProto,
};

/// The one message whose JSON is not an object.
pub(super) const TIMESTAMP: &str = ".google.protobuf.Timestamp";

/// By full names, without a dot in front.
#[derive(Default)]
struct Schema {
    messages: BTreeMap<String, DescriptorProto>,
    enums: BTreeMap<String, EnumDescriptorProto>,
    methods: BTreeMap<String, MethodDescriptorProto>,
}

fn schema() -> &'static Schema {
    static SCHEMA: OnceLock<Schema> = OnceLock::new();
    SCHEMA.get_or_init(|| {
        let mut schema = Schema::default();
        let files = FileDescriptorSet::decode(crate::DESCRIPTOR).unwrap_or_default();
        for file in files.file {
            let package = file.package().to_owned();
            for one in file.enum_type {
                schema.enums.insert(format!("{package}.{}", one.name()), one);
            }
            for one in file.message_type {
                add(&mut schema, &package, one);
            }
            for service in file.service {
                let service_name = format!("{package}.{}", service.name());
                for one in service.method {
                    schema.methods.insert(format!("/{service_name}/{}", one.name()), one);
                }
            }
        }
        schema
    })
}

fn add(schema: &mut Schema, outer: &str, message: DescriptorProto) {
    let name = format!("{outer}.{}", message.name());
    for one in &message.enum_type {
        schema.enums.insert(format!("{name}.{}", one.name()), one.clone());
    }
    for one in &message.nested_type {
        add(schema, &name, one.clone());
    }
    schema.messages.insert(name, message);
}

/// The message with this full name, with or without the dot in front.
pub(super) fn of(name: &str) -> Option<&'static DescriptorProto> {
    schema().messages.get(bare(name))
}

/// The name without the dot that says that it is a full one.
fn bare(name: &str) -> &str {
    name.strip_prefix('.').unwrap_or(name)
}

/// The method at this path, `/package.Service/Method`.
pub(super) fn method(path: &str) -> Option<&'static MethodDescriptorProto> {
    schema().methods.get(path)
}

/// The numbers and names of an enum.
pub(super) fn enum_values(name: &str) -> Vec<(&'static str, i32)> {
    let found = schema().enums.get(bare(name));
    let values = found.map(|one| one.value.as_slice()).unwrap_or_default();
    values.iter().map(|value| (value.name(), value.number())).collect()
}

/// The name of one value of an enum.
pub(super) fn enum_word(name: &str, number: i64) -> Option<&'static str> {
    let mut values = schema().enums.get(bare(name))?.value.iter();
    let found = values.find(|value| i64::from(value.number()) == number)?;
    Some(found.name())
}

/// What a field holds, once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Holds {
    Text,
    Bytes,
    Flag,
    /// A whole number: bits, signed or not.
    Number {
        bits: u8,
        signed: bool,
    },
    Fraction,
    Choice(&'static str),
    Message(&'static str),
}

/// What the field holds; `None` for what the contract does not use.
pub(super) fn holds(field: &'static FieldDescriptorProto) -> Option<Holds> {
    Some(match field.r#type() {
        Type::String => Holds::Text,
        Type::Bytes => Holds::Bytes,
        Type::Bool => Holds::Flag,
        Type::Int32 => Holds::Number { bits: 32, signed: true },
        Type::Int64 => Holds::Number { bits: 64, signed: true },
        Type::Uint32 => Holds::Number { bits: 32, signed: false },
        Type::Uint64 => Holds::Number { bits: 64, signed: false },
        Type::Double => Holds::Fraction,
        Type::Enum => Holds::Choice(field.type_name()),
        Type::Message => Holds::Message(field.type_name()),
        Type::Float
        | Type::Fixed32
        | Type::Fixed64
        | Type::Sfixed32
        | Type::Sfixed64
        | Type::Sint32
        | Type::Sint64
        | Type::Group => return None,
    })
}

/// Whether the field may stand several times.
pub(super) fn repeated(field: &FieldDescriptorProto) -> bool {
    field.label() == Label::Repeated
}

/// The entry of a map, if that is what a field holds: the map has texts as keys everywhere.
pub(super) fn map_entry(name: &str) -> Option<&'static DescriptorProto> {
    of(name).filter(|message| {
        message.options.as_ref().is_some_and(prost_types::MessageOptions::map_entry)
    })
}

/// `host_port` as `hostPort`.
pub(super) fn camel(name: &str) -> String {
    let mut camel = String::with_capacity(name.len());
    let mut upper = false;
    for letter in name.chars() {
        if letter == '_' {
            upper = true;
        } else if upper {
            camel.extend(letter.to_uppercase());
            upper = false;
        } else {
            camel.push(letter);
        }
    }
    camel
}
