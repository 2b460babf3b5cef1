//! A program that goes on running and is talked to line by line.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::node::send_signal;

/// A running program; killed when dropped. What it writes to standard error goes to the test's own.
pub struct Talk {
    name: String,
    child: Child,
    stdin: ChildStdin,
    lines: Receiver<String>,
}

impl Talk {
    /// Starts `command`; `name` is for messages.
    pub fn start(name: &str, mut command: Command) -> Talk {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::inherit());
        let mut child = command.spawn().unwrap_or_else(|e| panic!("{name} does not start: {e}"));
        let stdin = child.stdin.take().expect("stdin is a pipe");
        let stdout = BufReader::new(child.stdout.take().expect("stdout is a pipe"));
        let (tell, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in stdout.lines() {
                let Ok(line) = line else { return };
                if tell.send(line).is_err() {
                    return;
                }
            }
        });
        Talk { name: name.to_owned(), child, stdin, lines }
    }

    /// Writes a line to the program.
    #[track_caller]
    pub fn say(&mut self, line: &str) {
        let name = &self.name;
        writeln!(self.stdin, "{line}").unwrap_or_else(|e| panic!("{name} is gone: {e}"));
    }

    /// Its next line, or none when it says nothing for `limit` or has ended.
    pub fn hear(&mut self, limit: Duration) -> Result<String, RecvTimeoutError> {
        self.lines.recv_timeout(limit)
    }

    /// Sends a signal, such as `libc::SIGSTOP`.
    pub fn signal(&self, signal: i32) {
        send_signal(i32::try_from(self.child.id()).expect("a pid fits"), signal);
    }

    /// SIGKILL, then waits for the program to be gone.
    pub fn kill(&mut self) {
        self.child.kill().expect("can be killed");
        self.child.wait().expect("can be waited for");
    }
}

impl Drop for Talk {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
