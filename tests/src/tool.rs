//! Runs command line clients to their end, with a limit, and keeps what they printed.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use crate::{Talk, peers};

/// A command about to run.
pub struct Tool {
    command: Command,
    shown: String,
    input: Vec<u8>,
    limit: Duration,
}

/// What a finished command left.
#[derive(Debug)]
pub struct Output {
    /// Exit status; `None` when a signal or the limit ended it.
    pub code: Option<i32>,
    /// Standard output.
    pub stdout: Vec<u8>,
    /// Standard error as text.
    pub stderr: String,
    shown: String,
}

impl Output {
    /// Standard output as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.stdout).into_owned()
    }

    /// The output, after checking that the command succeeded.
    #[track_caller]
    pub fn ok(self) -> Output {
        assert_eq!(self.code, Some(0), "`{}` failed\nstdout: {}\nstderr: {}", self.shown, self.text(), self.stderr);
        self
    }

    /// The output, after checking that the command failed with `needle` in what it said.
    #[track_caller]
    pub fn fails_with(self, needle: &str) -> Output {
        let said = format!("{}{}", self.text(), self.stderr);
        assert!(self.code != Some(0) && said.contains(needle), "`{}` should fail with {needle:?}: {said}", self.shown);
        self
    }

    /// The output, after checking that it contains each of `needles`.
    #[track_caller]
    pub fn says(self, needles: &[&str]) -> Output {
        for needle in needles {
            assert!(self.text().contains(needle), "`{}` does not say {needle:?}: {}", self.shown, self.text());
        }
        self
    }
}

impl Tool {
    /// One of Apache Kafka's tools by its usual name, through `scripts/kafka`.
    pub fn kafka(name: &str, args: &[&str]) -> Tool {
        let mut command = Command::new(peers::root().join("scripts/kafka"));
        command.arg(name).args(args).env("ODRADEK_KAFKA_LIBS", peers::kafka_libs());
        Tool::of(command, format!("{name} {}", args.join(" ")))
    }

    /// A Java source file of ours below `tests/java`, run from source against Kafka's jars.
    pub fn java(source: &str, args: &[&str]) -> Tool {
        let mut command = Command::new("java");
        command
            .args(["-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xmx512m", "-cp"])
            .arg(peers::kafka_libs().join("*"))
            .arg(format!("-Dlog4j2.configurationFile={}", peers::root().join("scripts/peers/log4j2.yaml").display()))
            .arg(peers::root().join("tests/java").join(source))
            .args(args);
        Tool::of(command, format!("java {source} {}", args.join(" ")))
    }

    /// kcat.
    pub fn kcat(args: &[&str]) -> Tool {
        let mut command = Command::new("kcat");
        command.args(args);
        Tool::of(command, format!("kcat {}", args.join(" ")))
    }

    /// A program of the system by its name alone.
    pub fn sh(name: &str) -> Tool {
        Tool::of(Command::new(name), name.to_owned())
    }

    /// The `odradek` binary itself.
    pub fn odradek(args: &[&str]) -> Tool {
        let mut command = Command::new(peers::odradek());
        command.args(args);
        Tool::of(command, format!("odradek {}", args.join(" ")))
    }

    /// `command` with `args` behind its own.
    pub fn command(mut command: Command, args: &[&str]) -> Tool {
        command.args(args);
        let shown = format!("{command:?}");
        Tool::of(command, shown)
    }

    fn of(command: Command, shown: String) -> Tool {
        Tool { command, shown, input: Vec::new(), limit: Duration::from_secs(120) }
    }

    /// Feeds `input` to standard input.
    #[must_use]
    pub fn input(mut self, input: impl Into<Vec<u8>>) -> Tool {
        self.input = input.into();
        self
    }

    /// Runs in `dir`.
    #[must_use]
    pub fn in_dir(mut self, dir: &Path) -> Tool {
        self.command.current_dir(dir);
        self
    }

    /// Kills the command after `limit` instead of the usual two minutes. A safety net against hangs, not a measurement.
    #[must_use]
    pub fn limit(mut self, limit: Duration) -> Tool {
        self.limit = limit;
        self
    }

    /// Starts the command, to be talked to while it runs.
    pub fn talk(self) -> Talk {
        Talk::start(&self.shown, self.command)
    }

    /// Runs the command to its end.
    pub fn run(mut self) -> Output {
        self.command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = self.command.spawn().unwrap_or_else(|e| panic!("`{}` does not start: {e}", self.shown));
        let mut stdin = child.stdin.take().expect("stdin is a pipe");
        let input = std::mem::take(&mut self.input);
        let feeder = thread::spawn(move || {
            // A tool may stop reading early; that shows in its exit status.
            let _ = stdin.write_all(&input);
        });
        let stdout = drain(child.stdout.take().expect("stdout is a pipe"));
        let stderr = drain(child.stderr.take().expect("stderr is a pipe"));
        let started = Instant::now();
        let code = loop {
            if let Some(status) = child.try_wait().expect("the child can be waited for") {
                break status.code();
            }
            if started.elapsed() > self.limit {
                let _ = child.kill();
                let _ = child.wait();
                break None;
            }
            thread::sleep(Duration::from_millis(10));
        };
        feeder.join().expect("the feeder does not panic");
        Output {
            code,
            stdout: stdout.join().expect("the reader does not panic"),
            stderr: String::from_utf8_lossy(&stderr.join().expect("the reader does not panic")).into_owned(),
            shown: self.shown,
        }
    }
}

fn drain(mut pipe: impl Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = pipe.read_to_end(&mut bytes);
        bytes
    })
}
