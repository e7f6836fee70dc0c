//! The descriptors of dashcam: their list, their allowed number, and the table that they are in.
//!
//! How it works: every descriptor we keep open is an `Fd`, which enters itself into a fixed table
//! of atomics (`table`) and leaves it when dropped. In a forked child the objects that own the
//! descriptors may be anywhere (on the stack of a thread that does not exist there); the table is
//! all it needs. `allowance` limits their number and gives them high numbers, where the host does
//! not need them. Threads of ours that keep many have a table of their own, where the kernel allows
//! it (`apart`): none of this is needed there.
//!
//! What it promises: `close_all` only loads, stores, asks the kernel and closes, so it may run
//! between fork and the host's first own code. Nothing here closes a descriptor of the host's, or
//! writes to one, though its number may once have been ours (`Fd::is_intact`).

mod allowance;
mod apart;
mod table;

pub(crate) use allowance::HIGH_FD;
pub use allowance::{
    check_room, count_given_back, count_refused, counts, descriptor_limit, has_room, is_shortage,
    is_tight, most, open_in_all, Counts,
};

pub(crate) use apart::{heritage, inherit, with_hosts};
pub use apart::{is_apart, move_apart};

use std::fs::File;
use std::io;
use std::mem::ManuallyDrop;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd, RawFd};

pub(crate) use table::mark;

use table::Entry;

/// A descriptor of ours.
#[derive(Debug)]
pub struct Fd {
    fd: ManuallyDrop<OwnedFd>,
    /// Number of the table that it is in.
    table: u32,
    /// What it led to when it was made; 0: the kernel refused, or no other code can reach it.
    mark: u64,
    entry: Option<Entry>,
}

impl From<OwnedFd> for Fd {
    fn from(fd: OwnedFd) -> Fd {
        let table = apart::table();
        if table != apart::HOSTS {
            apart::opened();
            return Fd { fd: ManuallyDrop::new(fd), table, mark: 0, entry: None };
        }
        let fd = allowance::out_of_the_way(fd);
        let mark = table::mark(fd.as_raw_fd()).unwrap_or(0);
        let entry = table::enter(fd.as_raw_fd(), mark);
        Fd { fd: ManuallyDrop::new(fd), table, mark, entry }
    }
}

/// Marks a descriptor whose owner is of another type as ours. Drop it before the descriptor is
/// closed: after that its number may be the host's.
#[derive(Debug)]
#[must_use]
pub struct Noted {
    _entry: Option<Entry>,
}

/// Lists a descriptor of ours as long as the result lives.
pub fn note(fd: RawFd) -> Noted {
    let enter = || table::enter(fd, table::mark(fd).unwrap_or(0));
    // A forked child does not get a table of ours.
    Noted { _entry: (!is_apart()).then(enter).flatten() }
}

impl From<File> for Fd {
    fn from(file: File) -> Fd {
        OwnedFd::from(file).into()
    }
}

impl Drop for Fd {
    fn drop(&mut self) {
        // Before it is closed: its number may be the host's behind that.
        self.entry = None;
        if self.table != apart::table() {
            // The number is another file's in this thread's table. It is closed with its own table.
            return;
        }
        match self.table == apart::HOSTS {
            true if !self.is_intact() => return allowance::count_closed_by_host(),
            true => (),
            false => apart::closed(),
        }
        // SAFETY: dropped once, here, and not used behind that.
        unsafe { ManuallyDrop::drop(&mut self.fd) };
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
    /// Whether its number still leads to what it did: the host may have closed it, and have got the
    /// number for a file of its own. Call it before a write, or a read that keeps its result. One
    /// system call; none in a table of ours.
    pub fn is_intact(&self) -> bool {
        if self.table != apart::HOSTS || apart::is_apart() {
            return self.table == apart::table();
        }
        table::mark(self.as_raw_fd()).is_some_and(|mark| mark == self.mark || self.mark == 0)
    }

    /// As `is_intact`, as an error: EBADF.
    pub fn check(&self) -> io::Result<()> {
        match self.is_intact() {
            true => Ok(()),
            false => Err(io::Error::from_raw_os_error(libc::EBADF)),
        }
    }

    /// Reads at `offset` without moving the file's position.
    pub fn read_at(&self, buf: &mut [u8], offset: i64) -> io::Result<usize> {
        if self.table != apart::table() {
            return Err(io::Error::from_raw_os_error(libc::EBADF));
        }
        // SAFETY: `buf` is ours and writable for its whole length; the descriptor is open.
        let n =
            unsafe { libc::pread(self.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len(), offset) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }
}

impl io::Write for Fd {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.check()?;
        // SAFETY: `bytes` is readable for its whole length; the descriptor is open.
        let n = unsafe { libc::write(self.as_raw_fd(), bytes.as_ptr().cast(), bytes.len()) };
        usize::try_from(n).map_err(|_| io::Error::last_os_error())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A copy of the process's stderr, to be passed to a child. Errors: it is closed, or its number is
/// another file's.
pub fn own_stderr() -> io::Result<OwnedFd> {
    let copy = match is_apart() {
        true => apart::borrow(libc::STDERR_FILENO),
        false => std::io::stderr().as_fd().try_clone_to_owned(),
    }?;
    match crate::stderr::is_stderr(copy.as_raw_fd()) {
        true => Ok(copy),
        false => Err(io::Error::from_raw_os_error(libc::EBADF)),
    }
}

/// Whether a descriptor of the host's table is ours, by its number. Some microseconds.
pub fn has(fd: RawFd) -> bool {
    table::has(fd)
}

/// How many descriptors of ours are open in the host's table.
pub fn count() -> usize {
    table::count()
}

/// How many are open in tables of our own.
pub fn count_apart() -> usize {
    apart::count()
}

/// How many of them have numbers from `HIGH_FD` on. Some microseconds.
pub(crate) fn count_high() -> usize {
    table::count_from(HIGH_FD)
}

/// In a forked child: closes every descriptor of ours that came with the fork. The objects that
/// own them must never be dropped or used in this process.
pub fn close_all() {
    table::take_all(|fd| {
        // SAFETY: it leads to what it did when it was ours, and it has no owner in this child (see
        // above).
        unsafe { libc::close(fd) };
    });
    apart::forget();
}
