//! A capture says what a slow request waited for: of several descriptors three by name, and how
//! many more there are; of a datagram socket without a peer the address it sends to, and no more
//! than its own port while it receives; the path that is opened; the name of a call for which there
//! is no word; a lock that lies in memory shared with other processes.

use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::time::Duration;

use capture::read::Capture;
use format::record::TARGET_IS_NAME;
use format::wait::WaitKind;

/// Long compared to what the sampler needs to see what waits, also on a busy machine.
const SLOW_MS: i32 = 600;

fn owned(fd: i32) -> OwnedFd {
    assert!(fd >= 0, "{}", std::io::Error::last_os_error());
    // SAFETY: just returned by the kernel, so nobody else owns it.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

fn event() -> OwnedFd {
    // SAFETY: makes a descriptor; no memory is involved.
    owned(unsafe { libc::eventfd(0, libc::EFD_CLOEXEC) })
}

fn udp(port: u16) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").expect("loopback is there");
    socket.connect(("127.0.0.1", port)).expect("a datagram socket connects to anything");
    socket
}

fn polls(things: &[&dyn AsRawFd]) {
    let entry =
        |t: &&dyn AsRawFd| libc::pollfd { fd: t.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    let mut set: Vec<libc::pollfd> = things.iter().map(entry).collect();
    // SAFETY: as many entries as the length says, which live through the call.
    unsafe { libc::poll(set.as_mut_ptr(), set.len() as libc::nfds_t, SLOW_MS) };
}

fn waits_in_epoll(things: &[&dyn AsRawFd]) {
    // SAFETY: makes a descriptor; no memory is involved.
    let epoll = owned(unsafe { libc::epoll_create1(libc::EPOLL_CLOEXEC) });
    let mut event = libc::epoll_event { events: libc::EPOLLIN as u32, u64: 0 };
    for thing in things {
        let (epoll, fd) = (epoll.as_raw_fd(), thing.as_raw_fd());
        // SAFETY: `event` lives through the call, which only reads it.
        assert_eq!(unsafe { libc::epoll_ctl(epoll, libc::EPOLL_CTL_ADD, fd, &mut event) }, 0);
    }
    // SAFETY: there is room for one event.
    unsafe { libc::epoll_wait(epoll.as_raw_fd(), &mut event, 1, SLOW_MS) };
}

/// A datagram socket without a peer and with a time limit, and the address of a socket that takes
/// nothing any more.
fn full_socket() -> (UnixDatagram, SocketAddr, UnixDatagram) {
    let name = format!("dashcam-full-{}", std::process::id());
    let address = SocketAddr::from_abstract_name(name).expect("a short name");
    let deaf = UnixDatagram::bind_addr(&address).expect("the name is free");
    let sender = UnixDatagram::unbound().expect("sockets are there");
    sender.set_nonblocking(true).expect("an option");
    while sender.send_to_addr(&[7], &address).is_ok() {}
    sender.set_nonblocking(false).expect("an option");
    let limit = Some(Duration::from_millis(SLOW_MS as u64));
    sender.set_write_timeout(limit).expect("an option");
    (sender, address, deaf)
}

/// Opens a FIFO for reading, with nobody who writes for a while.
fn opens(path: &std::path::Path) {
    let text = std::ffi::CString::new(path.to_str().expect("plain")).expect("no zero");
    // SAFETY: the path lives through the call.
    assert_eq!(unsafe { libc::mkfifo(text.as_ptr(), 0o600) }, 0);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            std::thread::sleep(Duration::from_millis(SLOW_MS as u64));
            std::fs::OpenOptions::new().write(true).open(path).expect("it has a reader");
        });
        let _request = dashcam::request!("opens");
        std::fs::File::open(path).expect("it has a writer");
    });
}

/// Waits for a signal that does not come.
fn waits_for_a_signal() {
    let limit = libc::timespec { tv_sec: 0, tv_nsec: i64::from(SLOW_MS) * 1_000_000 };
    // SAFETY: an empty set, zeroed; set and limit live through the call.
    unsafe {
        let set: libc::sigset_t = std::mem::zeroed();
        libc::sigtimedwait(&set, std::ptr::null_mut(), &limit);
    }
}

/// Waits for a futex in memory that children would share.
fn waits_for_a_shared_lock() {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let kind = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    let limit = libc::timespec { tv_sec: 0, tv_nsec: i64::from(SLOW_MS) * 1_000_000 };
    // SAFETY: a new mapping of a page, unmapped behind the only use of it.
    unsafe {
        let word = libc::mmap(std::ptr::null_mut(), 4096, access, kind, -1, 0);
        assert_ne!(word, libc::MAP_FAILED);
        libc::syscall(libc::SYS_futex, word, libc::FUTEX_WAIT, 0, &raw const limit);
        libc::munmap(word, 4096);
    }
}

/// Targets that the samples of a request's thread recorded while it waited for this.
fn targets(capture: &Capture, request: &str, kind: WaitKind) -> BTreeSet<String> {
    let name = capture.name_id(request);
    let row = capture.requests.iter().find(|row| Some(row.name) == name).expect("it was recorded");
    let samples = capture.samples.get(&row.tid).map_or(&[][..], Vec::as_slice);
    let inside = samples.iter().filter(|s| {
        (row.begin_ns..=row.end_ns.unwrap_or(u64::MAX)).contains(&s.t_ns) && s.wait == kind
    });
    let words = inside.map(|s| if kind == WaitKind::Futex { s.lock } else { s.target });
    let named = words.filter(|word| word & TARGET_IS_NAME != 0);
    named.map(|word| capture.name(word as u32).to_owned()).collect()
}

#[test]
fn what_is_waited_for_is_named_in_a_capture() {
    let out = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("targets-{}", std::process::id()));
    let settings = dashcam::Config::new().service("targets").slow("50ms");
    dashcam::start(settings.out(out.display())).expect("settings");
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("it is bound");
    let client = TcpStream::connect(address).expect("it listens");
    // A listener with a client to accept is ready.
    let _accepted = listener.accept().expect("the client is there");
    let events = [event(), event(), event()];
    let (stock, prices) = (udp(7001), udp(7002));
    {
        let _request = dashcam::request!("polls");
        polls(&[&stock, &client, &stock, &prices, &events[0], &events[1]]);
    }
    {
        let _request = dashcam::request!("loops");
        waits_in_epoll(&[&events[0], &listener, &prices, &events[1], &client, &stock, &events[2]]);
    }
    {
        let _request = dashcam::request!("loops alone");
        waits_in_epoll(&[]);
    }
    let (anybody, full) =
        (UdpSocket::bind("127.0.0.1:0").expect("loopback is there"), full_socket());
    {
        let _request = dashcam::request!("receives");
        let limit = Some(Duration::from_millis(SLOW_MS as u64));
        anybody.set_read_timeout(limit).expect("an option");
        assert!(anybody.recv_from(&mut [0]).is_err());
    }
    {
        let _request = dashcam::request!("sends");
        assert!(full.0.send_to_addr(&[7], &full.1).is_err(), "nobody takes it");
    }
    std::fs::create_dir_all(&out).expect("our folder");
    let fifo = out.join("fifo");
    opens(&fifo);
    {
        let _request = dashcam::request!("signal");
        waits_for_a_signal();
    }
    {
        let _request = dashcam::request!("shared");
        waits_for_a_shared_lock();
    }
    let path = dashcam::snap("test").expect("a capture");
    let capture = Capture::open(&path).expect("a whole capture");
    testkit::remove(&out);
    let reported = |request| targets(&capture, request, WaitKind::Poll);
    let one = |text: String| BTreeSet::from([text]);
    let opened = targets(&capture, "opens", WaitKind::FileOpen);
    assert_eq!(opened, one(fifo.display().to_string()));
    assert_eq!(targets(&capture, "signal", WaitKind::Other), one("sigtimedwait".to_owned()));
    let shared = targets(&capture, "shared", WaitKind::Futex);
    assert_eq!(shared, one("a lock in shared memory".to_owned()));
    let port = anybody.local_addr().expect("it is bound").port();
    let received = targets(&capture, "receives", WaitKind::SocketRead);
    assert_eq!(received, one(format!("udp, own port {port}")));
    let name = full.1.as_abstract_name().expect("it has one");
    let sent = targets(&capture, "sends", WaitKind::SocketWrite);
    assert_eq!(sent, one(format!("unix @{}", String::from_utf8_lossy(name))));
    assert_eq!(
        reported("polls"),
        one(format!("udp 127.0.0.1:7001, tcp {address} and 3 more")),
        "the first three, what is alike once"
    );
    let peers = format!("tcp {address}, udp 127.0.0.1:7001, udp 127.0.0.1:7002");
    assert_eq!(reported("loops"), one(format!("anon_inode:[eventpoll] of {peers} and 4 more")));
    assert_eq!(reported("loops alone"), one("anon_inode:[eventpoll]".to_owned()));
}
