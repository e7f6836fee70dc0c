//! The members of an epoll instance of this process.
//!
//! How it works: the kernel lists them in /proc/self/fdinfo/N, a line for each descriptor: its
//! number, the events, and the inode of the file it was registered for. A number that leads to
//! another file by now is left out, and so is a member that has fired and was not armed again
//! (EPOLLONESHOT).
//!
//! | reads | emits | from |
//! | --- | --- | --- |
//! | /proc/self/fdinfo/N, `tfd:` lines | descriptors, how many | 3.8; inodes 4.13 |
//! | size of /proc/self/fd (before 6.2 its entries, counted) | how many are open | 2.6 |
//!
//! What it promises: nothing blocks for long, and the cost is bounded. However little of the list
//! is read, the kernel makes all of it, with the instance locked, once for each doubling of its
//! buffer: measured 10 us for 10 descriptors, 60 for 100, 450 for 500, and 10,700 us for 10,000. So
//! if the host has more than `MOST_OPEN` descriptors open the list is not read; of a list,
//! `MOST_BYTES` are read. What it does not: which members will be ready, and an answer that still
//! holds when it is returned.

use std::io::Read;
use std::os::fd::RawFd;

use crate::{fds, kept, ours};

/// Descriptors that the host may have open.
const MOST_OPEN: usize = 512;
/// Of the list: about 100 lines.
const MOST_BYTES: u64 = 8 * 1024;
/// This many members are listed; the others are only counted.
const MOST_NAMED: usize = 32;

/// The members, as far as they were read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Members {
    /// Descriptors, in no order of the program's.
    pub fds: Vec<RawFd>,
    /// How many there are besides.
    pub more: u32,
    /// Whether the list went on behind what was read.
    pub cut: bool,
}

/// The members of the epoll instance `epoll`. None: they cannot be read, or that would cost too
/// much.
pub fn members(epoll: RawFd) -> Option<Members> {
    if are_many_open() {
        return None;
    }
    let file = std::fs::File::open(format!("/proc/self/fdinfo/{epoll}")).ok()?;
    let mut text = Vec::with_capacity(MOST_BYTES as usize);
    file.take(MOST_BYTES).read_to_end(&mut text).ok()?;
    Some(parse(&text, text.len() as u64 >= MOST_BYTES, |fd, inode| {
        inode.is_none() || inode == fds::inode(fd)
    }))
}

/// Whether the host has more descriptors open than `MOST_OPEN`; ours do not count.
fn are_many_open() -> bool {
    let most = MOST_OPEN + ours::count();
    match std::fs::metadata("/proc/self/fd") {
        Ok(folder) if folder.len() > 0 => folder.len() > most as u64,
        // Listing stops with the block of entries in which there are too many.
        _ => std::fs::read_dir("/proc/self/fd").map_or(0, |all| all.take(most + 1).count()) > most,
    }
}

/// `tfd:        5 events:       19 data:                5  pos:0 ino:61 sdev:8`: number decimal,
/// events and inode hexadecimal. `is_same`: whether a number still leads to the file with that
/// inode.
fn parse(text: &[u8], cut: bool, is_same: impl Fn(RawFd, Option<u64>) -> bool) -> Members {
    let mut found = Members { cut, ..Members::default() };
    // Behind the last line's end lies nothing, or a line that was cut.
    let whole = text.iter().rposition(|byte| *byte == b'\n').unwrap_or(0);
    for line in text[..whole].split(|byte| *byte == b'\n') {
        let Some((fd, inode)) = member(line) else { continue };
        match found.fds.len() < MOST_NAMED {
            true if is_same(fd, inode) => found.fds.push(fd),
            true => {}
            false => found.more += 1,
        }
    }
    found
}

fn member(line: &[u8]) -> Option<(RawFd, Option<u64>)> {
    /// Bits that say how events are delivered, not which: EPOLLET, EPOLLONESHOT, EPOLLWAKEUP,
    /// EPOLLEXCLUSIVE.
    const HOW: u64 = 0xf000_0000;
    let mut words = kept::words(line);
    let mut behind = |key: &[u8]| words.find(|word| *word == key).and(words.next());
    let fd = kept::decimal(behind(b"tfd:")?).ok()?;
    let events = hex(behind(b"events:")?)?;
    let inode = words.find_map(|word| word.strip_prefix(b"ino:")).and_then(hex);
    (events & !HOW != 0).then_some((RawFd::try_from(fd).ok()?, inode))
}

fn hex(digits: &[u8]) -> Option<u64> {
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;
    use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

    fn lines(fds: std::ops::Range<u32>) -> String {
        let line =
            |fd| format!("tfd: {fd:8} events: {:8x} data: {fd:16x}  pos:0 ino:{fd:x} sdev:8\n", 25);
        fds.map(line).collect()
    }

    #[test]
    fn members_are_listed_while_they_lead_to_the_same_file_and_no_bytes_panic() {
        let head = "pos:\t0\nflags:\t02\nmnt_id:\t15\nino:\t1057\n";
        let text =
            format!("{head}{}tfd: 9 events: 40000000 data: 0 pos:0 ino:9 sdev:8\n", lines(5..8));
        let found = parse(text.as_bytes(), false, |fd, inode| {
            assert_eq!(inode, Some(fd as u64));
            fd != 6
        });
        assert_eq!(found, Members { fds: vec![5, 7], more: 0, cut: false });
        // As kernels before 4.13 have it.
        assert_eq!(member(b"tfd: 5 events: 1 data: ffff"), Some((5, None)));
        for end in 0..text.len() {
            assert!(parse(&text.as_bytes()[..end], true, |_, _| true).fds.len() < 4);
        }
        for odd in ["", "tfd:", "tfd: x events: 1", "tfd: 5 events:", "tfd: 4294967296 events: 1"] {
            assert_eq!(member(odd.as_bytes()), None, "{odd}");
        }
    }

    #[test]
    fn of_many_members_some_are_listed_and_the_others_counted() {
        let found = parse(lines(0..90).as_bytes(), true, |_, _| true);
        assert_eq!((found.fds.len(), found.more, found.cut), (MOST_NAMED, 90 - 32, true));
    }

    fn owned(fd: i32) -> OwnedFd {
        assert!(fd >= 0, "{}", std::io::Error::last_os_error());
        // SAFETY: just returned by the kernel, so it has no other owner.
        unsafe { OwnedFd::from_raw_fd(fd) }
    }

    fn add(epoll: &OwnedFd, fd: &impl AsRawFd) {
        let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
        let (add, fd) = (libc::EPOLL_CTL_ADD, fd.as_raw_fd());
        // SAFETY: `event` lives through the call, which only reads it.
        let done = unsafe { libc::epoll_ctl(epoll.as_raw_fd(), add, fd, &mut event) };
        assert_eq!(done, 0, "{}", std::io::Error::last_os_error());
    }

    #[test]
    fn an_instance_lists_its_members_until_too_many_descriptors_are_open() {
        let done = testkit::in_a_child(|| {
            // SAFETY: these make descriptors; no memory is involved.
            let epoll = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) });
            assert_eq!(members(epoll.as_raw_fd()), Some(Members::default()));
            // SAFETY: as above.
            let event = || owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) });
            let pair = std::os::unix::net::UnixStream::pair().expect("sockets are there");
            add(&epoll, &pair.0);
            add(&epoll, &event());
            let found = members(epoll.as_raw_fd()).expect("few are open");
            // The closed one is registered no more.
            assert_eq!(found, Members { fds: vec![pair.0.as_raw_fd()], more: 0, cut: false });
            let many: Vec<OwnedFd> = (0..MOST_OPEN).map(|_| event()).collect();
            assert_eq!(members(epoll.as_raw_fd()), None);
            // Ours do not count.
            let notes: Vec<_> = many.iter().map(|fd| ours::note(fd.as_raw_fd())).collect();
            assert!(members(epoll.as_raw_fd()).is_some());
            drop(notes);
            0
        });
        assert_eq!(done, 0);
        assert_eq!(members(-1), None);
    }
}
