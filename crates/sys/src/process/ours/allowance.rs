//! How many descriptors dashcam may keep in the host's table, and their numbers: those of threads
//! without a table of their own (`apart`).
//!
//! How it works: one budget for everything: an eighth of the soft limit (`RLIMIT_NOFILE`), `SLOTS`
//! at most. Descriptors that we cannot do without (a listening socket, a file being written) are
//! counted and opened in any case: a handful. All other code calls `has_room` before it opens
//! something to keep, and does without, or opens for one read, when there is none. While the
//! program itself comes near its limit there is no room at all, and kept descriptors are given back
//! (`is_tight`).
//!
//! ```text
//!   limit 256:    0 ............ the host's ............ 224 ... ours ... 255
//!   limit 20000:  0 .. the host's .. 1024 ... ours, 2500 at most ... the host's ... 19999
//! ```
//!
//! What it promises: the host can open seven eighths of its limit at any time. Numbers below 1,024,
//! the only ones that `select` can take, are the host's own where the limit is 4,096 or more; below
//! that ours are at the top end of the range. The limit itself is never changed: the host would see
//! that. What it does not: a descriptor has the lowest free number for the microsecond before it is
//! moved up.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use super::{apart, table};

/// We take one in so many of the descriptors that the host may have.
const PART: usize = 8;
/// Of these, this many are left for files that are opened for one read, or while a capture is
/// written.
const FOR_A_MOMENT: usize = 6;
/// First number of ours where the limit is `ROOMY` or more: that of FD_SETSIZE.
pub(crate) const HIGH_FD: RawFd = 1024;
const ROOMY: u64 = 4096;
/// The limit that is assumed where it cannot be read: the default of most systems.
const USUAL_LIMIT: u64 = 1024;
/// The host is near its limit while less than one in so many of its descriptors are free, and no
/// more once one in `EASY` are. Far enough apart that giving back ours does not end it.
const TIGHT: u64 = 8;
const EASY: u64 = 3;

/// The host is near its limit. Written by `check_room`, read before a descriptor is opened to be
/// kept. Relaxed: nothing else depends on it.
static IS_TIGHT: AtomicBool = AtomicBool::new(false);
/// Times that code of ours did without a descriptor; descriptors given back because the host needs
/// them; descriptors that the host had closed. Relaxed: counters.
static REFUSED: AtomicU64 = AtomicU64::new(0);
static GIVEN_BACK: AtomicU64 = AtomicU64::new(0);
static CLOSED_BY_HOST: AtomicU64 = AtomicU64::new(0);

/// Counts since the process began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Times something was opened for one read, or left out, because there was no room to keep it.
    pub refused: u64,
    /// Descriptors given back since the host was near its limit.
    pub given_back: u64,
    /// Descriptors of ours that other code had closed.
    pub closed_by_host: u64,
}

/// The soft limit of open descriptors of this process: the host's and ours.
pub fn descriptor_limit() -> u64 {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is ours and of the type the call fills.
    match unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit) } {
        0 => limit.rlim_cur,
        // A seccomp profile refuses the call.
        _ => USUAL_LIMIT,
    }
}

/// The largest number of descriptors that we keep in the table of the calling thread: in a table of
/// ours all but an eighth, which is for descriptors opened without `has_room`.
pub fn most() -> usize {
    let limit = usize::try_from(descriptor_limit()).unwrap_or(usize::MAX);
    let share = if apart::is_apart() { limit - limit / PART } else { limit / PART };
    share.min(table::SLOTS)
}

/// Whether `more` descriptors may be opened to be kept by the calling thread.
pub fn has_room(more: usize) -> bool {
    match apart::is_apart() {
        true => apart::count() + more <= most(),
        false => {
            let tight = IS_TIGHT.load(Ordering::Relaxed);
            !tight && table::count() + more + FOR_A_MOMENT <= most()
        }
    }
}

/// Code of ours did without a descriptor, or opened it for one read.
pub fn count_refused() {
    REFUSED.fetch_add(1, Ordering::Relaxed);
}

/// Whether the kernel had no descriptor left for us. If so nothing is kept until there are some
/// again.
pub fn is_shortage(error: &io::Error) -> bool {
    let none = matches!(error.raw_os_error(), Some(libc::EMFILE | libc::ENFILE));
    if none {
        count_refused();
        if !apart::is_apart() {
            IS_TIGHT.store(true, Ordering::Relaxed);
        }
    }
    none
}

/// So many were given back.
pub fn count_given_back(descriptors: usize) {
    GIVEN_BACK.fetch_add(descriptors as u64, Ordering::Relaxed);
}

pub(super) fn count_closed_by_host() {
    CLOSED_BY_HOST.fetch_add(1, Ordering::Relaxed);
}

/// The counters.
pub fn counts() -> Counts {
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    Counts {
        refused: get(&REFUSED),
        given_back: get(&GIVEN_BACK),
        closed_by_host: get(&CLOSED_BY_HOST),
    }
}

/// Whether the host, when last checked, was near its limit and needs what the calling thread has
/// open.
pub fn is_tight() -> bool {
    !apart::is_apart() && IS_TIGHT.load(Ordering::Relaxed)
}

/// Checks whether the host is near its limit, from how many descriptors are open in its table.
pub fn check_room(open: u64) {
    let (limit, was) = (descriptor_limit(), IS_TIGHT.load(Ordering::Relaxed));
    let free = limit.saturating_sub(open);
    let part = if was { EASY } else { TIGHT };
    IS_TIGHT.store(free < limit / part, Ordering::Relaxed);
}

/// How many descriptors are open in the host's table, if the kernel has that (6.2): 1 us.
pub fn open_in_all() -> Option<u64> {
    let folder = std::fs::metadata("/proc/self/fd").ok()?;
    Some(folder.len()).filter(|open| *open > 0)
}

/// The same file under a high number, where the host does not need it. The copy is closed on exec.
/// If there is no such number, the descriptor as it was.
pub(super) fn out_of_the_way(fd: OwnedFd) -> OwnedFd {
    let limit = descriptor_limit();
    let first = match limit >= ROOMY {
        true => HIGH_FD,
        false => RawFd::try_from(limit - (limit / PART as u64).min(limit)).unwrap_or(HIGH_FD),
    };
    if fd.as_raw_fd() >= first {
        return fd;
    }
    // SAFETY: duplicates a descriptor we own; no memory is involved.
    let high = unsafe { libc::fcntl(fd.as_raw_fd(), libc::F_DUPFD_CLOEXEC, first) };
    if high < 0 {
        return fd;
    }
    // SAFETY: the kernel has just returned `high` as a new descriptor, so it has no other owner.
    unsafe { OwnedFd::from_raw_fd(high) }
}
