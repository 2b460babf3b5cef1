//! `odradek start`: the node without a properties file, refusals, and an orderly end.

use std::ffi::OsStr;
use std::fs;
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use odradek_tests::ports::free_port;
use odradek_tests::raw::Raw;
use odradek_tests::{Tool, peers};

/// A safety net against a start that hangs, not a measurement.
const LIMIT: Duration = Duration::from_secs(60);

fn folder() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("odradek-start-").tempdir().expect("a temporary folder")
}

/// A process that is killed if a test fails.
struct Process(Option<Child>);

impl Process {
    fn start(dir: &Path, args: &[impl AsRef<OsStr>]) -> Process {
        let mut command = Command::new(peers::odradek());
        command.current_dir(dir).arg("start").args(args).stdin(Stdio::null());
        Process(Some(command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the command starts")))
    }

    fn wait_until_ready(&mut self, port: u16) {
        let started = Instant::now();
        while !Raw::connect(([127, 0, 0, 1], port).into()).and_then(|mut raw| raw.lists_itself(1)).unwrap_or(false) {
            let child = self.0.as_mut().expect("started");
            assert!(child.try_wait().expect("can be waited for").is_none(), "ended early: {}", self.end_text());
            assert!(started.elapsed() < LIMIT, "does not serve");
            thread::sleep(Duration::from_millis(20));
        }
    }

    fn end_text(&mut self) -> String {
        let output = self.0.take().expect("started").wait_with_output().expect("can be waited for");
        text(&output)
    }

    /// What the process printed, once it has ended with an error.
    fn fail(mut self) -> String {
        let output = self.0.take().expect("started").wait_with_output().expect("can be waited for");
        assert!(!output.status.success(), "it should not have started: {}", text(&output));
        text(&output)
    }

    /// Sends a signal and gives what the process printed, once it has ended well.
    fn end(&mut self, signal: &str) -> String {
        let child = self.0.take().expect("started");
        let kill = Command::new("kill").args(["-s", signal, &child.id().to_string()]).status().expect("kill runs");
        assert!(kill.success());
        let output = child.wait_with_output().expect("can be waited for");
        assert!(output.status.success(), "{signal}: {}: {}", output.status, text(&output));
        text(&output)
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        if let Some(mut child) = self.0.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

#[test]
fn without_a_file_it_formats_and_serves() {
    let dir = folder();
    let (port, controller) = (free_port(), free_port());
    let listeners = format!("listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller}");
    let voters = format!("controller.quorum.bootstrap.servers=localhost:{controller}");
    let args = ["--override", &listeners, "--override", &voters, "--override", "odradek.cores=1"];
    let data = dir.path().join("odradek-data");
    let mut process = Process::start(dir.path(), &args);
    process.wait_until_ready(port);
    let said = process.end("INT");
    let formatted = format!("Formatting dynamic metadata voter directory {}", data.display());
    for needle in [&formatted, "durability is durable", "1 data core,", "stopped"] {
        assert!(said.contains(needle), "{needle:?} is missing in {said}");
    }
    assert!(!said.contains("ERROR"), "{said}");
    let meta = fs::read_to_string(data.join("meta.properties")).expect("the directory is formatted");
    let mut process = Process::start(dir.path(), &args);
    process.wait_until_ready(port);
    let said = process.end("TERM");
    assert!(!said.contains("Formatting") && !said.contains("ERROR"), "{said}");
    assert_eq!(fs::read_to_string(data.join("meta.properties")).expect("still there"), meta);
}

/// A properties file with `more` lines; its directory is formatted.
fn formatted(more: &str) -> (tempfile::TempDir, String) {
    let dir = folder();
    let file = dir.path().join("server.properties").to_str().expect("a plain path").to_owned();
    let text = format!(
        "process.roles=broker,controller\nnode.id=1\ncontroller.quorum.voters=1@localhost:1\nlisteners=PLAINTEXT://:0,\
         CONTROLLER://:1\ncontroller.listener.names=CONTROLLER\nlog.dirs={}\n",
        dir.path().join("data").display()
    );
    fs::write(&file, &text).expect("a writable folder");
    Tool::odradek(&["format", "-t", "MkU3OEVBNTcwNTJENDM2Qg", "-c", &file]).run().ok();
    fs::write(&file, text + more).expect("a writable folder");
    (dir, file)
}

#[test]
fn a_value_that_is_not_acceptable_stops_the_start() {
    let (_dir, file) = formatted("num.partitions=0\ncompression.type=brotli\n");
    let output = Tool::odradek(&["start", "-c", &file]).run();
    let output = output.fails_with("Invalid value 0 for configuration num.partitions: Value must be at least 1");
    for needle in ["accepted: int: 1 or more; default 1", "accepted: string: one of uncompressed, zstd"] {
        assert!(output.stderr.contains(needle), "{}", output.stderr);
    }
    let refused =
        ["start", "-c", &file, "--override", "num.partitions=1", "--override", "compression.type=zstd", "--override"];
    Tool::odradek(&[&refused[..], &["listeners=PLAINTEXT"]].concat()).run().fails_with("Unable to parse PLAINTEXT");
    Tool::odradek(&[&refused[..], &["x"]].concat()).run().fails_with("\"x\" is not of the form key=value");
    Tool::odradek(&["start", "-c", "/nowhere"]).run().fails_with("cannot read /nowhere");
}

#[test]
fn options_without_effect_are_named_once() {
    let (_dir, file) = formatted("nmu.partitions=4\nlog.cleaner.backoff.ms=1\nbackground.threads=7\n");
    // The directory is another node's, which ends the start after the options have been told.
    let output = Tool::odradek(&[
        "start",
        "-c",
        &file,
        "--override",
        "node.id=2",
        "--override",
        "controller.quorum.voters=2@localhost:1",
    ]);
    let output = output.run().fails_with("Stored node id 1 doesn't match previous node id 2");
    let said = output.text();
    let of = |needle: &str| said.lines().filter(|line| line.contains(needle)).collect::<Vec<_>>();
    assert_eq!(of("nmu.partitions").len(), 1, "{said}");
    assert!(of("nmu.partitions")[0].contains("WARN"), "{said}");
    let inactive = of("no effect yet");
    assert_eq!(inactive.len(), 1, "{said}");
    assert!(inactive[0].ends_with("background.threads, log.cleaner.backoff.ms"), "{said}");
}

#[test]
fn a_listener_without_the_security_it_asks_for_is_refused() {
    let (_dir, file) = formatted("listener.security.protocol.map=PLAINTEXT:SASL_SSL,CONTROLLER:PLAINTEXT\n");
    Tool::odradek(&["start", "-c", &file])
        .run()
        .fails_with("listener PLAINTEXT asks for SASL_SSL, which is not served yet");
    let (_dir, file) = formatted("listener.security.protocol.map=PLAINTEXT:PLAINTEXT,CONTROLLER:SSL\n");
    Tool::odradek(&["start", "-c", &file]).run().fails_with("listener CONTROLLER asks for SSL");
}

#[test]
fn directories_that_are_not_formatted_are_refused() {
    let (dir, file) = formatted("");
    fs::remove_dir_all(dir.path().join("data")).expect("can be removed");
    Tool::odradek(&["start", "-c", &file]).run().fails_with("No readable meta.properties files found in");
    fs::create_dir_all(dir.path().join("data")).expect("can be made");
    fs::write(dir.path().join("data/meta.properties"), "version=1\nnode.id=x\n").expect("can be written");
    Tool::odradek(&["start", "-c", &file]).run().fails_with("Encountered I/O error in metadata log directory");
}

/// Arguments of `odradek start` for a node with one core on `data`.
fn arguments(data: &Path, port: u16, controller: u16) -> Vec<String> {
    let pairs = [
        format!("listeners=PLAINTEXT://localhost:{port},CONTROLLER://localhost:{controller}"),
        format!("controller.quorum.bootstrap.servers=localhost:{controller}"),
        "odradek.cores=1".to_owned(),
        format!("log.dirs={}", data.display()),
    ];
    pairs.into_iter().flat_map(|pair| ["--override".to_owned(), pair]).collect()
}

#[test]
fn a_directory_has_one_broker() {
    let dir = folder();
    let (port, data) = (free_port(), dir.path().join("data"));
    let mut first = Process::start(dir.path(), &arguments(&data, port, free_port()));
    first.wait_until_ready(port);
    let second = || Process::start(dir.path(), &arguments(&data, free_port(), free_port()));
    let refused = second().fail();
    for needle in
        [&*format!("log directory {}: ", data.display()), "another process holds the lock", "Stop that broker"]
    {
        assert!(refused.contains(needle), "{needle:?} is missing in {refused}");
    }
    first.wait_until_ready(port);
    let said = first.end("TERM");
    assert!(!said.contains("ERROR"), "{said}");

    // The metadata log's directory is as much the broker's, when it is another one.
    let (metadata, other) = (dir.path().join("metadata"), dir.path().join("other"));
    let with_metadata = |data: &Path, port| {
        let mut args = arguments(data, port, free_port());
        args.extend(["--override".to_owned(), format!("metadata.log.dir={}", metadata.display())]);
        Process::start(dir.path(), &args)
    };
    let mut first = with_metadata(&other, port);
    first.wait_until_ready(port);
    let lock = fs::File::options().write(true).open(metadata.join(".lock")).expect("the lock is there");
    assert!(matches!(lock.try_lock(), Err(fs::TryLockError::WouldBlock)), "the metadata log is not locked");
    let lock = fs::File::options().write(true).open(other.join(".lock")).expect("the lock is there");
    assert!(matches!(lock.try_lock(), Err(fs::TryLockError::WouldBlock)), "the log directory is not locked");
    first.end("TERM");
    lock.try_lock().expect("free after the end");
}

#[test]
fn a_port_has_one_broker() {
    let dir = folder();
    let (port, data, other) = (free_port(), dir.path().join("data"), dir.path().join("other"));
    let mut first = Process::start(dir.path(), &arguments(&data, port, free_port()));
    first.wait_until_ready(port);
    let refused = Process::start(dir.path(), &arguments(&other, port, free_port())).fail();
    let needle =
        format!("listener PLAINTEXT: address 127.0.0.1:{port} is in use by another process. Stop that process");
    assert!(refused.contains(&needle), "{needle:?} is missing in {refused}");
    // All addresses of the machine include that one.
    let mut all = arguments(&other, port, free_port());
    all[1] = all[1].replace("PLAINTEXT://localhost", "PLAINTEXT://");
    let refused = Process::start(dir.path(), &all).fail();
    let needle = format!("listener PLAINTEXT: address 0.0.0.0:{port} is in use");
    assert!(refused.contains(&needle), "{needle:?} is missing in {refused}");
    first.wait_until_ready(port);
    first.end("TERM");
    // What was refused left nothing behind that is in the way.
    let mut second = Process::start(dir.path(), &arguments(&other, port, free_port()));
    second.wait_until_ready(port);
    second.end("TERM");
}
