//! Waits for descriptors: which one, how many, and whether it is a connection being made.
//!
//! How it works: the array of `poll` and the bit sets of `select` are copied through the guarded
//! reader while the thread is blocked; the kernel writes its answers into them only at the end, so
//! what is read is the question. Of long ones only the beginning is looked at.
//!
//! What it does not: look into an epoll instance. What is registered there takes a read of its
//! fdinfo, and waiting on one is what idle event loops do.

use super::timeout::{length, microseconds, milliseconds, Timeout};
use super::{nr, Wait, WaitKind};
use crate::fds;
use crate::mem::Reader;

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
    /// As many entries as are looked at; the first good one is what we are after.
    const LOOKED_AT: usize = 16;
    let count = u32::try_from(args[1]).unwrap_or(u32::MAX);
    if count == 0 {
        return Wait::of(WaitKind::Sleep);
    }
    let mut buf = [0u8; 8 * LOOKED_AT];
    let bytes = &mut buf[..8 * LOOKED_AT.min(count as usize)];
    if mem.read(args[0] as usize, bytes).is_err() {
        return Wait { fds: count, ..Wait::of(WaitKind::Poll) };
    }
    let entries = bytes.chunks_exact(8).map(|e| {
        let fd = i32::from_ne_bytes([e[0], e[1], e[2], e[3]]);
        (fd, i16::from_ne_bytes([e[4], e[5]]))
    });
    let mut used = entries.filter(|(fd, _)| *fd >= 0);
    match used.next() {
        Some((fd, events)) => Wait { fds: count, ..ready(fd, wants_only_to_write(events)) },
        None if count as usize <= LOOKED_AT => Wait::of(WaitKind::Sleep),
        None => Wait { fds: count, ..Wait::of(WaitKind::Poll) },
    }
}

fn wants_only_to_write(events: i16) -> bool {
    let read = libc::POLLIN | libc::POLLPRI | libc::POLLRDNORM | libc::POLLRDBAND;
    events & libc::POLLOUT != 0 && events & read == 0
}

/// A descriptor waited for until it is ready; to be written to only, it may be connecting.
fn ready(fd: i32, to_write: bool) -> Wait {
    match to_write && fds::is_connecting(fd) {
        true => Wait::on(WaitKind::Connect, fd),
        false => Wait::on(WaitKind::Poll, fd),
    }
}

/// `select` and `pselect6`: args are the number of bits and the sets to read, write and except.
fn select(args: &[u64; 6], mem: &Reader) -> Wait {
    /// The kernel takes more than FD_SETSIZE; the bits behind these are not looked at.
    const WORDS: usize = 64;
    let words = (args[0] as usize).div_ceil(64).min(WORDS);
    let mut all = [0u64; WORDS];
    let mut to_read = false;
    for (set, address) in args[1..4].iter().enumerate() {
        let mut buf = [0u8; 8 * WORDS];
        let bytes = &mut buf[..8 * words];
        if *address == 0 || mem.read(*address as usize, bytes).is_err() {
            continue;
        }
        for (word, bits) in all.iter_mut().zip(bytes.chunks_exact(8)) {
            let bits = bits.try_into().map_or(0, u64::from_ne_bytes);
            to_read |= set == 0 && bits != 0;
            *word |= bits;
        }
    }
    let first = all.iter().position(|word| *word != 0);
    let Some(first) = first else {
        let nothing = args[1..4].iter().all(|address| *address == 0) || words == 0;
        let kind = if nothing { WaitKind::Sleep } else { WaitKind::Poll };
        return Wait::of(kind);
    };
    let fd = first as i32 * 64 + all[first].trailing_zeros() as i32;
    Wait { fds: all.iter().map(|word| word.count_ones()).sum(), ..ready(fd, !to_read) }
}
