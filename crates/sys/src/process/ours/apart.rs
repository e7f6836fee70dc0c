//! A separate table of descriptors, for threads of ours.
//!
//! How it works: the kernel keeps descriptors in a table that threads of a process share only
//! because they are asked to. `close_range` with `CLOSE_RANGE_UNSHARE` gives the calling thread an
//! empty one of its own, without a copy of the host's in between: nothing that the host closes
//! stays open because of us. Threads that it starts share it.
//!
//! ```text
//!   host's threads        0 1 2 3 4 ...            as without us; what /proc/PID/fd shows
//!   threads of ours       0 1 2 (this process)     switch records, files of /proc, captures
//! ```
//!
//! Numbers 0 to 2 are pidfds of this process, so that nothing that is meant for stderr gets into a
//! file; `borrow` gets descriptors of the host's through number 0.
//!
//! What it promises: what such a thread opens takes none of the host's numbers, not for a moment,
//! and none of its limit; the host's `close`, `closefrom` and `dup2` do not reach it; a forked
//! child does not get it. A descriptor is of its table: on a thread of the other one it is an error
//! to read it, and dropping it there leaves it open (`Fd`).
//!
//! What it needs: Linux 5.9, and a seccomp profile that lets `pidfd_open`, `pidfd_getfd` and
//! `close_range` through (Docker's lets them with CAP_SYS_PTRACE). Elsewhere ours are in the host's
//! table, within `allowance`.
//! What is missing on purpose: threads that resolve names stay in the host's table, since libraries
//! keep descriptors of their own there (sssd's). docs/internals/descriptors.md lists everything.

use std::cell::Cell;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

/// The host's table.
pub(super) const HOSTS: u32 = 0;

thread_local! {
    static TABLE: Cell<u32> = const { Cell::new(HOSTS) };
}

/// Number of the next table. Relaxed: only uniqueness matters.
static NEXT: AtomicU32 = AtomicU32::new(HOSTS + 1);
/// Descriptors open in tables of ours. Relaxed: a counter.
static OPEN: AtomicUsize = AtomicUsize::new(0);

const SYS_PIDFD_OPEN: libc::c_long = 434;
const SYS_CLOSE_RANGE: libc::c_long = 436;
const SYS_PIDFD_GETFD: libc::c_long = 438;
const CLOSE_RANGE_UNSHARE: libc::c_uint = 2;
/// The descriptor of this process, in a table of ours.
const PIDFD: RawFd = 0;
/// Numbers up to this one may be taken for streams.
const LAST_STREAM: RawFd = 2;

/// The table of the calling thread.
pub(super) fn table() -> u32 {
    TABLE.get()
}

/// Whether the calling thread has a table of ours.
pub fn is_apart() -> bool {
    table() != HOSTS
}

/// A new thread has the table of the one that started it, `of`.
pub(crate) fn inherit(of: u32) {
    TABLE.set(of);
}

/// The calling thread's table, for a thread that it starts.
pub(crate) fn heritage() -> u32 {
    table()
}

/// Gives the calling thread, which must be ours and hold no descriptor, a table of its own. Errors:
/// this kernel, or a seccomp profile, does not allow it; nothing has changed then.
pub fn move_apart() -> io::Result<()> {
    if is_apart() {
        return Ok(());
    }
    probe()?;
    // SAFETY: the call touches no memory. It closes nothing of the host's: the range is left out of
    // the copy, and this thread uses only the copy from now on.
    let done = unsafe { libc::syscall(SYS_CLOSE_RANGE, 0, i32::MAX, CLOSE_RANGE_UNSHARE) };
    if done != 0 {
        return Err(io::Error::last_os_error());
    }
    TABLE.set(NEXT.fetch_add(1, Ordering::Relaxed));
    for _ in PIDFD..=LAST_STREAM {
        // An error: no limit, or no memory. Then `borrow` is an error, too.
        let _ = pidfd();
    }
    Ok(())
}

/// Whether the calls exist and are allowed: called with arguments that the kernel refuses only
/// after it has checked that.
fn probe() -> io::Result<()> {
    // SAFETY: no memory is involved, and there are no such process and descriptor.
    let answers = unsafe {
        let open = libc::syscall(SYS_PIDFD_OPEN, -1, 0);
        let open = (open, io::Error::last_os_error());
        let get = libc::syscall(SYS_PIDFD_GETFD, -1, 0, 0);
        [(open, libc::EINVAL), ((get, io::Error::last_os_error()), libc::EBADF)]
    };
    for ((_, error), expected) in answers {
        if error.raw_os_error() != Some(expected) {
            return Err(error);
        }
    }
    Ok(())
}

fn pidfd() -> io::Result<RawFd> {
    // SAFETY: no memory is involved. The descriptor is kept for the life of the table.
    let fd = unsafe { libc::syscall(SYS_PIDFD_OPEN, libc::getpid(), 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(fd as RawFd)
}

/// A descriptor of the host's, as one of the calling thread's table, which must be ours. It is the
/// same open file, so close it at once: the host's own `close` ends nothing until then.
pub(super) fn borrow(host: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: no memory is involved.
    let fd = unsafe { libc::syscall(SYS_PIDFD_GETFD, PIDFD, host, 0) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just returned it as a new descriptor, so it has no other owner.
    Ok(unsafe { OwnedFd::from_raw_fd(fd as RawFd) })
}

/// Calls `ask` with a number of the calling thread's table that leads to what `fd` does in the
/// host's. None: nothing is open there.
pub(crate) fn with_hosts<T>(fd: RawFd, ask: impl FnOnce(RawFd) -> T) -> Option<T> {
    if !is_apart() {
        return Some(ask(fd));
    }
    let borrowed = borrow(fd).ok()?;
    Some(ask(borrowed.as_raw_fd()))
}

/// Descriptors open in tables of ours.
pub(super) fn count() -> usize {
    OPEN.load(Ordering::Relaxed)
}

pub(super) fn opened() {
    OPEN.fetch_add(1, Ordering::Relaxed);
}

pub(super) fn closed() {
    OPEN.fetch_sub(1, Ordering::Relaxed);
}

/// In a forked child, which has none of them.
pub(super) fn forget() {
    OPEN.store(0, Ordering::Relaxed);
}
