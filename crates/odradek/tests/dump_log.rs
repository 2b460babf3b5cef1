//! `odradek dump-log` as a user calls it. That its lines are those of Kafka's tool is tested in the `dump` crate.

use std::path::Path;
use std::process::{Command, Output};

use records::{BatchBuilder, Codec, RecordData};

fn dump_log(args: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_odradek")).arg("dump-log").args(args).output().expect("the command runs")
}

fn stdout(output: &Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A segment of three batches with its offset index, and a checkpoint. Returns the size of a batch.
fn fill(dir: &Path) -> usize {
    let batches: Vec<_> = (0..3i64)
        .map(|i| {
            let mut b = BatchBuilder::new(10 + 2 * i).compression(Codec::Zstd, None);
            for value in ["first", "second"] {
                b.append(&RecordData { timestamp: 5, value: Some(value.as_bytes()), ..RecordData::default() });
            }
            b.build().expect("a batch")
        })
        .collect();
    let mut segment = batches.concat();
    segment.extend([0; 200]);
    let size = batches[0].len();
    std::fs::write(dir.join("00000000000000000010.log"), &segment).expect("written");
    let index = [3u32.to_be_bytes(), (size as u32).to_be_bytes(), [0; 4], [0; 4]].concat();
    std::fs::write(dir.join("00000000000000000010.index"), index).expect("written");
    std::fs::write(dir.join("leader-epoch-checkpoint"), "0\n1\n4 10\n").expect("written");
    size
}

#[test]
fn segments_indexes_and_checkpoints_are_shown() {
    let dir = tempfile::tempdir().expect("a folder");
    let size = fill(dir.path());
    let path = |name: &str| dir.path().join(name).to_str().expect("UTF-8").to_owned();
    let (log, index, epochs) =
        (path("00000000000000000010.log"), path("00000000000000000010.index"), path("leader-epoch-checkpoint"));

    let shown = stdout(&dump_log(&["--print-data-log", "--files", &format!("{log},{index}"), &epochs]));
    let lines: Vec<&str> = shown.lines().collect();
    assert_eq!(lines[..2], [format!("Dumping {log}"), "Log starting offset: 10".to_owned()]);
    assert!(lines[2].starts_with("baseOffset: 10 lastOffset: 11 count: 2"), "{}", lines[2]);
    assert!(lines[4].ends_with("headerKeys: [] payload: second"), "{}", lines[4]);
    assert_eq!(lines[11], "Found 200 invalid bytes at the end of 00000000000000000010.log");
    let rest = [format!("Dumping {index}"), format!("offset: 13 position: {size}"), format!("Dumping {epochs}")];
    assert_eq!(lines[12..15], rest);
    assert_eq!(lines[15..], ["epoch: 4 startOffset: 10"]);

    let batches = stdout(&dump_log(&["--max-bytes", &(size + 1).to_string(), &log]));
    assert_eq!(batches.lines().count(), 3, "{batches}");
}

#[test]
fn mistakes_are_told() {
    let none = dump_log(&[]);
    assert_eq!(none.status.code(), Some(2));
    let missing = dump_log(&["/nowhere/00000000000000000000.log"]);
    assert_eq!(missing.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&missing.stderr).contains("/nowhere/00000000000000000000.log"));
    assert_eq!(dump_log(&["--offsets-decoder", "--cluster-metadata-decoder", "x.log"]).status.code(), Some(2));
}
