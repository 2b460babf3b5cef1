//! Reads the message schemas in the project's notation and writes the Rust code of the `wire` crate.
//!
//! Lives on no core: it runs in the build script of `wire`, and its parser also serves the tests of `wire`, which make
//! bytes from the schemas without going through the generated code. It does not know of files, of the runtime half of the
//! codec, or of what any message is for.
//!
//! # The notation
//!
//! One file holds one or more messages, separated by blank lines. A message begins with a line in the first column:
//!
//! ```text
//! request FetchRequest 1 versions 4-18 flexible 12+ listeners broker,controller
//! ```
//!
//! that is: kind (`request`, `response`, `data`, `record`, `key`, `value`), name, number of the API or record type if it
//! has one, valid versions, versions in the flexible encoding (KIP-482), then the optional words `unstable` (the latest
//! version is not finished and must not be advertised) and `listeners`.
//!
//! Fields follow, indented by two spaces per level; the fields of a field's own struct stand below it:
//!
//! ```text
//!   Topics []FetchTopic 0+
//!     Topic string 0-12 ignorable
//!     Partitions []FetchPartition 0+
//!       HighWatermark int64 18+ tag 1 18+ = 9223372036854775807 ignorable
//! ```
//!
//! that is: name, type, versions, then in this order what applies of
//!
//! - `null VERSIONS`: versions in which the value may be null;
//! - `tag N VERSIONS`: number in the tagged section, and the versions in which it stands there;
//! - `= DEFAULT`: a number, `true`, a quoted string or `null`; without it the default is 0, false, "" or empty;
//! - `ignorable`: a value set in a version that lacks the field is dropped silently instead of being an error;
//! - `key`: the field is (part of) the key of the array it stands in;
//! - `entity KIND`: what the value names;
//! - `flexible VERSIONS`: overrides the message's flexible versions for this field.
//!
//! A struct that several fields share is written once, after the fields, as `struct NAME VERSIONS` with its fields below.
//! Versions are `N`, `N-M`, `N+` or `none`.
//!
//! Types are `bool int8 int16 uint16 int32 uint32 int64 float64 uuid string bytes records`, a struct's name, and `[]` in
//! front of one of these.
//!
//! The error table has one error per line: code, name, and `retriable` where a client may try again.

mod emit;
mod emit_api;
mod emit_field;
mod emit_union;
mod model;
mod names;
mod parse;

pub use model::{Default, Field, Kind, Message, Scalar, Struct, Type, Versions};
pub use names::snake_case;
pub use parse::{SchemaError, parse_messages};

/// The text of one schema file and the name under which errors mention it. For record schemas the name's stem is the
/// family: `metadata`, `group`, `txn`, `share`, `tiered`, `control`, ...
#[derive(Clone, Debug)]
pub struct SchemaFile {
    /// Name without directory and extension.
    pub stem: String,
    /// True for what is stored in logs and files, false for requests and responses.
    pub is_record: bool,
    /// The whole text.
    pub text: String,
}

/// Everything the build script writes.
#[derive(Clone, Debug)]
pub struct Generated {
    /// Message modules, record enums, the API table and the error codes.
    pub library: String,
    /// For tests: a table of all messages with functions that decode and encode by name.
    pub registry: String,
}

/// Generates the code for all schemas and the error table.
pub fn generate(files: &[SchemaFile], errors: &str) -> Result<Generated, SchemaError> {
    let mut library = String::new();
    let mut families = Vec::new();
    let mut messages = Vec::new();
    for file in files {
        let parsed = parse_messages(&file.stem, &file.text)?;
        for message in &parsed {
            emit::message_module(&mut library, message, file.is_record);
        }
        if file.is_record {
            families.push((file.stem.clone(), parsed.clone()));
        }
        messages.extend(parsed);
    }
    for (family, members) in &families {
        emit_union::family(&mut library, family, members);
    }
    emit_api::api_table(&mut library, &messages);
    emit_api::error_codes(&mut library, errors)?;
    let registry = emit_api::registry(&messages);
    Ok(Generated { library, registry })
}
