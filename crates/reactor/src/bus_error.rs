//! A store to a mapped file that its device cannot serve ends the process with SIGBUS. Nothing else can be done about a store
//! that did not happen, but the operator is told what it was.
#![allow(unsafe_code)]

use std::sync::Once;

const TOLD: &[u8] = b"FATAL SIGBUS: a store to a mapped journal file failed. Its device could not serve a page (the kernel's log \
has the device), or somebody made the file shorter. The broker ends here; started again, it reads from the journal what is \
readable.\n";

static INSTALLED: Once = Once::new();

/// From now on the process says so before it ends that way.
pub(crate) fn tell() {
    INSTALLED.call_once(|| {
        // SAFETY: the structure is plain data and filled in; the handler does nothing that a handler may not do.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = on_bus_error as extern "C" fn(libc::c_int) as usize;
            // The failed store is repeated when the handler returns, and then the system's own action is in place.
            action.sa_flags = libc::SA_RESETHAND | libc::SA_ONSTACK;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(libc::SIGBUS, &raw const action, std::ptr::null_mut());
        }
    });
}

extern "C" fn on_bus_error(_signal: libc::c_int) {
    // SAFETY: the bytes are static, and write is one of the calls that a signal handler may make.
    unsafe { libc::write(libc::STDERR_FILENO, TOLD.as_ptr().cast(), TOLD.len()) };
}
