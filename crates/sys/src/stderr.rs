//! The process's stderr without the lock that Rust's library keeps for it.
//!
//! What it promises: a thread that was writing to stderr when another one forked holds nothing that
//! the child waits for. A line is one system call unless the kernel takes only a part of it, so
//! lines of several threads do not mix in a pipe up to 4 KiB.

use std::os::fd::RawFd;

/// Writes a line. An error (stderr is closed, full, or gone) is the host's business: it is passed
/// over. Waits as long as the kernel does. Allocates.
pub fn line(text: &str) {
    let line = [text.as_bytes(), b"\n"].concat();
    // None: it is closed.
    let _ = crate::ours::with_hosts(libc::STDERR_FILENO, |stderr| put(stderr, &line));
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
