//! What the tests of all schemas share: a table of the generated codecs, and bytes made from the schemas alone.

#![allow(dead_code)]

use std::path::{Path, PathBuf};

use bytes::Bytes;
use wire::{Decode, DecodeError, Encode, EncodeError, Reader, Writer};
use wiregen::{Message, parse_messages};

pub mod values;

/// One message with its generated codec.
pub struct Entry {
    pub name: &'static str,
    pub min: i16,
    pub max: i16,
    /// Decodes only; gives the number of bytes left.
    pub decode: fn(&Bytes, i16) -> Result<usize, DecodeError>,
    /// Decodes from one version and encodes in another.
    pub recode: fn(&Bytes, i16, i16) -> Result<Recoded, DecodeError>,
    /// Encodes the Rust default.
    pub encode_default: fn(i16) -> Result<Bytes, EncodeError>,
}

/// What is left after decoding, and the bytes of encoding again.
pub struct Recoded {
    pub remaining: usize,
    pub bytes: Result<Bytes, EncodeError>,
}

fn decode<'a, T: Decode<'a>>(frame: &'a Bytes, version: i16) -> Result<usize, DecodeError> {
    let mut r = Reader::new(frame);
    T::decode(&mut r, version)?;
    Ok(r.remaining())
}

fn recode<'a, T: Decode<'a> + Encode>(frame: &'a Bytes, from: i16, to: i16) -> Result<Recoded, DecodeError> {
    let mut r = Reader::new(frame);
    let message = T::decode(&mut r, from)?;
    Ok(Recoded { remaining: r.remaining(), bytes: encode(&message, to) })
}

fn encode_default<T: Default + Encode>(version: i16) -> Result<Bytes, EncodeError> {
    encode(&T::default(), version)
}

fn encode<T: Encode>(message: &T, version: i16) -> Result<Bytes, EncodeError> {
    let mut w = Writer::new();
    message.encode(&mut w, version)?;
    Ok(w.into_bytes().expect("decoding gives no external records"))
}

include!(concat!(env!("OUT_DIR"), "/registry.rs"));

/// The generated codec of a message.
pub fn entry(name: &str) -> &'static Entry {
    MESSAGES.iter().find(|entry| entry.name == name).expect("every schema is in the table")
}

/// All schemas, read anew from their files.
pub fn schemas() -> Vec<Message> {
    let mut messages = Vec::new();
    for part in ["api", "record"] {
        let entries = std::fs::read_dir(schema_folder().join(part)).expect("the schemas are committed");
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("readable").path()).collect();
        paths.sort();
        paths.iter().for_each(|path| messages.extend(parse_file(path)));
    }
    messages
}

/// The record schemas of one family.
pub fn family(name: &str) -> Vec<Message> {
    parse_file(&schema_folder().join("record").join(name).with_extension("schema"))
}

fn schema_folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("schemas")
}

fn parse_file(path: &Path) -> Vec<Message> {
    let text = std::fs::read_to_string(path).expect("readable");
    parse_messages(&path.to_string_lossy(), &text).expect("the build has parsed it")
}

/// The directory with the jars of Apache Kafka 4.4.0.
pub fn kafka_libs() -> PathBuf {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let libs =
        std::env::var_os("ODRADEK_KAFKA_LIBS").map_or_else(|| root.join(".cache/kafka-4.4.0/libs"), PathBuf::from);
    assert!(
        libs.join("kafka-clients-4.4.0.jar").exists(),
        "the jars of Apache Kafka 4.4.0 are not in {}: run scripts/install-peers, or set ODRADEK_KAFKA_LIBS",
        libs.display()
    );
    libs
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
