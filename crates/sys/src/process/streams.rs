//! Which of stdin, stdout and stderr a command was started without.
//!
//! How it works: Rust's library opens /dev/null in the place of each that is closed, before `main`.
//! A command that then becomes another program would pass it a descriptor that it would not have
//! without us. So this is checked when the file is loaded, before that, and `restore` closes what
//! was closed.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU8, Ordering};

/// A bit for each number that was closed. Written once, before `main`; Relaxed: there is one
/// thread.
static CLOSED: AtomicU8 = AtomicU8::new(0);

/// Called by the dynamic linker before Rust's start.
#[used]
#[link_section = ".init_array"]
static ASK: extern "C" fn() = ask;

extern "C" fn ask() {
    for fd in 0..3 as RawFd {
        // SAFETY: asks about a number; no memory is involved.
        if unsafe { libc::fcntl(fd, libc::F_GETFD) } < 0 {
            CLOSED.fetch_or(1 << fd, Ordering::Relaxed);
        }
    }
}

/// Closes those that were closed at the start: right before the process becomes another program.
pub fn restore() {
    let closed = CLOSED.load(Ordering::Relaxed);
    for fd in (0..3 as RawFd).filter(|fd| closed & 1 << fd != 0) {
        // SAFETY: Rust's library opened it in a place that had no other owner, and nothing that
        // matters is read from or written to it.
        unsafe { libc::close(fd) };
    }
}
