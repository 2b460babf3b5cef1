//! Apache Kafka's own Java classes read what is written here and write the same bytes again, for every version of every
//! schema; and they agree on what a message of defaults looks like.

mod common;

use std::fs::{File, write};
use std::path::Path;
use std::process::{Command, Stdio};

use base::Prng;
use bytes::Bytes;
use common::values::{Fill, message_bytes, uvarint};
use common::{MESSAGES, entry, family, hex, kafka_libs, schemas};
use wire::group_record::{GroupKey, GroupValue};
use wire::metadata_record::MetadataRecord;
use wire::share_record::{ShareKey, ShareValue};
use wire::tiered_record::TieredRecord;
use wire::txn_record::{TxnKey, TxnValue};
use wiregen::{Kind, Message};

/// Messages per version and fill.
const ROUNDS: u64 = 6;

/// How the Java program begins an answer about something that fails.
const REFUSED: &str = "error";

/// A line for the Java program and the answer it must give.
struct Question {
    ask: String,
    expect: String,
}

impl Question {
    fn accepts(&self, answer: &str) -> bool {
        answer == self.expect || (self.expect == REFUSED && answer.starts_with(REFUSED))
    }
}

/// Asks the Java program everything at once and compares all answers.
fn ask_java(name: &str, questions: &[Question]) {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let input = folder.join(format!("{name}.txt"));
    write(&input, questions.iter().map(|q| format!("{}\n", q.ask)).collect::<String>()).expect("writable");
    let program = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java/Recode.java");
    let done = Command::new("java")
        .arg("-cp")
        .arg(kafka_libs().join("*"))
        .arg(&program)
        .stdin(Stdio::from(File::open(&input).expect("just written")))
        .output()
        .expect("java runs");
    assert!(done.status.success(), "the Java program failed: {}", String::from_utf8_lossy(&done.stderr));
    let answers = String::from_utf8(done.stdout).expect("the program writes ASCII");
    let answers: Vec<&str> = answers.lines().collect();
    assert_eq!(answers.len(), questions.len(), "one answer per question");
    let shown = |text: &str| text.chars().take(2000).collect::<String>();
    let wrong: Vec<String> = std::iter::zip(questions, answers)
        .filter(|(question, answer)| !question.accepts(answer))
        .map(|(question, answer)| {
            format!("{}\n  here {}\n  java {}", shown(&question.ask), shown(&question.expect), shown(answer))
        })
        .collect();
    assert!(wrong.is_empty(), "{} of {}:\n{}", wrong.len(), questions.len(), wrong[..wrong.len().min(20)].join("\n"));
}

fn fills() -> impl Iterator<Item = (Fill, u64)> {
    [Fill::Full, Fill::Mixed, Fill::Least].into_iter().flat_map(|fill| (0..ROUNDS).map(move |seed| (fill, seed)))
}

#[test]
fn every_version_of_every_schema() {
    let mut questions = Vec::new();
    for message in schemas() {
        let codec = entry(&message.name);
        for version in codec.min..=codec.max {
            for (fill, seed) in fills() {
                let made = Bytes::from(message_bytes(&message, version, fill, &mut Prng::new(seed)));
                let written = (codec.recode)(&made, version, version).expect("valid").bytes.expect("valid");
                let expect = hex(&written);
                questions.push(Question { ask: format!("recode {} {version} {expect}", message.name), expect });
            }
        }
    }
    assert!(questions.len() > 12_000, "only {} messages", questions.len());
    ask_java("every_version", &questions);
}

/// What one version says is written in another: the same fields are dropped, the same are refused.
#[test]
fn every_version_in_every_other() {
    let mut questions = Vec::new();
    for message in schemas() {
        let codec = entry(&message.name);
        for (from, to) in (codec.min..=codec.max).flat_map(|from| (codec.min..=codec.max).map(move |to| (from, to))) {
            for (fill, seed) in [(Fill::Full, 1), (Fill::Mixed, 2), (Fill::Sparse, 3), (Fill::Sparse, 4)] {
                let made = Bytes::from(message_bytes(&message, from, fill, &mut Prng::new(seed)));
                let written = (codec.recode)(&made, from, to).expect("valid").bytes;
                let expect = written.map_or(REFUSED.to_string(), |bytes| hex(&bytes));
                questions.push(Question { ask: format!("cross {} {from} {to} {}", message.name, hex(&made)), expect });
            }
        }
    }
    let refused = questions.iter().filter(|question| question.expect == REFUSED).count();
    assert!(refused > 1_000 && questions.len() - refused > 10_000, "{refused} of {}", questions.len());
    ask_java("cross", &questions);
}

#[test]
fn defaults_are_kafkas() {
    let mut questions = Vec::new();
    for codec in MESSAGES {
        for version in codec.min..=codec.max {
            // What cannot be written with defaults alone (a null where a value is needed) cannot in Kafka either.
            let expect = (codec.encode_default)(version).map_or(REFUSED.to_string(), |bytes| hex(&bytes));
            questions.push(Question { ask: format!("default {} {version}", codec.name), expect });
        }
    }
    assert!(questions.len() > 600, "only {} messages", questions.len());
    ask_java("defaults", &questions);
}

#[test]
fn framed_records() {
    let mut questions = Vec::new();
    for (name, message) in ["metadata", "tiered"].into_iter().flat_map(|f| family(f).into_iter().map(move |m| (f, m))) {
        for version in message.versions.lo..=message.versions.hi {
            for (fill, seed) in fills() {
                let mut value = Vec::new();
                let type_id = message.number.expect("a record has a type");
                for number in [1, type_id as u32, version as u32] {
                    uvarint(number, &mut value);
                }
                value.extend(message_bytes(&message, version, fill, &mut Prng::new(seed)));
                let expect = hex(&value);
                let written = match name {
                    "metadata" => MetadataRecord::decode(&value).expect("valid").0.into_static().encode(version),
                    _ => TieredRecord::decode(&value).expect("valid").0.into_static().encode(version),
                };
                assert_eq!(written.map(|bytes| hex(&bytes)).as_ref(), Ok(&expect), "{}", message.name);
                questions.push(Question { ask: format!("framed {name} {expect}"), expect });
            }
        }
    }
    ask_java("framed", &questions);
}

#[test]
fn keyed_records() {
    let mut questions = Vec::new();
    for name in ["group", "txn", "share"] {
        let members = family(name);
        for key_schema in members.iter().filter(|m| m.kind == Kind::Key) {
            let is_value = |m: &&Message| m.kind == Kind::Value && m.number == key_schema.number;
            let value_schema = members.iter().find(is_value).expect("a key has a value");
            for version in value_schema.versions.lo..=value_schema.versions.hi {
                for (fill, seed) in fills() {
                    let type_id = key_schema.number.expect("a key has a type");
                    let mut key = type_id.to_be_bytes().to_vec();
                    key.extend(message_bytes(key_schema, 0, fill, &mut Prng::new(seed)));
                    let mut value = version.to_be_bytes().to_vec();
                    value.extend(message_bytes(value_schema, version, fill, &mut Prng::new(seed)));
                    let expect = format!("{} {}", hex(&key), hex(&value));
                    let (key_back, value_back) = match name {
                        "group" => (
                            GroupKey::decode(&key).map(|k| k.into_static().encode()),
                            GroupValue::decode(type_id, &value).map(|(v, at)| v.into_static().encode(at)),
                        ),
                        "txn" => (
                            TxnKey::decode(&key).map(|k| k.into_static().encode()),
                            TxnValue::decode(type_id, &value).map(|(v, at)| v.into_static().encode(at)),
                        ),
                        _ => (
                            ShareKey::decode(&key).map(|k| k.into_static().encode()),
                            ShareValue::decode(type_id, &value).map(|(v, at)| v.into_static().encode(at)),
                        ),
                    };
                    assert_eq!((key_back, value_back), (Ok(Ok(key)), Ok(Ok(value))), "{}", value_schema.name);
                    questions.push(Question { ask: format!("keyed {name} {expect}"), expect });
                }
            }
        }
    }
    ask_java("keyed", &questions);
}

/// The committed schemas are what the script makes of the jars.
#[test]
fn schemas_are_what_the_jars_say() {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/extract-schemas");
    let done = Command::new("python3").arg(script).arg("--check").arg(kafka_libs()).output().expect("python3 runs");
    let said = String::from_utf8_lossy(&done.stdout).into_owned() + &String::from_utf8_lossy(&done.stderr);
    assert!(done.status.success(), "{said}");
}
