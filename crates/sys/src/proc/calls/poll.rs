//! Waits for descriptors: which ones, how many, and whether it is a connection being made.
//!
//! How it works: the array of `poll` and the bit sets of `select` are copied through the guarded
//! reader while the thread is blocked; the kernel writes its answers into them only at the end, so
//! the copy has the caller's question. Of long ones only the beginning is read.
//!
//! What is missing on purpose: the members of an epoll instance. They take a read of its fdinfo
//! (`crate::epoll`), and waiting on one is what idle event loops do.

use super::nr;
use super::timeout::{length, microseconds, milliseconds, Timeout};
use super::wait::{Polled, Wait, WaitKind, NAMED};
use crate::fds;
use crate::mem::Reader;

/// Whether a call waits for descriptors to become ready.
pub fn polls(nr: i64) -> bool {
    let of_all =
        [libc::SYS_ppoll, libc::SYS_pselect6, libc::SYS_epoll_pwait, libc::SYS_epoll_pwait2];
    of_all.contains(&nr) || [nr::POLL, nr::SELECT, nr::EPOLL_WAIT].contains(&nr)
}

/// The row of `poll`, `select` and `epoll` in `calls`; None for other calls.
pub(super) fn meaning(nr: i64, args: &[u64; 6], mem: &Reader) -> Option<Wait> {
    let (wait, timeout) = match nr {
        nr::POLL => (poll(args, mem), milliseconds(args[2])),
        libc::SYS_ppoll => (poll(args, mem), length(args[2], mem)),
        nr::SELECT => (select(args, mem), microseconds(args[4], mem)),
        libc::SYS_pselect6 => (select(args, mem), length(args[4], mem)),
        nr::EPOLL_WAIT | libc::SYS_epoll_pwait => {
            (Wait::on(WaitKind::Poll, args[0] as i32), milliseconds(args[3]))
        }
        libc::SYS_epoll_pwait2 => (Wait::on(WaitKind::Poll, args[0] as i32), length(args[3], mem)),
        libc::SYS_io_uring_enter => (Wait::on(WaitKind::Poll, args[0] as i32), Timeout::None),
        _ => return None,
    };
    Some(wait.limited(timeout))
}

/// `poll` and `ppoll`: args are the array of struct pollfd (descriptor, events; 8 bytes) and its
/// length. Entries with a negative descriptor are ignored, as the kernel does.
fn poll(args: &[u64; 6], mem: &Reader) -> Wait {
    /// The number of entries that are read; the first valid ones are enough.
    const ENTRIES_MAX: usize = 16;
    let count = u32::try_from(args[1]).unwrap_or(u32::MAX);
    if count == 0 {
        return Wait::of(WaitKind::Sleep);
    }
    let mut buf = [0u8; 8 * ENTRIES_MAX];
    let bytes = &mut buf[..8 * ENTRIES_MAX.min(count as usize)];
    if mem.read(args[0] as usize, bytes).is_err() {
        return Wait { fds: count, ..Wait::of(WaitKind::Poll) };
    }
    let entries = bytes.chunks_exact(8).map(|e| {
        let fd = i32::from_ne_bytes([e[0], e[1], e[2], e[3]]);
        Polled { fd, writes: wants_only_to_write(i16::from_ne_bytes([e[4], e[5]])) }
    });
    let ignored = entries.clone().filter(|entry| entry.fd < 0).count() as u32;
    match ready(entries.filter(|entry| entry.fd >= 0), true) {
        Some(wait) => Wait { fds: count - ignored, ..wait },
        None if count as usize <= ENTRIES_MAX => Wait::of(WaitKind::Sleep),
        None => Wait { fds: count, ..Wait::of(WaitKind::Poll) },
    }
}

fn wants_only_to_write(events: i16) -> bool {
    let read = libc::POLLIN | libc::POLLPRI | libc::POLLRDNORM | libc::POLLRDBAND;
    events & libc::POLLOUT != 0 && events & read == 0
}

/// A wait for descriptors until one is ready. `connects`: the first may be a connection being made,
/// if it is waited for until it can be written to only. None: there are no descriptors.
fn ready(mut used: impl Iterator<Item = Polled>, connects: bool) -> Option<Wait> {
    let mut set = [None; NAMED];
    set.fill_with(|| used.next());
    let first = set[0]?;
    let connecting = connects && first.writes && fds::is_connecting(first.fd);
    let kind = if connecting { WaitKind::Connect } else { WaitKind::Poll };
    Some(Wait { set, ..Wait::on(kind, first.fd) })
}

/// `select` and `pselect6`: args are the number of bits and the sets to read, write and except.
fn select(args: &[u64; 6], mem: &Reader) -> Wait {
    /// The kernel takes more than FD_SETSIZE; the bits behind these are not read.
    const WORDS: usize = 64;
    let words = (args[0] as usize).div_ceil(64).min(WORDS);
    let (mut all, mut to_read) = ([0u64; WORDS], [0u64; WORDS]);
    for (set, address) in args[1..4].iter().enumerate() {
        let mut buf = [0u8; 8 * WORDS];
        let bytes = &mut buf[..8 * words];
        if *address == 0 || mem.read(*address as usize, bytes).is_err() {
            continue;
        }
        for (i, bits) in bytes.chunks_exact(8).enumerate() {
            let bits = bits.try_into().map_or(0, u64::from_ne_bytes);
            all[i] |= bits;
            to_read[i] |= if set == 0 { bits } else { 0 };
        }
    }
    let bits = (0..64 * words).filter(|bit| all[bit / 64] >> (bit % 64) & 1 == 1);
    let writes = |bit: usize| to_read[bit / 64] >> (bit % 64) & 1 == 0;
    // A set to read, whatever is in it: a connection is not made with that.
    let reads = to_read.iter().any(|word| *word != 0);
    match ready(bits.map(|bit| Polled { fd: bit as i32, writes: writes(bit) }), !reads) {
        Some(wait) => Wait { fds: all.iter().map(|word| word.count_ones()).sum(), ..wait },
        None => {
            let nothing = args[1..4].iter().all(|address| *address == 0) || words == 0;
            Wait::of(if nothing { WaitKind::Sleep } else { WaitKind::Poll })
        }
    }
}
