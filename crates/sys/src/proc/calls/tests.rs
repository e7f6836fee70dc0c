//! Calls made up by hand; threads really blocked in calls are in the crate's tests folder.

use super::*;
use crate::clock;

fn call(nr: i64, args: [u64; 6]) -> Wait {
    let (sp, pc) = (0, 0);
    let mem = Reader::new().expect("a process may read itself");
    meaning(&TaskCall::Syscall { nr, args, sp, pc }, &mem)
}

fn address<T>(value: &T) -> u64 {
    value as *const T as u64
}

#[test]
fn a_sleep_has_its_length() {
    let second = [1i64, 500_000_000];
    let sleep = call(libc::SYS_nanosleep, [address(&second), 0, 0, 0, 0, 0]);
    assert_eq!((sleep.kind, sleep.timeout_ns), (WaitKind::Sleep, Some(1_500_000_000)));
    let deadline = [(clock::now_ns() / 1_000_000_000) as i64 + 100, 0];
    let absolute = call(libc::SYS_clock_nanosleep, [1, 1, address(&deadline), 0, 0, 0]);
    let left_s = absolute.timeout_ns.map(|ns| ns / 1_000_000_000);
    assert!(matches!(left_s, Some(98..=100)), "{absolute:?}");
    let unreadable = call(libc::SYS_nanosleep, [8, 0, 0, 0, 0, 0]);
    assert_eq!((unreadable.timed, unreadable.timeout_ns), (true, None));
}

#[test]
fn a_futex_wait_has_address_and_time_limit() {
    let forever = call(libc::SYS_futex, [0x1000, 128, 2, 0, 0, 0]);
    assert_eq!(forever.kind, WaitKind::Futex);
    assert_eq!((forever.futex, forever.timed), (Some(0x1000), false));
    let five_ms = [0i64, 5_000_000];
    let timed = call(libc::SYS_futex, [0x1000, 128, 2, address(&five_ms), 0, 0]);
    assert_eq!(timed.timeout_ns, Some(5_000_000));
    let past = call(libc::SYS_futex, [0x1000, 128 | 9, 2, address(&five_ms), 0, u64::MAX]);
    assert_eq!((past.timed, past.timeout_ns), (true, Some(0)));
    // FUTEX_WAKE: its fourth argument is no timeout.
    assert!(!call(libc::SYS_futex, [0x1000, 129, 1, 0x2000, 0, 0]).timed);
    let vector = [7u64, 0x3000, 2];
    let many = call(libc::SYS_futex_waitv, [address(&vector), 1, 0, 0, 1, 0]);
    assert_eq!((many.futex, many.timed), (Some(0x3000), false));
}

fn watched(wait: &Wait) -> Vec<(i32, bool)> {
    wait.set.iter().flatten().map(|one| (one.fd, one.writes)).collect()
}

#[test]
fn a_poll_has_its_first_valid_descriptors() {
    let entry = |fd: i32, events: i16| fd as u32 as u64 | (events as u16 as u64) << 32;
    let set = [entry(-1, 1), entry(9, 1), entry(10, 1)];
    let limit = [2i64, 0];
    let wait = call(libc::SYS_ppoll, [address(&set), 3, address(&limit), 0, 0, 0]);
    assert_eq!((wait.kind, wait.fd, wait.fds), (WaitKind::Poll, Some(9), 2));
    assert_eq!(watched(&wait), [(9, false), (10, false)]);
    assert_eq!(wait.timeout_ns, Some(2_000_000_000));
    let many: Vec<u64> = (5..45).map(|fd| entry(fd, if fd == 6 { 4 } else { 5 })).collect();
    let wait = call(libc::SYS_ppoll, [address(&many[0]), 40, 0, 0, 0, 0]);
    assert_eq!(watched(&wait), [(5, false), (6, true), (7, false)]);
    assert_eq!(wait.fds, 40);
    let none = call(libc::SYS_ppoll, [address(&set), 1, 0, 0, 0, 0]);
    assert_eq!((none.kind, none.fd, none.timed), (WaitKind::Sleep, None, false));
    let empty = call(libc::SYS_ppoll, [0, 0, address(&limit), 0, 0, 0]);
    assert_eq!((empty.kind, empty.timeout_ns), (WaitKind::Sleep, Some(2_000_000_000)));
}

#[test]
fn a_select_has_its_first_descriptors() {
    let set = [0u64, 1 << 6, 0];
    let wait = call(libc::SYS_pselect6, [128, address(&set), 0, 0, 0, 0]);
    assert_eq!((wait.kind, wait.fd, wait.fds), (WaitKind::Poll, Some(70), 1));
    assert_eq!(watched(&wait), [(70, false)]);
    let (read, write) = ([1u64 << 3, 1 << 6], [1u64 << 3 | 1 << 5, 3 << 6]);
    let wait = call(libc::SYS_pselect6, [128, address(&read), address(&write), 0, 0, 0]);
    assert_eq!((wait.fds, watched(&wait)), (4, vec![(3, false), (5, true), (70, false)]));
    let nothing = call(libc::SYS_pselect6, [0, 0, 0, 0, 0, 0]);
    assert_eq!(nothing.kind, WaitKind::Sleep);
}

#[test]
fn other_calls_are_classified_by_number() {
    let kind = |nr, args| call(nr, args).kind;
    assert_eq!(kind(libc::SYS_fdatasync, [3; 6]), WaitKind::FileSync);
    assert_eq!(kind(libc::SYS_openat, [0; 6]), WaitKind::FileOpen);
    assert_eq!(kind(libc::SYS_flock, [3; 6]), WaitKind::FileLock);
    let wait_for_lock = [3, libc::F_SETLKW as u64, 0, 0, 0, 0];
    assert_eq!(kind(libc::SYS_fcntl, wait_for_lock), WaitKind::FileLock);
    let get = [3, libc::F_GETFL as u64, 0, 0, 0, 0];
    assert_eq!(kind(libc::SYS_fcntl, get), WaitKind::Other(libc::SYS_fcntl));
    assert_eq!(kind(libc::SYS_wait4, [0; 6]), WaitKind::ChildWait);
    let vfork = [libc::CLONE_VFORK as u64, 0, 0, 0, 0, 0];
    assert_eq!(kind(libc::SYS_clone, vfork), WaitKind::ChildWait);
    assert_eq!(kind(libc::SYS_clone, [0; 6]), WaitKind::Other(libc::SYS_clone));
    assert_eq!(kind(libc::SYS_sched_yield, [0; 6]), WaitKind::Yield);
    assert_eq!(kind(libc::SYS_munmap, [0; 6]), WaitKind::Memory);
    assert_eq!(kind(-1, [0; 6]), WaitKind::Other(-1));
}

#[test]
fn a_wait_for_one_child_names_it() {
    let child =
        |nr, args: [u64; 6]| child_waited_for(&TaskCall::Syscall { nr, args, sp: 0, pc: 0 });
    assert_eq!(child(libc::SYS_wait4, [4711, 0, 0, 0, 0, 0]), Some(4711));
    let by_pid = [u64::from(libc::P_PID), 4711, 0, 0, 0, 0];
    assert_eq!(child(libc::SYS_waitid, by_pid), Some(4711));
    // Any child, and those of a group.
    assert_eq!(child(libc::SYS_wait4, [u64::MAX, 0, 0, 0, 0, 0]), None);
    assert_eq!(child(libc::SYS_wait4, [0; 6]), None);
    assert_eq!(child(libc::SYS_waitid, [u64::from(libc::P_ALL), 4711, 0, 0, 0, 0]), None);
    assert_eq!(child(libc::SYS_read, [4711; 6]), None);
}

#[test]
fn a_message_to_an_address_has_that_address() {
    let mem = Reader::new().expect("a process may read itself");
    let sent = |nr, args: [u64; 6]| sent_to(&TaskCall::Syscall { nr, args, sp: 0, pc: 0 }, &mem);
    let mut to = [0u8; 16];
    to[..2].copy_from_slice(&(libc::AF_INET as u16).to_ne_bytes());
    to[2..8].copy_from_slice(&[0x1f, 0x90, 10, 0, 0, 7]);
    let wanted = Some("10.0.0.7:8080".to_owned());
    assert_eq!(sent(libc::SYS_sendto, [3, 0x1000, 5, 0, address(&to), 16]), wanted);
    // The half behind the length is padding, and may hold anything.
    let head = [address(&to), 0xdead_beef_0000_0010];
    assert_eq!(sent(libc::SYS_sendmsg, [3, address(&head), 0, 0, 0, 0]), wanted);
    assert_eq!(sent(libc::SYS_sendmmsg, [3, address(&head), 2, 0, 0, 0]), wanted);
    // A connected socket's, half an address, one that is not there, and other calls.
    assert_eq!(sent(libc::SYS_sendto, [3, 0x1000, 5, 0, 0, 0]), None);
    assert_eq!(sent(libc::SYS_sendto, [3, 0x1000, 5, 0, address(&to), 1]), None);
    assert_eq!(sent(libc::SYS_sendto, [3, 0x1000, 5, 0, 8, 16]), None);
    assert_eq!(sent(libc::SYS_sendmsg, [3, u64::MAX - 4, 0, 0, 0, 0]), None);
    assert_eq!(sent(libc::SYS_recvfrom, [3, 0x1000, 5, 0, address(&to), 16]), None);
}

#[test]
fn no_number_with_wild_arguments_panics_or_blocks() {
    for nr in -130..500 {
        for args in [[0; 6], [u64::MAX; 6], [8; 6], [1 << 63; 6], [4096; 6]] {
            call(nr, args);
            let mem = Reader::new().expect("a process may read itself");
            sent_to(&TaskCall::Syscall { nr, args, sp: 0, pc: 0 }, &mem);
        }
    }
}
