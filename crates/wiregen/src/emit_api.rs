use std::fmt::Write;

use crate::emit::{line, struct_path};
use crate::model::{Kind, Message, Type};
use crate::names::snake_case;
use crate::parse::SchemaError;

/// `ApiKey` and the facts of every API.
pub(crate) fn api_table(out: &mut String, messages: &[Message]) {
    let mut requests: Vec<&Message> = messages.iter().filter(|m| m.kind == Kind::Request).collect();
    requests.sort_by_key(|m| m.number);
    let name = |m: &Message| m.name.strip_suffix("Request").unwrap_or(&m.name).to_string();
    let key = |m: &Message| m.number.expect("a request has a number");
    line!(out, "/// Number of an API: the first field of every request header.");
    line!(out, "#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]");
    line!(out, "#[repr(u16)]");
    line!(out, "pub enum ApiKey {{");
    for m in &requests {
        line!(out, "/// Versions {}.\n{} = {},", m.versions, name(m), key(m));
    }
    line!(out, "}}");
    line!(out, "impl ApiKey {{");
    line!(out, "/// Every API, by ascending number.");
    let all: Vec<String> = requests.iter().map(|m| format!("ApiKey::{}", name(m))).collect();
    line!(out, "pub const ALL: [ApiKey; {}] = [{}];", requests.len(), all.join(", "));
    line!(out, "/// The API with this number, if there is one.");
    line!(out, "pub const fn from_i16(key: i16) -> Option<ApiKey> {{ Some(match key {{");
    for m in &requests {
        line!(out, "{} => ApiKey::{},", key(m), name(m));
    }
    line!(out, "_ => return None, }}) }}");
    line!(out, "/// The facts of this API.");
    line!(out, "pub const fn info(self) -> &'static ApiInfo {{ match self {{");
    for m in &requests {
        let stable = m.versions.hi - i16::from(m.unstable);
        let flexible_from = if m.flexible.is_empty() { i16::MAX } else { m.flexible.lo };
        let on = |listener: &str| m.listeners.iter().any(|l| l == listener);
        line!(
            out,
            "ApiKey::{0} => &ApiInfo {{ key: ApiKey::{0}, name: {0:?}, min: {1}, max_stable: {stable}, max_unstable: {2}, \
             flexible_from: {flexible_from}, on_broker: {3}, on_controller: {4} }},",
            name(m),
            m.versions.lo,
            m.versions.hi,
            on("broker"),
            on("controller")
        );
    }
    line!(out, "}} }} }}");
}

/// The constants of `ErrorCode` and their table.
pub(crate) fn error_codes(out: &mut String, table: &str) -> Result<(), SchemaError> {
    let mut rows = Vec::new();
    for (index, text) in table.lines().enumerate() {
        let mut words = text.split(' ');
        let code = words.next().and_then(|word| word.parse::<i16>().ok());
        let (Some(code), Some(name)) = (code, words.next()) else {
            let place = format!("errors.table:{}", index + 1);
            return Err(SchemaError { place, problem: "expected a code and a name".into() });
        };
        rows.push((code, name, words.next() == Some("retriable")));
    }
    line!(out, "impl ErrorCode {{");
    for (code, name, retriable) in &rows {
        let note = if *retriable { ", retriable" } else { "" };
        line!(out, "/// Code {code}{note}.\npub const {name}: ErrorCode = ErrorCode({code});");
    }
    line!(out, "/// Every error of the protocol, by ascending code.");
    let all: Vec<String> = rows.iter().map(|(_, name, _)| format!("ErrorCode::{name}")).collect();
    line!(out, "pub const ALL: [ErrorCode; {}] = [{}];", rows.len(), all.join(", "));
    line!(out, "/// The name in Kafka's protocol guide; `None` for a code that is not in it.");
    line!(out, "pub const fn name(self) -> Option<&'static str> {{ Some(match self.0 {{");
    for (code, name, _) in &rows {
        line!(out, "{code} => {name:?},");
    }
    line!(out, "_ => return None, }}) }}");
    line!(out, "/// True when a client may send the same request again and hope.");
    let retriable: Vec<String> = rows.iter().filter(|(.., retry)| *retry).map(|(code, ..)| code.to_string()).collect();
    line!(out, "pub const fn is_retriable(self) -> bool {{ matches!(self.0, {}) }}", retriable.join(" | "));
    line!(out, "}}");
    Ok(())
}

/// A table of all messages for tests: they include it beside `Entry`, `decode`, `recode` and `encode_default` of their own.
pub(crate) fn registry(messages: &[Message]) -> String {
    let mut out = String::new();
    line!(out, "pub static MESSAGES: &[Entry] = &[");
    for m in messages {
        let path = format!("wire::{}::{}", snake_case(&m.name), struct_path(m, &m.name, "'_"));
        line!(
            out,
            "Entry {{ name: {:?}, min: {}, max: {}, decode: |b, v| decode::<{path}>(b, v), recode: |b, from, to| recode::<{path}>(b, from, to), encode_default: |v| \
             encode_default::<{path}>(v) }},",
            m.name,
            m.versions.lo,
            m.versions.hi
        );
    }
    line!(out, "];");
    item_sizes(&mut out, messages);
    out
}

/// Name, bytes in memory and fewest bytes on the wire of every struct that stands in an array.
fn item_sizes(out: &mut String, messages: &[Message]) {
    line!(out, "pub static ITEMS: &[(&str, usize, usize)] = &[");
    for m in messages {
        let fields = m.structs.iter().flat_map(|s| &s.fields);
        let mut items: Vec<&Type> = fields
            .filter_map(|field| match &field.ty {
                Type::Array(element) if element.struct_name().is_some() => Some(&**element),
                _ => None,
            })
            .collect();
        items.sort_by_key(|ty| ty.struct_name());
        items.dedup();
        for ty in items {
            let name = ty.struct_name().unwrap_or_default();
            let path = format!("wire::{}::{}", snake_case(&m.name), struct_path(m, name, "'_"));
            line!(out, "(\"{}.{name}\", size_of::<{path}>(), {}),", m.name, m.wire_min_ever(name));
        }
    }
    line!(out, "];");
}
