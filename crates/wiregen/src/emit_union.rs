use std::fmt::Write;

use crate::emit::{ALLOW, line, struct_path};
use crate::model::{Kind, Message, Type};
use crate::names::snake_case;

/// The enums over all records of a family, in the module `<family>_record`. Families that are no record log of their own
/// have none.
pub(crate) fn family(out: &mut String, family: &str, members: &[Message]) {
    let (title, about) = match family {
        "metadata" => ("Metadata", "records of the `__cluster_metadata` log and its snapshots"),
        "tiered" => ("Tiered", "records of the `__remote_log_metadata` topic (KIP-405)"),
        "group" => ("Group", "records of the `__consumer_offsets` topic"),
        "txn" => ("Txn", "records of the `__transaction_state` topic"),
        "share" => ("Share", "records of the `__share_group_state` topic (KIP-932)"),
        _ => return,
    };
    line!(out, "/// The {about}.");
    line!(out, "{ALLOW}");
    line!(out, "pub mod {family}_record {{");
    line!(out, "use crate::codec::*;");
    line!(out, "use crate::record_frame::*;");
    for (kind, name, suffix) in
        [(Kind::Record, "Record", "Record"), (Kind::Key, "Key", "Key"), (Kind::Value, "Value", "Value")]
    {
        let of_kind: Vec<&Message> = members.iter().filter(|m| m.kind == kind).collect();
        if !of_kind.is_empty() {
            union(out, &format!("{title}{name}"), suffix, kind, &of_kind);
        }
    }
    line!(out, "}}");
}

fn union(out: &mut String, name: &str, suffix: &str, kind: Kind, members: &[&Message]) {
    let borrows = members.iter().any(|m| m.borrows(&Type::Struct(m.name.clone())));
    let (of_a, of_static) = if borrows { ("<'a>", "<'static>") } else { ("", "") };
    let path =
        |m: &Message, lifetime: &str| format!("crate::{}::{}", snake_case(&m.name), struct_path(m, &m.name, lifetime));
    let variant = |m: &Message| m.name.strip_suffix(suffix).unwrap_or(&m.name).to_string();
    line!(out, "/// One of the {} types.", members.len());
    line!(out, "#[derive(Clone, Debug, PartialEq)]");
    line!(out, "pub enum {name}{of_a} {{");
    for m in members {
        line!(out, "/// Type {}, versions {}.", m.number.unwrap_or(-1), m.versions);
        line!(out, "{}({}),", variant(m), path(m, "'a"));
    }
    line!(out, "}}");
    line!(out, "impl<'a> TypedRecord<'a> for {name}{of_a} {{");
    per_member(out, "fn type_id(&self) -> i16", members, &variant, |m| m.number.unwrap_or(-1).to_string());
    per_member(out, "fn name(&self) -> &'static str", members, &variant, |m| format!("{:?}", m.name));
    per_member(out, "fn version_max(&self) -> i16", members, &variant, |m| m.versions.hi.to_string());
    line!(out, "fn decode_body(type_id: i16, r: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {{");
    line!(out, "match type_id {{");
    for m in members {
        line!(out, "{} => Ok(Self::{}(Decode::decode(r, version)?)),", m.number.unwrap_or(-1), variant(m));
    }
    line!(out, "_ => Err(r.unknown_record_type()), }} }}");
    line!(out, "fn encode_body(&self, w: &mut Writer, version: i16) -> Result<(), EncodeError> {{ match self {{");
    for m in members {
        line!(out, "Self::{}(x) => x.encode(w, version),", variant(m));
    }
    line!(out, "}} }} }}");
    line!(out, "impl{of_a} {name}{of_a} {{");
    inherent(out, kind, borrows);
    line!(out, "/// The same record, owning its text and bytes.");
    line!(out, "pub fn into_static(self) -> {name}{of_static} {{ match self {{");
    for m in members {
        let own = if m.borrows(&Type::Struct(m.name.clone())) { ".into_static()" } else { "" };
        line!(out, "Self::{0}(x) => {name}::{0}(x{own}),", variant(m));
    }
    line!(out, "}} }} }}");
    for m in members {
        let from = path(m, "'a");
        line!(out, "impl<'a> From<{from}> for {name}{of_a} {{");
        line!(out, "fn from(x: {from}) -> Self {{ Self::{}(x) }} }}", variant(m));
    }
}

fn per_member(
    out: &mut String,
    head: &str,
    members: &[&Message],
    variant: &dyn Fn(&Message) -> String,
    value: impl Fn(&Message) -> String,
) {
    line!(out, "{head} {{ match self {{");
    for m in members {
        line!(out, "Self::{}(_) => {},", variant(m), value(m));
    }
    line!(out, "}} }}");
}

/// Decoding and encoding as the family stores it.
fn inherent(out: &mut String, kind: Kind, borrows: bool) {
    let code = match kind {
        Kind::Key => {
            "/// From a record's key: the type, then the body.\n\
             pub fn decode(key: &'a [u8]) -> Result<Self, DecodeError> { decode_key(key) }\n\
             /// As a record's key: the type, then the body.\n\
             pub fn encode(&self) -> Result<Vec<u8>, EncodeError> { encode_key(self) }"
        }
        Kind::Value => {
            "/// From a record's value, whose key has the given type: the version, then the body. Also gives the version.\n\
             pub fn decode(type_id: i16, value: &'a [u8]) -> Result<(Self, i16), DecodeError> { decode_value(type_id, value) }\n\
             /// As a record's value in the given version: the version, then the body.\n\
             pub fn encode(&self, version: i16) -> Result<Vec<u8>, EncodeError> { encode_value(self, version) }"
        }
        _ => {
            "/// From a record's value: frame version, type and version as varints, then the body. Also gives the version.\n\
             pub fn decode(value: &'a [u8]) -> Result<(Self, i16), DecodeError> { decode_framed(value) }\n\
             /// As a record's value in the given version: frame version, type and version as varints, then the body.\n\
             pub fn encode(&self, version: i16) -> Result<Vec<u8>, EncodeError> { encode_framed(self, version) }"
        }
    };
    line!(out, "{}", if borrows { code.to_string() } else { code.replace("&'a ", "&") });
    line!(out, "/// Number of the record type.");
    line!(out, "pub fn type_id(&self) -> i16 {{ TypedRecord::type_id(self) }}");
    line!(out, "/// Name of the schema.");
    line!(out, "pub fn name(&self) -> &'static str {{ TypedRecord::name(self) }}");
    line!(out, "/// Highest version of the record type.");
    line!(out, "pub fn version_max(&self) -> i16 {{ TypedRecord::version_max(self) }}");
}
