//! Every kind of descriptor is recognised and named, and is left as it was.

#![allow(clippy::expect_used, reason = "a test may fail")]

mod common;

use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixListener, UnixStream};
use sys::fds::{describe, FdKind};
use sys::processes::of_pidfd;

fn described(thing: &impl AsRawFd) -> (FdKind, String) {
    let info = describe(thing.as_raw_fd()).expect("it is open");
    (info.kind, info.text)
}

fn owned(fd: i32) -> OwnedFd {
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: just returned by the kernel, so it has no other owner.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

#[test]
fn internet_sockets_are_named_by_their_peer() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("it is bound");
    let client = TcpStream::connect(address).expect("it listens");
    assert_eq!(described(&client), (FdKind::TcpSocket, format!("tcp {address}")));
    assert_eq!(described(&listener), (FdKind::TcpSocket, format!("tcp listening {address}")));
    let info = describe(listener.as_raw_fd()).expect("it is open");
    assert!(!info.connecting && info.peer_port.is_none());
    let udp = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
    let local = udp.local_addr().expect("it is bound");
    assert_eq!(described(&udp), (FdKind::UdpSocket, format!("udp, own port {}", local.port())));
    // SAFETY: makes a descriptor; no memory is involved.
    let unbound = owned(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM, 0) });
    assert_eq!(described(&unbound), (FdKind::UdpSocket, "udp, no port of its own".to_owned()));
    udp.connect("127.0.0.1:53").expect("a datagram socket connects to anything");
    assert_eq!(described(&udp), (FdKind::UdpSocket, "udp 127.0.0.1:53".to_owned()));
    assert_eq!(describe(udp.as_raw_fd()).and_then(|info| info.peer_port), Some(53));
    // SAFETY: makes a descriptor; no memory is involved.
    let fresh = owned(unsafe { libc::socket(libc::AF_INET, libc::SOCK_STREAM, 0) });
    assert!(describe(fresh.as_raw_fd()).is_some_and(|info| info.connecting));
    if let Ok(listener) = TcpListener::bind("[::1]:0") {
        let address = listener.local_addr().expect("it is bound");
        let client = TcpStream::connect(address).expect("it listens");
        assert_eq!(described(&client).1, format!("tcp [::1]:{}", address.port()));
    }
}

#[test]
fn unix_sockets_are_named_by_their_path_on_both_ends() {
    let path = std::env::temp_dir().join(format!("sys-test-{}.sock", std::process::id()));
    let listener = UnixListener::bind(&path).expect("the folder is writable");
    let client = UnixStream::connect(&path).expect("it listens");
    let (server, _) = listener.accept().expect("the client is there");
    let text = format!("unix {}", path.display());
    assert_eq!(described(&client), (FdKind::UnixSocket, text.clone()));
    assert_eq!(described(&server), (FdKind::UnixSocket, text));
    std::fs::remove_file(&path).expect("it is ours");
    let name = format!("sys-test-{}", std::process::id());
    let hidden = SocketAddr::from_abstract_name(&name).expect("a short name");
    let _listener = UnixListener::bind_addr(&hidden).expect("the name is free");
    let client = UnixStream::connect_addr(&hidden).expect("it listens");
    assert_eq!(described(&client).1, format!("unix @{name}"));
    let (one, _other) = UnixStream::pair().expect("sockets are there");
    assert_eq!(described(&one).1, "unix (unnamed)");
}

#[test]
fn files_pipes_terminals_and_other_kinds_are_distinguished() {
    let file = std::fs::File::open("/proc/self/status").expect("/proc is there");
    let (kind, text) = described(&file);
    assert_eq!((kind, text.ends_with("/status")), (FdKind::File, true), "{text}");
    let mut ends = [0; 2];
    // SAFETY: two new descriptors are written into `ends`.
    assert_eq!(unsafe { libc::pipe(ends.as_mut_ptr()) }, 0);
    let (pipe, _other) = (owned(ends[0]), owned(ends[1]));
    let (kind, text) = described(&pipe);
    assert_eq!((kind, text.starts_with("pipe:[")), (FdKind::Pipe, true), "{text}");
    // SAFETY: these make descriptors; no memory is involved.
    let (epoll, event, timer) = unsafe {
        let timer = libc::timerfd_create(libc::CLOCK_MONOTONIC, 0);
        (owned(libc::epoll_create1(0)), owned(libc::eventfd(0, 0)), owned(timer))
    };
    assert_eq!(described(&epoll).0, FdKind::Epoll);
    assert_eq!(described(&event).0, FdKind::EventFd);
    assert_eq!(described(&timer).0, FdKind::Timer);
    let null = std::fs::File::open("/dev/null").expect("it is everywhere");
    assert_eq!(described(&null), (FdKind::Other, "/dev/null".to_owned()));
    // SAFETY: as above; the literal ends with NUL.
    let terminal = unsafe { libc::open(c"/dev/ptmx".as_ptr(), libc::O_RDWR | libc::O_NOCTTY) };
    if terminal < 0 {
        return common::skipped("no pseudo terminals here");
    }
    let other_end = owned(terminal);
    // SAFETY: as above; opens the terminal's other end.
    let terminal = owned(unsafe {
        libc::unlockpt(other_end.as_raw_fd());
        let flags = libc::O_RDWR | libc::O_NOCTTY;
        libc::ioctl(other_end.as_raw_fd(), libc::TIOCGPTPEER, flags)
    });
    assert_eq!(described(&terminal).0, FdKind::Tty);
}

#[test]
fn a_pidfd_is_its_childs_until_that_was_waited_for() {
    let open = |pid: u32| {
        // SAFETY: makes a descriptor; no memory is involved.
        let fd = unsafe { libc::syscall(libc::SYS_pidfd_open, pid, 0) };
        (fd >= 0).then(|| owned(fd as i32))
    };
    let mut cat = std::process::Command::new("cat");
    let cat = cat.stdin(std::process::Stdio::piped());
    let mut child = cat.spawn().expect("cat is everywhere");
    let (Some(childs), Some(own)) = (open(child.id()), open(std::process::id())) else {
        child.kill().and_then(|()| child.wait()).expect("it runs");
        return common::skipped("no pidfds here");
    };
    assert_eq!(described(&childs).0, FdKind::Process);
    assert_eq!(of_pidfd(childs.as_raw_fd()), Some(child.id()));
    assert_eq!(of_pidfd(own.as_raw_fd()), None, "nobody's own child");
    child.kill().and_then(|()| child.wait()).expect("it runs");
    assert_eq!(of_pidfd(childs.as_raw_fd()), None);
    assert_eq!(of_pidfd(-1), None);
}

#[test]
fn describing_leaves_the_descriptor_as_it_was() {
    // In a process of its own, where the other tests open nothing.
    let same = common::in_a_child(|| {
        let (one, other) = UnixStream::pair().expect("sockets are there");
        one.set_nonblocking(true).expect("it is ours");
        std::io::Write::write_all(&mut &other, b"waiting").expect("there is room");
        // SAFETY: no memory is involved.
        let flags = || unsafe { libc::fcntl(one.as_raw_fd(), libc::F_GETFL) };
        let before = (flags(), common::open_descriptors(""));
        for _ in 0..3 {
            described(&one);
        }
        assert_eq!((flags(), common::open_descriptors("")), before);
        let mut buf = [0; 16];
        let n = std::io::Read::read(&mut &one, &mut buf).expect("the data are still there");
        assert_eq!(&buf[..n], b"waiting");
        0
    });
    assert_eq!(same, 0);
}

#[test]
fn also_as_nobody() {
    common::all_again_as_nobody(module_path!());
}
