//! What ends a process, seen from outside: each case runs this test binary again as a child.
#![allow(unsafe_code)]

use std::os::unix::process::ExitStatusExt;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::fs::{File, OpenOptions};
use crate::{Class, MappedFile, OnPanic, Runtime, RuntimeConfig, sleep, spawn, stopping};

/// Set in the environment of a child, so that its case does nothing in an ordinary run.
const CHILD: &str = "REACTOR_TEST_CHILD";

fn child(case: &str) -> Child {
    let exe = std::env::current_exe().unwrap();
    let name = format!("tests::process::{case}");
    let mut command = Command::new(exe);
    command.args(["--exact", &name, "--nocapture"]).env(CHILD, case);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

fn is_child(case: &str) -> bool {
    std::env::var(CHILD).is_ok_and(|wanted| wanted == case)
}

#[test]
fn child_panics() {
    if !is_child("child_panics") {
        return;
    }
    let config = RuntimeConfig::with_cores(2);
    assert_eq!(config.on_panic, OnPanic::StopProcess);
    let runtime = Runtime::start(config, |core| async move {
        if core.0 == 1 {
            spawn(Class::Normal, async { panic!("on purpose") }).detach();
        }
        std::future::pending::<()>().await;
    });
    runtime.unwrap().join();
}

#[test]
fn a_panic_stops_the_process() {
    let _watchdog = super::Watchdog::new();
    let status = child("child_panics").wait_with_output().unwrap().status;
    assert_eq!(status.signal(), Some(libc::SIGABRT), "{status}");
}

#[test]
fn child_loses_a_page() {
    if !is_child("child_loses_a_page") {
        return;
    }
    let scratch = super::Scratch::new();
    crate::block_on(async move {
        let file = File::open(scratch.0.join("f"), OpenOptions::READ_WRITE).await.unwrap();
        // Nothing of this process removes it later.
        drop(scratch);
        file.set_len(8192).await.unwrap();
        let map = MappedFile::new(&file, 8192).unwrap();
        map.store(5000, b"x").unwrap();
        file.set_len(0).await.unwrap();
        map.store(5000, b"y").unwrap();
    });
}

#[test]
fn a_store_that_no_device_takes_ends_the_process_and_says_so() {
    let _watchdog = super::Watchdog::new();
    let output = child("child_loses_a_page").wait_with_output().unwrap();
    assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{}", output.status);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("FATAL SIGBUS: a store to a mapped journal file failed"), "{said}");
}

#[test]
fn child_stops() {
    if !is_child("child_stops") {
        return;
    }
    let runtime = Runtime::start(RuntimeConfig::with_cores(2), |_| async {
        stopping().await;
        sleep(Duration::from_millis(1)).await;
    })
    .unwrap();
    let stop = runtime.stop_handle();
    stop.on_termination_signals().unwrap();
    assert!(stop.on_termination_signals().is_err(), "the signals have a handler");
    println!("ready");
    runtime.join();
    println!("closed");
}

#[test]
fn a_termination_signal_lets_every_core_close() {
    let _watchdog = super::Watchdog::new();
    use std::io::{BufRead, BufReader};
    for signal in [libc::SIGTERM, libc::SIGINT] {
        let mut child = child("child_stops");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap);
        assert!(lines.any(|line| line.ends_with("ready")));
        // SAFETY: no pointers; the child is ours and not yet waited for, so that its id is not used again.
        assert_eq!(unsafe { libc::kill(child.id() as i32, signal) }, 0);
        assert!(lines.any(|line| line == "closed"), "signal {signal}");
        assert!(child.wait().unwrap().success(), "signal {signal}");
    }
}
