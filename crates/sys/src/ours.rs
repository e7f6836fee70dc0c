//! The descriptors that belong to us, so that a forked child can close them.
//!
//! How it works: every descriptor we keep open is an `Fd`, which enters itself into a fixed table
//! of atomics and leaves it when dropped. In a forked child the objects that own the descriptors
//! may be anywhere (on the stack of a thread that does not exist there); the table is all it needs.
//!
//! Their numbers are above those that `select` can take, where the host's limit leaves room there: with hundreds of
//! threads we keep a thousand files open, and what the host opens next must not get a number it cannot use.
//!
//! What it promises: `close_all` only loads, stores and closes, so it may run between fork and the
//! host's first own code. More than `SLOTS` descriptors: the surplus stays open in children.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};

const SLOTS: usize = 8192;
/// Descriptor + 1, or 0. Written by the owner of the slot; read by a child that is alone, and to be counted.
/// Relaxed: fork itself orders what the child sees, and a count is of no instant.
static TABLE: [AtomicI32; SLOTS] = [const { AtomicI32::new(0) }; SLOTS];
/// Where the next search for a free slot begins.
static NEXT: AtomicUsize = AtomicUsize::new(0);

/// First number we use where we can, which is that of FD_SETSIZE, and the limit from which on we can.
pub(crate) const HIGH_FD: (RawFd, u64) = (1024, 4096);

/// A descriptor of ours.
#[derive(Debug)]
pub struct Fd {
    fd: OwnedFd,
    slot: Option<usize>,
}

fn enter(fd: RawFd) -> Option<usize> {
    let entry = fd + 1;
    let start = NEXT.fetch_add(1, Ordering::Relaxed);
    (0..SLOTS).map(|i| (start + i) % SLOTS).find(|i| {
        let free = TABLE[*i].load(Ordering::Relaxed) == 0;
        let take = || TABLE[*i].compare_exchange(0, entry, Ordering::Relaxed, Ordering::Relaxed);
        free && take().is_ok()
    })
}

/// The same file under a high number. The copy is closed on exec.
fn out_of_the_way(fd: OwnedFd) -> OwnedFd {
    if fd.as_raw_fd() >= HIGH_FD.0 || descriptor_limit() < HIGH_FD.1 {
        return fd;
    }
    // SAFETY: duplicates a descriptor we own; no memory is involved.
    let high = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, HIGH_FD.0) };
    if high < 0 {
        return fd;
    }
    // SAFETY: the kernel has just returned `high` as a new descriptor, so nobody else owns it.
    unsafe { OwnedFd::from_raw_fd(high) }
}

impl From<OwnedFd> for Fd {
    fn from(fd: OwnedFd) -> Fd {
        let fd = out_of_the_way(fd);
        let slot = enter(fd.as_raw_fd());
        Fd { fd, slot }
    }
}

/// Says that a descriptor whose owner is of another type is ours. To be dropped before the
/// descriptor is closed: its number may be the host's behind that.
#[derive(Debug)]
#[must_use]
pub struct Noted {
    slot: Option<usize>,
}

/// Notes a descriptor of ours for as long as what this returns lives.
pub fn note(fd: RawFd) -> Noted {
    Noted { slot: enter(fd) }
}

impl Drop for Noted {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            TABLE[slot].store(0, Ordering::Relaxed);
        }
    }
}

impl From<File> for Fd {
    fn from(file: File) -> Fd {
        OwnedFd::from(file).into()
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        if let Some(slot) = self.slot {
            TABLE[slot].store(0, Ordering::Relaxed);
        }
    }
}

impl AsFd for Fd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

impl AsRawFd for Fd {
    fn as_raw_fd(&self) -> RawFd {
        self.fd.as_raw_fd()
    }
}

impl Fd {
    /// Reads at `offset` without moving the file's position.
    pub fn read_at(&self, buf: &mut [u8], offset: i64) -> io::Result<usize> {
        // SAFETY: `buf` is ours and writable for its whole length; the descriptor is open.
        let n =
            unsafe { libc::pread(self.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len(), offset) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }
}

/// A copy of the process's stderr, to be given to a child. Errors: it is closed.
pub fn own_stderr() -> io::Result<OwnedFd> {
    std::io::stderr().as_fd().try_clone_to_owned()
}

/// How many descriptors of ours are open. Some microseconds.
pub fn count() -> usize {
    TABLE.iter().filter(|slot| slot.load(Ordering::Relaxed) != 0).count()
}

/// How many of them have numbers from `HIGH_FD` on.
pub(crate) fn count_high() -> usize {
    TABLE.iter().filter(|slot| slot.load(Ordering::Relaxed) > HIGH_FD.0).count()
}

/// In a forked child: closes every descriptor of ours that came with the fork. The objects that
/// own them must never be dropped or used in this process.
pub fn close_all() {
    for slot in &TABLE {
        let entry = slot.swap(0, Ordering::Relaxed);
        if entry > 0 {
            // SAFETY: the number was ours in the parent; nobody in this child owns it (see above).
            unsafe { libc::close(entry - 1) };
        }
    }
}

/// The soft limit of open descriptors of this process: the host's and ours.
pub fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is ours and of the type the call fills.
    unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) };
    limit.rlim_cur
}
