//! Threads that are really blocked: the kind of wait, its target and its time limit are read.

#![allow(clippy::expect_used, reason = "a test may fail")]

mod common;

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{mpsc, Arc, Mutex};
use std::time::Duration;
use sys::calls::{self, Wait, WaitKind};
use sys::task::{TaskCall, TaskReader};
use sys::{fds, mem, thread};

/// Starts a thread that blocks in `body`, and waits until it is in a call of the kind `wanted`. The
/// thread is not joined: some of them block forever.
fn blocked(wanted: WaitKind, body: impl FnOnce() + Send + 'static) -> (Wait, TaskReader) {
    let (sender, receiver) = mpsc::channel();
    std::thread::spawn(move || {
        sender.send(thread::tid()).expect("the test listens");
        body();
    });
    let mut reader = TaskReader::open(receiver.recv().expect("it sends its id")).expect("it lives");
    let mem = mem::Reader::new().expect("a process may read itself");
    let wait = common::wait_for(&format!("{wanted:?}"), || {
        let wait = calls::meaning(&reader.call().expect("it lives"), &mem);
        (wait.kind == wanted).then_some(wait)
    });
    (wait, reader)
}

fn pipe() -> (OwnedFd, OwnedFd) {
    let mut ends = [0; 2];
    // SAFETY: two new descriptors are written into `ends`; they have no other owner.
    unsafe {
        assert_eq!(libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC), 0);
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    }
}

#[test]
fn a_blocked_sleep_has_its_length() {
    let (wait, mut reader) = blocked(WaitKind::Sleep, || {
        std::thread::sleep(Duration::from_secs(3600));
    });
    let seconds = wait.timeout_ns.map(|ns| ns.div_ceil(1_000_000_000));
    assert!(matches!(seconds, Some(3590..=3600)), "{wait:?}");
    assert!(wait.timed);
    assert_eq!(reader.state().ok(), Some('S'));
    assert!(reader.wchan().is_ok_and(|name| !name.is_empty()));
    let stat = reader.schedstat().expect("it lives");
    assert!(stat.run_ns > 0 && stat.slices > 0, "{stat:?}");
}

#[test]
fn two_waiters_of_a_lock_share_its_address() {
    let lock = Arc::new(Mutex::new(()));
    let held = lock.lock().expect("not poisoned");
    let waiters = [(); 2].map(|()| {
        let lock = lock.clone();
        blocked(WaitKind::Futex, move || drop(lock.lock())).0
    });
    assert_eq!(waiters[0].futex, waiters[1].futex);
    let near = Arc::as_ptr(&lock) as u64;
    let inside = near..near + size_of::<Mutex<()>>() as u64;
    assert!(waiters[0].futex.is_some_and(|a| inside.contains(&a)), "{waiters:?}");
    assert!(!waiters[0].timed);
    drop(held);
}

#[test]
fn a_timed_wait_for_a_condition_is_timed() {
    let (wait, _) = blocked(WaitKind::Futex, || {
        let (_keep, never) = mpsc::channel::<()>();
        let _ = never.recv_timeout(Duration::from_secs(600));
    });
    let seconds = wait.timeout_ns.map(|ns| ns.div_ceil(1_000_000_000));
    assert!(wait.timed && matches!(seconds, Some(590..=600)), "{wait:?}");
}

#[test]
fn a_reply_that_does_not_come_leads_to_the_peer() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    let address = listener.local_addr().expect("it is bound");
    let mut client = TcpStream::connect(address).expect("it listens");
    let fd = client.as_raw_fd();
    let (wait, _) = blocked(WaitKind::SocketRead, move || {
        let _ = client.read(&mut [0]);
    });
    assert_eq!(wait.fd, Some(fd));
    let info = fds::describe(fd).expect("it is open");
    assert_eq!(info.text, format!("tcp {address}"));
    assert_eq!(info.peer_port, Some(address.port()));
    assert!(!info.connecting);
    let number = listener.as_raw_fd();
    let _accepted = listener.accept().expect("the client is waiting");
    let (wait, _) = blocked(WaitKind::Accept, move || drop(listener.accept()));
    assert_eq!(wait.fd, Some(number));
}

#[test]
fn full_and_empty_pipes_and_sockets_are_distinguished() {
    let (read_end, write_end) = pipe();
    let number = write_end.as_raw_fd();
    let (wait, _) = blocked(WaitKind::PipeWrite, move || {
        let _ = std::fs::File::from(write_end).write_all(&[0; 1 << 20]);
    });
    assert_eq!(wait.fd, Some(number));
    let (empty, _keep) = pipe();
    let (wait, _) = blocked(WaitKind::PipeRead, move || {
        let _ = std::fs::File::from(empty).read(&mut [0]);
    });
    assert_eq!(wait.fds, 1);
    let (mut full, _other_end) = UnixStream::pair().expect("sockets are there");
    blocked(WaitKind::SocketWrite, move || {
        let _ = full.write_all(&[0; 8 << 20]);
    });
    drop(read_end);
}

#[test]
fn polls_lead_to_what_is_polled() {
    let (empty, _keep) = pipe();
    let number = empty.as_raw_fd();
    let (wait, _) = blocked(WaitKind::Poll, move || {
        let mut set = libc::pollfd { fd: empty.as_raw_fd(), events: libc::POLLIN, revents: 0 };
        // SAFETY: one entry, ours, that lives through the call.
        unsafe { libc::poll(&mut set, 1, 3_600_000) };
    });
    assert_eq!((wait.fd, wait.fds), (Some(number), 1));
    assert_eq!(wait.timeout_ns, Some(3_600_000_000_000));
    let (empty, _keep) = pipe();
    let number = empty.as_raw_fd();
    let (wait, _) = blocked(WaitKind::Poll, move || {
        // SAFETY: plain memory of ours that lives through the call; the number is below 1024.
        unsafe {
            let mut set: libc::fd_set = std::mem::zeroed();
            libc::FD_SET(empty.as_raw_fd(), &mut set);
            let (set, null) = (&raw mut set, std::ptr::null_mut());
            libc::select(empty.as_raw_fd() + 1, set, null, null, std::ptr::null_mut());
        }
    });
    assert_eq!((wait.fd, wait.timed), (Some(number), false));
    // SAFETY: a new descriptor without another owner.
    let epoll = unsafe { OwnedFd::from_raw_fd(libc::epoll_create1(libc::EPOLL_CLOEXEC)) };
    let number = epoll.as_raw_fd();
    let (wait, _) = blocked(WaitKind::Poll, move || {
        // SAFETY: a zeroed event is valid, and there is room for one.
        unsafe {
            let mut event: libc::epoll_event = std::mem::zeroed();
            libc::epoll_wait(epoll.as_raw_fd(), &mut event, 1, -1);
        }
    });
    assert_eq!((wait.fd, wait.timed), (Some(number), false));
}

/// A listener whose queue is full: the next connection stays half made.
fn deaf_listener() -> (TcpListener, Vec<TcpStream>) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
    // SAFETY: no memory is involved; listening again only changes the length of the queue.
    assert_eq!(unsafe { libc::listen(listener.as_raw_fd(), 0) }, 0);
    let address = listener.local_addr().expect("it is bound");
    let mut queue = Vec::new();
    while let Ok(client) = TcpStream::connect_timeout(&address, Duration::from_millis(200)) {
        queue.push(client);
    }
    (listener, queue)
}

#[test]
fn a_connection_under_way_has_its_peer() {
    let (listener, _queue) = deaf_listener();
    let address = listener.local_addr().expect("it is bound");
    let (wait, mut reader) = blocked(WaitKind::Connect, move || drop(TcpStream::connect(address)));
    let info = fds::describe(wait.fd.expect("it has one")).expect("it is open");
    assert!(info.connecting && info.peer_port.is_none(), "{info:?}");
    let mem = mem::Reader::new().expect("a process may read itself");
    let target = calls::connect_target(&reader.call().expect("it lives"), &mem);
    assert_eq!(target, Some(address.to_string()));
    // With a timeout the connection is made in the background and polled for.
    let (wait, _) = blocked(WaitKind::Connect, move || {
        let _ = TcpStream::connect_timeout(&address, Duration::from_secs(600));
    });
    assert!(wait.timed && wait.timeout_ns > Some(500_000_000_000), "{wait:?}");
    let fd = wait.fd.expect("it has one");
    // The list of such sockets is asked for a few times a second at most.
    let found = (0..50).find_map(|_| {
        std::thread::sleep(Duration::from_millis(20));
        fds::describe(fd).filter(|info| !info.text.contains("not connected"))
    });
    let found = found.expect("the kernel has sock_diag for TCP (CONFIG_INET_DIAG)");
    assert_eq!((found.text, found.connecting), (format!("tcp {address}"), true));
}

#[test]
fn locks_of_files_and_waits_for_children_are_recognised() {
    let path = std::env::temp_dir().join(format!("sys-test-lock-{}", std::process::id()));
    let open = || std::fs::File::create(&path).expect("a temporary file");
    let lock = |file: &std::fs::File| {
        // SAFETY: no memory is involved.
        unsafe { libc::flock(file.as_raw_fd(), libc::LOCK_EX) }
    };
    let (first, second) = (open(), open());
    assert_eq!(lock(&first), 0);
    let number = second.as_raw_fd();
    let (wait, _) = blocked(WaitKind::FileLock, move || {
        lock(&second);
    });
    assert_eq!(wait.fd, Some(number));
    std::fs::remove_file(&path).expect("it is ours");
    let mut child = std::process::Command::new("sleep").arg("600").spawn().expect("it starts");
    let pid = child.id() as i32;
    blocked(WaitKind::ChildWait, move || {
        let _ = child.wait();
    });
    // SAFETY: ends the child we started, which is still being waited for.
    unsafe { libc::kill(pid, libc::SIGKILL) };
}

#[test]
fn a_thread_that_runs_says_so_and_one_that_has_ended_errs() {
    let stop = Arc::new(AtomicBool::new(false));
    let (sender, receiver) = mpsc::channel();
    let spinner = std::thread::spawn({
        let stop = stop.clone();
        move || {
            sender.send(thread::tid()).expect("the test listens");
            while !stop.load(Ordering::Relaxed) {
                std::hint::spin_loop();
            }
        }
    });
    let tid = receiver.recv().expect("it sends its id");
    let mut reader = TaskReader::open(tid).expect("it lives");
    common::wait_for("it to run", || (reader.call().ok() == Some(TaskCall::Running)).then_some(()));
    assert_eq!(reader.state().ok(), Some('R'));
    assert_eq!(reader.wchan().ok(), Some("0"));
    stop.store(true, Ordering::Relaxed);
    spinner.join().expect("it only spins");
    // The kernel shows a reader of itself the very call it reads with.
    let mut own = TaskReader::open(thread::tid()).expect("a thread can open itself");
    let call = own.call().expect("it lives");
    assert!(matches!(call, TaskCall::Syscall { nr: libc::SYS_pread64, .. }), "{call:?}");
    let name = std::thread::current().name().map(|n| n.chars().take(15).collect::<String>());
    assert_eq!(sys::task::comm(thread::tid()).ok(), name);
    let (sender, receiver) = mpsc::channel();
    let brief = std::thread::spawn(move || {
        let mut reader = TaskReader::open(thread::tid()).expect("it lives");
        assert!(!sys::task::has_ended(&reader.schedstat()));
        sender.send(reader).expect("the test listens");
    });
    let mut reader = receiver.recv().expect("it sends");
    brief.join().expect("it only sends");
    common::wait_for("its end", || reader.schedstat().err());
    assert!(reader.call().is_err() && reader.state().is_err());
    assert!(sys::task::has_ended(&reader.schedstat()));
    assert!(TaskReader::open(reader.tid()).is_err());
}

#[test]
fn after_giving_up_root_only_what_was_open_is_readable() {
    if !common::is_root() {
        return common::skipped("needs root to give it up");
    }
    let code = common::in_a_child(|| {
        let open = || TaskReader::open(thread::tid()).expect("a thread can open itself");
        let (mut early, mut late) = (open(), open());
        assert!(early.call().is_ok());
        let id = common::NOBODY;
        // SAFETY: concerns this child only, which ends with the test.
        let done = unsafe { libc::setresuid(id, id, id) };
        assert_eq!(done, 0);
        assert!(early.call().is_ok());
        let refused = late.call().expect_err("the file belongs to root now");
        assert_eq!(refused.raw_os_error(), Some(libc::EACCES));
        assert!(late.schedstat().is_ok() && late.wchan().is_ok() && late.state().is_ok());
        let file = std::fs::File::open("/dev/null").expect("it is everywhere");
        assert!(fds::describe(file.as_raw_fd()).is_some_and(|info| info.text == "/dev/null"));
        let mem = mem::Reader::new().expect("a process may read itself");
        assert!(mem.word(&raw const mem as usize).is_ok());
        common::stream_or_skip(&[]);
        0
    });
    assert_eq!(code, 0);
}

#[test]
fn also_as_nobody() {
    common::all_again_as_nobody(module_path!());
}
