//! What stands in the keys and values of records, by the log they come from.

use crate::json::{Malformed, Reader, message_json, object, string_json};
use records::Record;
use std::collections::BTreeMap;
use wiregen::{Kind, Message};

/// How keys and values are shown.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Decoder {
    /// As text.
    #[default]
    Text,
    /// Records of `__consumer_offsets`.
    Offsets,
    /// Records of `__transaction_state`.
    TransactionLog,
    /// Records of `__cluster_metadata` and of its snapshots.
    ClusterMetadata,
    /// Records of `__remote_log_metadata`.
    RemoteLogMetadata,
    /// Records of `__share_group_state`.
    ShareGroupState,
}

impl Decoder {
    /// The family of schemas, for the logs of coordinators.
    fn coordinator(self) -> Option<&'static str> {
        match self {
            Decoder::Offsets => Some("group"),
            Decoder::TransactionLog => Some("txn"),
            Decoder::ShareGroupState => Some("share"),
            Decoder::Text | Decoder::ClusterMetadata | Decoder::RemoteLogMetadata => None,
        }
    }
}

/// The schemas of all records.
#[derive(Debug)]
pub(crate) struct Schemas {
    families: BTreeMap<&'static str, Vec<Message>>,
}

impl Schemas {
    pub fn load() -> Schemas {
        let parse = |(family, text)| {
            let messages = wiregen::parse_messages(family, text)
                .unwrap_or_else(|e| panic!("the schemas are part of the program: {e}"));
            (family, messages)
        };
        Schemas { families: wire::schemas::RECORDS.into_iter().map(parse).collect() }
    }

    pub fn named(&self, family: &str, name: &str) -> Option<&Message> {
        self.families.get(family)?.iter().find(|m| m.name == name)
    }

    fn numbered(&self, family: &str, kind: Kind, number: i16) -> Option<&Message> {
        self.families.get(family)?.iter().find(|m| m.kind == kind && m.number == Some(number))
    }
}

/// A record's key and value, as far as there is something to show.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct Contents {
    pub key: Option<String>,
    pub value: Option<String>,
}

/// The contents of `record` in the words of `decoder`.
pub(crate) fn contents(schemas: &Schemas, decoder: Decoder, record: &Record<'_>) -> Contents {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if let Some(family) = decoder.coordinator() {
        return coordinator(schemas, family, record);
    }
    let value = record.value.unwrap_or_default();
    let failed = |e: Malformed| format!("Error at {}, skipping. {}", record.offset, e.0);
    match decoder {
        Decoder::ClusterMetadata => {
            let value = framed(schemas, "metadata", value).unwrap_or_else(failed);
            Contents { key: None, value: Some(value) }
        }
        Decoder::RemoteLogMetadata => {
            let value = framed_without_frame(schemas, "tiered", value).unwrap_or_else(failed);
            Contents { key: None, value: Some(value) }
        }
        _ => Contents { key: record.key.map(text), value: record.value.map(text) },
    }
}

/// The frame version in front of metadata records.
const FRAME_VERSION: u32 = 1;

fn framed(schemas: &Schemas, family: &str, value: &[u8]) -> Result<String, Malformed> {
    let mut reader = Reader::new(value);
    let frame = reader.uvarint()?;
    if frame != FRAME_VERSION {
        return Err(Malformed(format!("frame version {frame} is not supported")));
    }
    typed(schemas, family, &mut reader)
}

fn framed_without_frame(schemas: &Schemas, family: &str, value: &[u8]) -> Result<String, Malformed> {
    typed(schemas, family, &mut Reader::new(value))
}

/// Type and version as varints, then the body and nothing else.
fn typed(schemas: &Schemas, family: &str, reader: &mut Reader<'_>) -> Result<String, Malformed> {
    let (number, version) = (reader.uvarint()?, reader.uvarint()?);
    let known = i16::try_from(number).ok().and_then(|n| schemas.numbered(family, Kind::Record, n));
    let Some(message) = known else {
        return Err(Malformed(format!("record type {number} is not known")));
    };
    let version = i16::try_from(version).map_err(|_| Malformed(format!("there is no version {version}")))?;
    let data = message_json(message, version, reader)?;
    if reader.left() > 0 {
        return Err(Malformed(format!("{} bytes follow the record", reader.left())));
    }
    let name = string_json(&wiregen::snake_case(&message.name).to_ascii_uppercase());
    Ok(object([("type", name), ("version", version.to_string()), ("data", data)].into_iter()))
}

fn coordinator(schemas: &Schemas, family: &str, record: &Record<'_>) -> Contents {
    let offset = record.offset;
    let Some(key) = record.key else {
        return Contents { key: Some(format!("Error at offset {offset}, skipping. It has no key")), value: None };
    };
    let number = Reader::new(key).i16().unwrap_or(-1);
    let known = schemas.numbered(family, Kind::Key, number);
    let (Some(key_schema), Some(value_schema)) = (known, schemas.numbered(family, Kind::Value, number)) else {
        return Contents {
            key: Some(format!("Unknown record type {number} at offset {offset}, skipping.")),
            value: None,
        };
    };
    match coordinator_record(schemas, key_schema, value_schema, key, record.value) {
        Ok(contents) => contents,
        Err(e) => Contents { key: Some(format!("Error at offset {offset}, skipping. {}", e.0)), value: None },
    }
}

fn coordinator_record(
    schemas: &Schemas,
    key_schema: &Message,
    value_schema: &Message,
    key: &[u8],
    value: Option<&[u8]>,
) -> Result<Contents, Malformed> {
    let mut reader = Reader::new(key);
    let number = reader.i16()?;
    let data = message_json(key_schema, 0, &mut reader)?;
    let key = object([("type", string_json(&number.to_string())), ("data", data)].into_iter());
    let Some(value) = value else {
        return Ok(Contents { key: Some(key), value: Some("<DELETE>".to_owned()) });
    };
    let mut reader = Reader::new(value);
    let version = reader.i16()?;
    let mut data = message_json(value_schema, version, &mut reader)?;
    match value_schema.name.as_str() {
        "TransactionLogValue" => data = with_state_name(&data),
        "GroupMetadataValue" => data = with_protocols(schemas, &data),
        _ => {}
    }
    let value = object([("version", string_json(&version.to_string())), ("data", data)].into_iter());
    Ok(Contents { key: Some(key), value: Some(value) })
}

/// States of a transaction, by number.
const TRANSACTION_STATES: [&str; 8] = [
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
];

/// Names the state of a transaction, which the schema knows by number only.
fn with_state_name(data: &str) -> String {
    const FIELD: &str = "\"transactionStatus\":";
    let Some((before, after)) = data.split_once(FIELD) else {
        return data.to_owned();
    };
    let end = after.find([',', '}']).unwrap_or(after.len());
    let (number, rest) = after.split_at(end);
    let name = number.parse().ok().and_then(|n: usize| TRANSACTION_STATES.get(n)).map_or(number, |name| *name);
    format!("{before}{FIELD}\"{name}\"{rest}")
}

/// Shows what members of a classic consumer group subscribe to and are assigned, which Kafka keeps as bytes.
fn with_protocols(schemas: &Schemas, data: &str) -> String {
    if !data.contains("\"protocolType\":\"consumer\"") {
        return data.to_owned();
    }
    let mut out = data.to_owned();
    for (field, schema) in
        [("\"subscription\":\"", "ConsumerProtocolSubscription"), ("\"assignment\":\"", "ConsumerProtocolAssignment")]
    {
        let Some(message) = schemas.named("protocol", schema) else { continue };
        let mut parts = out.split(field);
        let mut next = parts.next().unwrap_or_default().to_owned();
        for part in parts {
            let (text, rest) = part.split_once('"').unwrap_or((part, ""));
            match protocol_json(message, text) {
                // The field's name without the quote that opened its value.
                Some(json) => next.extend([&field[..field.len() - 1], &json, rest]),
                None => next.extend([field, text, "\"", rest]),
            }
        }
        out = next;
    }
    out
}

fn protocol_json(message: &Message, base64: &str) -> Option<String> {
    let bytes = unbase64(base64)?;
    let mut reader = Reader::new(&bytes);
    let version = reader.i16().ok()?;
    message_json(message, version, &mut reader).ok()
}

fn unbase64(text: &str) -> Option<Vec<u8>> {
    let mut out = Vec::new();
    let (mut word, mut bits) = (0u32, 0);
    for c in text.bytes().take_while(|&c| c != b'=') {
        let six = match c {
            b'A'..=b'Z' => c - b'A',
            b'a'..=b'z' => c - b'a' + 26,
            b'0'..=b'9' => c - b'0' + 52,
            b'+' => 62,
            b'/' => 63,
            _ => return None,
        };
        word = word << 6 | u32::from(six);
        bits += 6;
        if bits >= 8 {
            bits -= 8;
            out.push((word >> bits) as u8);
        }
    }
    Some(out)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_schema_parses_and_every_key_has_its_value() {
        let schemas = Schemas::load();
        for family in ["group", "txn", "share"] {
            for message in schemas.families[family].iter().filter(|m| m.kind == Kind::Key) {
                let number = message.number.expect("keys are numbered");
                assert!(schemas.numbered(family, Kind::Value, number).is_some(), "{}", message.name);
            }
        }
    }

    #[test]
    fn states_and_protocols_are_spelled_out() {
        assert_eq!(
            with_state_name("{\"a\":1,\"transactionStatus\":4,\"b\":2}"),
            "{\"a\":1,\"transactionStatus\":\"CompleteCommit\",\"b\":2}"
        );
        assert_eq!(with_state_name("{\"transactionStatus\":99}"), "{\"transactionStatus\":\"99\"}");
        let data = "{\"protocolType\":\"consumer\",\"members\":[{\"subscription\":\"AAAAAAABAAFhAAAAAA==\",\"assignment\":\"\"}]}";
        let shown = with_protocols(&Schemas::load(), data);
        assert!(shown.ends_with("\"assignment\":\"\"}]}"), "{shown}");
        assert_eq!(unbase64("Zm9v"), Some(b"foo".to_vec()));
        assert_eq!(unbase64("Zm8="), Some(b"fo".to_vec()));
    }
}
