//! The process's stderr without the lock that Rust's library keeps for it.
//!
//! Number 2 need not be stderr: a program that runs without one gets the number for the next file
//! or socket that it opens. So what is behind it is stored when recording first begins (`note`),
//! and a line goes there while that is unchanged, or to something that programs send their stderr
//! to later: a terminal, a pipe, a file open for appending, /dev/null. Nothing of ours is written
//! to anything else.
//!
//! What it promises: a thread that was writing to stderr when another one forked holds nothing that
//! the child waits for. A line is one system call unless the kernel takes only a part of it, so
//! lines of several threads do not mix in a pipe up to 4 KiB.

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::ours::{mark, with_hosts};

/// What number 2 led to when it was stored; `CLOSED`; 0: not stored. Written once, read before each
/// line. Relaxed: nothing else depends on it.
static NOTED: AtomicU64 = AtomicU64::new(0);
/// Different from all marks, which are odd.
const CLOSED: u64 = 2;

/// Stores number 2 as stderr if it is open. The first call counts, also for forked children: what
/// has the number later may be anything.
pub fn note() {
    let now = with_hosts(libc::STDERR_FILENO, mark).flatten().unwrap_or(CLOSED);
    let _ = NOTED.compare_exchange(0, now, Ordering::Relaxed, Ordering::Relaxed);
}

/// Whether `fd`, which leads to what the host's number 2 does, leads to a stderr.
pub(crate) fn is_stderr(fd: RawFd) -> bool {
    let noted = NOTED.load(Ordering::Relaxed);
    match mark(fd) {
        None => false,
        Some(mark) => noted == 0 || mark == noted || is_usual(fd),
    }
}

/// Whether programs send their stderr to files of this type.
fn is_usual(fd: RawFd) -> bool {
    // SAFETY: an all-zero stat is a valid value, and fstat only writes into it.
    let stat = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &mut stat) == 0).then_some(stat)
    };
    let Some(stat) = stat else { return false };
    match stat.st_mode & libc::S_IFMT {
        // A terminal, or /dev/null.
        libc::S_IFCHR | libc::S_IFIFO => true,
        // SAFETY: asks for flags; no memory is involved.
        libc::S_IFREG => unsafe { libc::fcntl(fd, libc::F_GETFL) & libc::O_APPEND != 0 },
        _ => false,
    }
}

/// Writes a line. An error (stderr is closed, full, or gone) is ignored; it is the host's. Waits as
/// long as the kernel does. Allocates.
pub fn line(text: &str) {
    let line = [text.as_bytes(), b"\n"].concat();
    // None: it is closed.
    let _ = with_hosts(libc::STDERR_FILENO, |stderr| {
        if is_stderr(stderr) {
            put(stderr, &line);
        }
    });
}

fn put(stderr: RawFd, line: &[u8]) {
    let mut left = line;
    while !left.is_empty() {
        // SAFETY: `left` is readable for its whole length.
        let put = unsafe { libc::write(stderr, left.as_ptr().cast(), left.len()) };
        match usize::try_from(put) {
            Ok(put @ 1..) => left = left.get(put..).unwrap_or_default(),
            Err(_) if std::io::Error::last_os_error().raw_os_error() == Some(libc::EINTR) => (),
            _ => return,
        }
    }
}
