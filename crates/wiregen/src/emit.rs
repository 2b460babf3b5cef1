use std::fmt::Write;

use crate::emit_field::{FieldCode, When, when};
use crate::model::{Kind, Message, Struct, Type, Versions};
use crate::names::snake_case;

/// Writes one line of code; writing to a string cannot fail.
macro_rules! line {
    ($out:expr, $($arg:tt)*) => { writeln!($out, $($arg)*).expect("writing to a String cannot fail") };
}
pub(crate) use line;

/// Lints that generated code need not please.
pub(crate) const ALLOW: &str = "#[allow(unused_variables, unused_mut, unused_imports, clippy::all)]";

/// The module of one message: its structs with their codec, and the constants of the message.
pub(crate) fn message_module(out: &mut String, message: &Message, is_record: bool) {
    let what = match (message.kind, message.number) {
        (Kind::Request, Some(n)) => format!("request of API {n}"),
        (Kind::Response, Some(n)) => format!("response of API {n}"),
        (Kind::Record, Some(n)) => format!("record type {n}"),
        (Kind::Key, Some(n)) => format!("key of record type {n}"),
        (Kind::Value, Some(n)) => format!("value of record type {n}"),
        _ => "data".into(),
    };
    let (versions, flexible) = (message.versions, message.flexible);
    line!(out, "/// `{}`: {what}; versions {versions}, flexible {flexible}.", message.name);
    line!(out, "{ALLOW}");
    line!(out, "pub mod {} {{", snake_case(&message.name));
    line!(out, "use crate::codec::*;");
    for one in &message.structs {
        struct_type(out, message, one);
        default_impl(out, message, one);
        read_impl(out, message, one);
        write_impl(out, message, one);
        if is_record && message.borrows(&Type::Struct(one.name.clone())) {
            owned_impl(out, message, one);
        }
    }
    message_impl(out, message);
    line!(out, "}}");
}

fn fields<'m>(message: &'m Message, one: &'m Struct) -> Vec<FieldCode<'m>> {
    one.fields.iter().map(|field| FieldCode::new(message, one, field)).collect()
}

/// The struct's name with its lifetime, if it has one.
pub(crate) fn struct_path(message: &Message, name: &str, lifetime: &str) -> String {
    match message.borrows(&Type::Struct(name.to_string())) {
        true => format!("{name}<{lifetime}>"),
        false => name.to_string(),
    }
}

fn struct_type(out: &mut String, message: &Message, one: &Struct) {
    let fields = fields(message, one);
    let default = if fields.iter().all(FieldCode::default_is_rusts) { ", Default" } else { "" };
    line!(out, "/// `{}`, versions {}.", one.name, one.versions);
    line!(out, "#[derive(Clone, Debug, PartialEq{default})]");
    line!(out, "pub struct {} {{", struct_path(message, &one.name, "'a"));
    for field in &fields {
        line!(out, "/// {}.", field.doc());
        line!(out, "pub {}: {},", field.ident, field.rust_type());
    }
    line!(out, "}}");
}

fn default_impl(out: &mut String, message: &Message, one: &Struct) {
    let fields = fields(message, one);
    if fields.iter().all(FieldCode::default_is_rusts) {
        return;
    }
    line!(out, "impl Default for {} {{", struct_path(message, &one.name, "'_"));
    line!(out, "fn default() -> Self {{ Self {{");
    for field in &fields {
        line!(out, "{}: {},", field.ident, field.default_value());
    }
    line!(out, "}} }} }}");
}

fn read_impl(out: &mut String, message: &Message, one: &Struct) {
    let fields = fields(message, one);
    let min = message.wire_min_ever(&one.name);
    line!(out, "impl<'a> ReadItem<'a> for {} {{", struct_path(message, &one.name, "'a"));
    line!(out, "const WIRE_MIN: usize = {min};");
    line!(out, "fn read(r: &mut Reader<'a>, v: i16) -> Result<Self, DecodeError> {{");
    for field in fields.iter().filter(|f| f.field.tag.is_none()) {
        let value = match when(field.field.versions, one.versions) {
            When::Never => field.default_value(),
            When::Always => field.read_value(),
            When::If(condition) => {
                format!("if {condition} {{ {} }} else {{ {} }}", field.read_value(), field.default_value())
            }
        };
        line!(out, "let {} = {value};", field.ident);
    }
    read_tags(out, message, one, &fields);
    let names: Vec<&str> = fields.iter().map(|f| f.ident.as_str()).collect();
    line!(out, "Ok(Self {{ {} }})", names.join(", "));
    line!(out, "}} }}");
}

fn read_tags(out: &mut String, message: &Message, one: &Struct, fields: &[FieldCode<'_>]) {
    if matches!(when(message.flexible, one.versions), When::Never) {
        return;
    }
    let tagged: Vec<&FieldCode<'_>> = fields.iter().filter(|f| f.field.tag.is_some()).collect();
    if tagged.is_empty() {
        line!(out, "r.skip_tags()?;");
        return;
    }
    for field in &tagged {
        line!(out, "let mut {}: {} = {};", field.ident, field.rust_type(), field.default_value());
    }
    line!(out, "r.tags(&mut |r, tag| {{ match tag {{");
    for field in &tagged {
        let tag = field.field.tag.expect("only tagged fields are here");
        match when(field.field.versions, one.versions) {
            When::Never => {}
            When::Always => line!(out, "{tag} => {} = {},", field.ident, field.read_value()),
            When::If(condition) => {
                line!(out, "{tag} if {condition} => {} = {},", field.ident, field.read_value());
                line!(out, "{tag} => return Err(r.tag_not_in_version()),");
            }
        }
    }
    line!(out, "_ => return Ok(false), }} Ok(true) }})?;");
}

fn write_impl(out: &mut String, message: &Message, one: &Struct) {
    let mut fields = fields(message, one);
    line!(out, "impl WriteItem for {} {{", struct_path(message, &one.name, "'_"));
    line!(out, "fn write(&self, w: &mut Writer, v: i16) {{");
    for field in &fields {
        let write = if field.field.tag.is_some() { String::new() } else { field.write_value() };
        let unset = match field.field.ignorable {
            true => String::new(),
            false => {
                format!(" else if {} {{ w.not_in_version({:?}, v) }}", field.differs_from_default(), field.field.name)
            }
        };
        match when(field.field.versions, one.versions) {
            When::Never => {}
            When::Always if write.is_empty() => {}
            When::Always => line!(out, "{write};"),
            When::If(condition) => line!(out, "if {condition} {{ {write} }}{unset}"),
        }
    }
    fields.retain(|f| f.field.tag.is_some());
    fields.sort_by_key(|f| f.field.tag);
    write_tags(out, message, one.versions, &fields);
    line!(out, "}} }}");
}

fn write_tags(out: &mut String, message: &Message, within: Versions, tagged: &[FieldCode<'_>]) {
    let flexible = when(message.flexible, within);
    if matches!(flexible, When::Never) {
        return;
    }
    if tagged.is_empty() {
        line!(out, "w.no_tags();");
        return;
    }
    if let When::If(condition) = &flexible {
        line!(out, "if {condition} {{");
    }
    line!(out, "let tags = w.begin_tags();");
    for field in tagged {
        let tag = field.field.tag.expect("only tagged fields are here");
        let condition = match when(field.field.versions, within.and(message.flexible)) {
            When::Never => continue,
            When::Always => field.differs_from_default(),
            When::If(condition) => format!("{condition} && {}", field.differs_from_default()),
        };
        line!(out, "if {condition} {{ let tag = w.begin_tag(tags, {tag}); {}; w.end_tag(tag); }}", field.write_value());
    }
    if let When::If(_) = &flexible {
        line!(out, "}}");
    }
}

fn owned_impl(out: &mut String, message: &Message, one: &Struct) {
    let fields = fields(message, one);
    line!(out, "impl {} {{", struct_path(message, &one.name, "'_"));
    line!(out, "/// The same value, owning its text and bytes.");
    line!(out, "pub fn into_static(self) -> {} {{ {} {{", struct_path(message, &one.name, "'static"), one.name);
    for field in &fields {
        line!(out, "{}: {},", field.ident, field.owned_value());
    }
    line!(out, "}} }} }}");
}

fn message_impl(out: &mut String, message: &Message) {
    line!(out, "impl Message for {} {{", struct_path(message, &message.name, "'_"));
    line!(out, "const NAME: &'static str = {:?};", message.name);
    line!(out, "const VERSION_MIN: i16 = {};", message.versions.lo);
    line!(out, "const VERSION_MAX: i16 = {};", message.versions.hi);
    let flexible_from = if message.flexible.is_empty() { i16::MAX } else { message.flexible.lo };
    line!(out, "const FLEXIBLE_FROM: i16 = {flexible_from};");
    line!(out, "}}");
}
