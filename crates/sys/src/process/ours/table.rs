//! The list of descriptors of ours: numbers, and what each of them led to when it was opened.
//!
//! How it works: a fixed table of atomics. A number alone proves nothing: a program that closes
//! descriptors it does not know (`closefrom`, a daemon's start) closes ours, too, and gets the same
//! number for a file of its own. So each entry has a *mark*: device and inode, for a perf event its
//! id in the kernel, mixed into one word. A number whose mark has changed is the program's.
//!
//! What it promises: `enter`, `leave` and `each` only load, store, and ask the kernel about a
//! descriptor, so they may run between fork and the host's first own code. What it does not: a
//! program that closes one of ours and opens its own between the check and the close is not
//! detected; that is some hundred nanoseconds, and cannot happen where our threads have a table of
//! their own (`apart`).

use std::os::fd::RawFd;
use std::sync::atomic::{AtomicI32, AtomicU64, AtomicUsize, Ordering};

/// Most descriptors of ours in the host's table at once.
pub(super) const SLOTS: usize = 8192;

/// The mark is not set yet.
const CLAIMED: i32 = -1;
/// Descriptor + 1, `CLAIMED`, or 0: free. Written by the owner of the slot; read by a child that is
/// alone, and for counts. Release and Acquire where a mark goes with it; else Relaxed: fork itself
/// orders what the child sees, and a count has no exact instant.
static NUMBERS: [AtomicI32; SLOTS] = [const { AtomicI32::new(0) }; SLOTS];
/// What each led to. Written by the owner of the slot before its number; read after the number.
static MARKS: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];
/// Where the next search for a free slot begins. Relaxed: a hint.
static NEXT: AtomicUsize = AtomicUsize::new(0);
/// Entries in use. Relaxed: a count has no exact instant.
static OPEN: AtomicUsize = AtomicUsize::new(0);

/// A descriptor's place in the list.
#[derive(Debug)]
pub(super) struct Entry {
    slot: usize,
}

/// What a descriptor of the calling thread's table leads to, as one word, always odd. None: nothing
/// is open there. Two system calls for a perf event, else one, 0.2 us. Async-signal-safe.
pub(crate) fn mark(fd: RawFd) -> Option<u64> {
    // SAFETY: an all-zero stat is a valid value, and fstat only writes into it.
    let stat = unsafe {
        let mut stat: libc::stat = std::mem::zeroed();
        (libc::fstat(fd, &mut stat) == 0).then_some(stat)
    }?;
    // Things without a type of file share one inode; of these we have perf events only.
    let event = if stat.st_mode & libc::S_IFMT == 0 { event_id(fd) } else { 0 };
    Some(mix(mix(mix(0, stat.st_dev), stat.st_ino), event) | 1)
}

/// The kernel's id of a perf event; 0 for all else.
fn event_id(fd: RawFd) -> u64 {
    /// _IOR('$', 7, u64 *).
    const IOC_ID: libc::c_ulong = 0x8008_2407;
    let mut id = 0u64;
    // SAFETY: the kernel writes 8 bytes to `id`, or nothing for what is no perf event.
    match unsafe { libc::ioctl(fd, IOC_ID as _, &raw mut id) } {
        0 => id,
        _ => 0,
    }
}

fn mix(hash: u64, word: u64) -> u64 {
    (hash.rotate_left(23) ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15)
}

/// Enters a descriptor. None: the table is full (a forked child will not close it).
pub(super) fn enter(fd: RawFd, mark: u64) -> Option<Entry> {
    let start = NEXT.fetch_add(1, Ordering::Relaxed);
    let slot = (0..SLOTS).map(|i| (start + i) % SLOTS).find(|slot| {
        let number = &NUMBERS[*slot];
        let take = || number.compare_exchange(0, CLAIMED, Ordering::Relaxed, Ordering::Relaxed);
        number.load(Ordering::Relaxed) == 0 && take().is_ok()
    })?;
    MARKS[slot].store(mark, Ordering::Relaxed);
    // Release: a thread that sees the number sees its mark.
    NUMBERS[slot].store(fd + 1, Ordering::Release);
    OPEN.fetch_add(1, Ordering::Relaxed);
    Some(Entry { slot })
}

impl Drop for Entry {
    fn drop(&mut self) {
        NUMBERS[self.slot].store(0, Ordering::Relaxed);
        OPEN.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether a number is in the list. Some microseconds.
pub(super) fn has(fd: RawFd) -> bool {
    NUMBERS.iter().any(|number| number.load(Ordering::Relaxed) == fd + 1)
}

/// How many are open.
pub(super) fn count() -> usize {
    OPEN.load(Ordering::Relaxed)
}

/// How many of them have numbers from `first` on. Some microseconds.
pub(super) fn count_from(first: RawFd) -> usize {
    NUMBERS.iter().filter(|number| number.load(Ordering::Relaxed) > first).count()
}

/// In a forked child: removes every entry, and passes each number that still leads to what it did
/// to `each`.
pub(super) fn take_all(mut each: impl FnMut(RawFd)) {
    if count() == 0 {
        return;
    }
    for (number, known) in NUMBERS.iter().zip(&MARKS) {
        let fd = number.swap(0, Ordering::Acquire) - 1;
        let known = known.load(Ordering::Relaxed);
        if fd >= 0 && (known == 0 || mark(fd) == Some(known)) {
            each(fd);
        }
    }
    OPEN.store(0, Ordering::Relaxed);
}
