//! A program that closes descriptors it does not know closes ours, and gets the same numbers for
//! files of its own: these are not closed, written to or read from, here and in forked children.

#![allow(clippy::expect_used, reason = "a test may fail")]

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsRawFd, RawFd};
use std::os::unix::net::UnixStream;

use sys::ours::{self, Fd};

fn is_open(fd: RawFd) -> bool {
    // SAFETY: asks about a number; no memory is involved.
    unsafe { libc::fcntl(fd, libc::F_GETFD) >= 0 }
}

/// The host closes `number` and makes it lead to what `file` does.
fn take_over(number: RawFd, file: &impl AsRawFd) {
    // SAFETY: replaces a descriptor by another; its former owner must detect that, which is what is
    // tested.
    assert_eq!(unsafe { libc::dup2(file.as_raw_fd(), number) }, number);
}

fn own_socket() -> (Fd, UnixStream) {
    let (ours, other) = UnixStream::pair().expect("sockets are there");
    (std::os::fd::OwnedFd::from(ours).into(), other)
}

#[test]
fn a_number_is_closed_while_it_leads_to_what_it_did() {
    let code = common::in_a_child(|| {
        let fd = Fd::from(File::open("/proc/self/stat").expect("opens"));
        let number = fd.as_raw_fd();
        assert!(fd.is_intact() && ours::count() == 1);
        drop(fd);
        assert!(!is_open(number) && ours::count() == 0);
        0
    });
    assert_eq!(code, 0);
}

#[test]
fn the_hosts_file_is_neither_closed_nor_written_to_nor_read() {
    let code = common::in_a_child(|| {
        let (hosts, mut peer) = UnixStream::pair().expect("sockets are there");
        peer.write_all(b"for the host").expect("written");
        let (mut fd, _other) = own_socket();
        let number = fd.as_raw_fd();
        take_over(number, &hosts);
        assert!(!fd.is_intact());
        assert!(fd.write(b"ours").is_err() && sys::send::send(&fd, b"ours").is_err());
        assert!(sys::local::write(&fd, b"ours").is_err());
        assert!(sys::local::read(&fd, &mut [0; 64]).is_err());
        assert!(sys::local::accept(&fd).is_err());
        sys::local::shut(&fd);
        drop(fd);
        assert!(is_open(number), "the host's was closed");
        let mut got = [0; 64];
        let length = (&hosts).read(&mut got).expect("not shut");
        assert_eq!(&got[..length], b"for the host");
        peer.set_nonblocking(true).expect("settable");
        assert!(peer.read(&mut got).is_err(), "nothing was written to it");
        assert_eq!(ours::counts().closed_by_host, 1);
        0
    });
    assert_eq!(code, 0);
}

#[test]
fn a_number_that_the_host_closed_is_not_closed_twice() {
    let code = common::in_a_child(|| {
        let (fd, _other) = own_socket();
        // SAFETY: as a host would; what is left of it is what is tested.
        unsafe { libc::close(fd.as_raw_fd()) };
        drop(fd);
        assert_eq!((ours::count(), ours::counts().closed_by_host), (0, 1));
        0
    });
    assert_eq!(code, 0);
}

#[test]
fn one_perf_event_is_not_taken_for_another() {
    let code = common::in_a_child(|| {
        let (Ok(first), Ok(second)) =
            (sys::perf::Watch::open(0, 10_000_000), sys::perf::Watch::open(0, 10_000_000))
        else {
            common::skipped("needs perf events");
            return 0;
        };
        let dir = std::fs::read_dir("/proc/self/fd").expect("/proc is there").flatten();
        let events: Vec<RawFd> = dir
            .filter(|entry| {
                std::fs::read_link(entry.path())
                    .is_ok_and(|to| to.to_string_lossy().contains("perf_event"))
            })
            .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
            .collect();
        assert_eq!(events.len(), 2);
        // SAFETY: a copy of the second in the place of the first, as a host's event might get
        // there.
        assert_eq!(unsafe { libc::dup2(events[1], events[0]) }, events[0]);
        drop((first, second));
        assert_eq!((is_open(events[0]), is_open(events[1])), (true, false));
        0
    });
    assert_eq!(code, 0);
}

#[test]
fn a_forked_child_closes_ours_and_leaves_what_the_host_took_over() {
    let code = common::in_a_child(|| {
        let ((first, _a), (second, _b)) = (own_socket(), own_socket());
        let hosts = File::open("/dev/null").expect("opens");
        let numbers = [first.as_raw_fd(), second.as_raw_fd()];
        take_over(numbers[0], &hosts);
        let code = common::in_a_child(|| {
            ours::close_all();
            assert_eq!(numbers.map(is_open), [true, false]);
            assert_eq!(ours::count(), 0);
            0
        });
        drop((first, second));
        code
    });
    assert_eq!(code, 0);
}
