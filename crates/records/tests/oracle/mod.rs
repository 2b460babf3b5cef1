//! Runs `java/Oracle.java` on Apache Kafka's own classes.

use bytes::Bytes;
use records::{Batch, Scratch};
use std::fmt::Write as _;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::OnceLock;

/// Enough for any batch here.
pub const LIMIT: usize = 64 << 20;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the crate lies in the checkout")
}

fn class_path() -> String {
    let libs =
        std::env::var_os("ODRADEK_KAFKA_LIBS").map_or_else(|| root().join(".cache/kafka-4.4.0/libs"), PathBuf::from);
    assert!(libs.is_dir(), "{} is missing: run scripts/install-peers or set ODRADEK_KAFKA_LIBS", libs.display());
    format!("{}/*", libs.display())
}

/// The folder with the compiled program.
fn compiled() -> &'static Path {
    static DIR: OnceLock<PathBuf> = OnceLock::new();
    DIR.get_or_init(|| {
        let dir = Path::new(env!("CARGO_TARGET_TMPDIR")).join("records-oracle");
        std::fs::create_dir_all(&dir).expect("a folder for classes");
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/java/Oracle.java");
        let status = Command::new("javac").args(["-cp", &class_path(), "-d"]).arg(&dir).arg(&source).status();
        assert!(status.expect("javac (JDK 17 or later) is on the path").success(), "Oracle.java does not compile");
        dir
    })
}

/// Puts `lines` to the oracle and returns its answers, one for each line but the `config` ones.
pub fn ask(name: &str, lines: &[String]) -> Vec<String> {
    let logs = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("records-oracle-logs-{name}"));
    let _ = std::fs::remove_dir_all(&logs);
    std::fs::create_dir_all(&logs).expect("a folder for logs");
    let class_path = format!("{}:{}", compiled().display(), class_path());
    let mut child = Command::new("java")
        .args(["-Xmx512m", "-XX:+UseSerialGC", "-cp", &class_path, "Oracle"])
        .arg(&logs)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("java is on the path");
    let mut stdin = child.stdin.take().expect("a pipe");
    let input = lines.join("\n") + "\n";
    let writer = std::thread::spawn(move || stdin.write_all(input.as_bytes()));
    let output = child.wait_with_output().expect("java ends");
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "the oracle failed: {stderr}");
    writer.join().expect("the writer ends").expect("the oracle reads all");
    let _ = std::fs::remove_dir_all(&logs);
    // The log's own output goes the same way as the answers, which all begin with an id of this form.
    let text = String::from_utf8(output.stdout).expect("UTF-8");
    let answers: Vec<String> = text.lines().filter(|l| l.starts_with('#')).map(str::to_owned).collect();
    let expected = lines.iter().filter(|l| !l.starts_with("config")).count();
    assert_eq!(answers.len(), expected, "{stderr}");
    answers
}

pub fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::new(), |mut out, b| {
        let _ = write!(out, "{b:02x}");
        out
    })
}

pub fn unhex(text: &str) -> Vec<u8> {
    let digit = |c: u8| (c as char).to_digit(16).expect("a hexadecimal digit") as u8;
    text.as_bytes().chunks(2).map(|pair| digit(pair[0]) << 4 | digit(pair[1])).collect()
}

fn nullable(bytes: Option<&[u8]>) -> String {
    bytes.map_or("null".to_owned(), |b| format!("[{}]", hex(b)))
}

/// A batch in the words of the oracle's `read`.
pub fn render(bytes: &Bytes, scratch: &mut Scratch) -> String {
    let batch = Batch::parse(bytes).expect("a batch");
    batch.verify_crc().expect("the checksum is right");
    let h = &batch.header;
    let mut out = format!("ok {},{},{}", h.base_offset, h.last_offset(), h.leader_epoch);
    let codec = h.attributes.codec().expect("a codec");
    let _ = write!(out, ",{codec},{},{}", h.attributes.timestamp_type().name(), h.max_timestamp);
    let _ = write!(out, ",{},{},{},{}", h.producer_id, h.producer_epoch, h.base_sequence, h.last_sequence());
    let _ = write!(out, ",{},{},{}", h.is_transactional(), h.is_control(), h.record_count);
    for record in batch.records(scratch, LIMIT).expect("readable") {
        let r = record.expect("a record");
        let _ = write!(out, " | {},{},{},{}", r.offset, r.timestamp, r.sequence, r.size);
        let _ = write!(out, ",{},{}", nullable(r.key), nullable(r.value));
        for header in r.headers {
            let _ = write!(out, ",{}={}", String::from_utf8_lossy(header.key), nullable(header.value));
        }
    }
    out
}
