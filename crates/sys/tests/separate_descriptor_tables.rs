//! Threads of ours that keep many descriptors have a table of their own: none of theirs is among
//! the host's, nothing of the host's stays open because of them, and their questions are about the
//! host's table.
//!
//! Every test runs in a forked child: it is about all descriptors of a process.

#![allow(clippy::expect_used, reason = "a test may fail")]

mod common;

use std::fs::File;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::mpsc::{channel, Receiver, Sender};

use sys::fds::{accepted_at, describe, sort};
use sys::ours::{self, Fd};
use sys::thread;

/// Numbers open in the host's table, but for the one that lists them.
fn open() -> Vec<i32> {
    let dir = std::fs::read_dir("/proc/self/fd").expect("/proc is there").flatten();
    let mut numbers: Vec<i32> =
        dir.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    // SAFETY: asks about a number; no memory is involved.
    numbers.retain(|number| unsafe { libc::fcntl(*number, libc::F_GETFD) } >= 0);
    numbers
}

/// The number that the host is given next.
fn next() -> i32 {
    File::open("/dev/null").expect("it is there").as_raw_fd()
}

/// A thread of ours in its table: reports that it is there, and runs what it is sent.
struct Apart {
    work: Sender<Box<dyn FnOnce() + Send>>,
    thread: thread::Quiet,
}

impl Apart {
    /// None: this kernel or sandbox has no such tables; the test prints that.
    fn start() -> Option<Apart> {
        let (work, to_do): (_, Receiver<Box<dyn FnOnce() + Send>>) = channel();
        let (sender, receiver) = channel();
        let life = move || {
            sender.send(ours::move_apart().map_err(|e| e.to_string())).expect("waited for");
            to_do.into_iter().for_each(|work| work());
        };
        let thread = thread::spawn_quiet("apart", life).expect("starts");
        match receiver.recv().expect("it runs") {
            Ok(()) => Some(Apart { work, thread }),
            Err(why) => {
                common::skipped(&format!("needs pidfd_getfd and close_range: {why}"));
                None
            }
        }
    }

    /// What `ask` returns on that thread.
    fn run<T: Send + 'static>(&self, ask: impl FnOnce() -> T + Send + 'static) -> T {
        let (sender, receiver) = channel();
        self.work.send(Box::new(move || drop(sender.send(ask())))).expect("it lives");
        receiver.recv().expect("it answers")
    }

    fn end(self) {
        drop(self.work);
        self.thread.join();
    }
}

fn in_a_child(body: impl FnOnce(Apart)) {
    let code = common::in_a_child(|| {
        if let Some(apart) = Apart::start() {
            body(apart);
        }
        0
    });
    assert_eq!(code, 0);
}

fn many() -> Vec<Fd> {
    (0..100).map(|_| File::open("/proc/self/stat").expect("it is there").into()).collect()
}

#[test]
fn what_they_open_is_not_among_the_hosts() {
    in_a_child(|apart| {
        let (before, lowest) = (open(), next());
        let held = apart.run(many);
        assert_eq!((open(), next()), (before.clone(), lowest));
        assert_eq!((ours::count(), ours::count_apart()), (0, 100));
        // Threads that it starts share its table.
        let more = apart.run(|| {
            let (sender, receiver) = channel();
            let life = move || sender.send(many()).expect("waited for");
            thread::spawn_quiet("another", life).expect("starts").join();
            receiver.recv().expect("receiver")
        });
        assert_eq!(open(), before);
        apart.run(move || {
            let mut buf = [0; 64];
            assert!(held.iter().chain(&more).all(|fd| fd.read_at(&mut buf, 0).is_ok()));
        });
        assert_eq!(ours::count_apart(), 0);
        apart.end();
    });
}

#[test]
fn the_hosts_closing_of_everything_does_not_reach_them() {
    in_a_child(|apart| {
        let held = apart.run(many);
        // SAFETY: this child uses none of these numbers.
        unsafe { libc::syscall(436, 3, libc::c_uint::MAX, 0) };
        let read = apart.run(move || {
            let mut buf = [0; 64];
            held.iter().filter(|fd| fd.read_at(&mut buf, 0).is_ok()).count()
        });
        assert_eq!(read, 100);
    });
}

#[test]
fn a_forked_child_has_none_of_them() {
    in_a_child(|apart| {
        let before = open();
        let held = apart.run(many);
        let code = common::in_a_child(|| {
            ours::close_all();
            i32::from(open() != before || ours::count_apart() != 0)
        });
        assert_eq!(code, 0);
        apart.run(move || drop(held));
    });
}

#[test]
fn what_the_host_closes_is_closed() {
    // Open before the table is made.
    let (mut end, other) = pipe();
    in_a_child(|apart| {
        drop(other);
        // It has gone, however many threads of ours there are: no `write` is left to wait for.
        assert_eq!(end.read(&mut [0]).expect("readable"), 0);
        apart.end();
    });
}

fn pipe() -> (File, File) {
    let mut ends = [0; 2];
    // SAFETY: the kernel writes two numbers.
    assert_eq!(unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) }, 0);
    // SAFETY: both were returned just now; they have no other owner.
    ends.map(|end| unsafe { File::from_raw_fd(end) }).into()
}

#[test]
fn a_descriptor_is_dropped_in_its_own_table_only() {
    in_a_child(|apart| {
        let theirs = apart.run(|| Fd::from(File::open("/proc/self/stat").expect("opens")));
        let number = theirs.as_raw_fd();
        // SAFETY: makes a file of the host's at the number that ours has in its table.
        assert_eq!(unsafe { libc::dup2(1, number) }, number);
        assert!(!theirs.is_intact() && theirs.read_at(&mut [0; 8], 0).is_err());
        drop(theirs);
        assert!(open().contains(&number), "the host's was closed");
        let own = Fd::from(File::open("/proc/self/stat").expect("opens"));
        let number = own.as_raw_fd();
        let mut own = apart.run(move || {
            let mut own = own;
            assert!(own.write(b"x").is_err() && own.read_at(&mut [0; 8], 0).is_err());
            own
        });
        assert!(own.write(b"x").is_err(), "open for reading");
        apart.run(move || drop(own));
        assert!(open().contains(&number), "left open: it is no number of that table");
    });
}

#[test]
fn their_questions_are_about_the_hosts_descriptors() {
    in_a_child(|apart| {
        let server = TcpListener::bind("127.0.0.1:0").expect("loopback");
        let client = TcpStream::connect(server.local_addr().expect("bound")).expect("connects");
        let (accepted, _) = server.accept().expect("a client");
        let (end, _other) = pipe();
        let file = File::open("/proc/self/stat").expect("opens");
        let numbers = [
            server.as_raw_fd(),
            client.as_raw_fd(),
            accepted.as_raw_fd(),
            end.as_raw_fd(),
            file.as_raw_fd(),
            0,
            99_999,
        ];
        let ask = move || numbers.map(|fd| (sort(fd), describe(fd), accepted_at(fd)));
        let here = ask();
        assert!(here[1].1.as_ref().is_some_and(|info| info.peer_port.is_some()));
        assert_eq!(apart.run(ask), here);
        assert_eq!(ours::count_apart(), 0, "nothing of it is kept");
    });
}

#[test]
fn their_lines_reach_the_hosts_stderr_and_their_files_get_names() {
    let folder = std::env::temp_dir().join(format!("dashcam-apart-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let target = folder.join("file");
    in_a_child(|apart| {
        let (mut end, other) = pipe();
        // SAFETY: only this child's stderr.
        assert_eq!(unsafe { libc::dup2(other.as_raw_fd(), 2) }, 2);
        drop(other);
        let keep = target.clone();
        apart.run(move || {
            sys::stderr::line("from afar");
            let mut file = sys::whole_file::WholeFile::create(&keep).expect("created");
            file.write_all(b"whole").expect("written");
            file.keep().expect("kept");
            drop(ours::own_stderr().expect("open"));
        });
        let mut said = [0; 64];
        let length = end.read(&mut said).expect("readable");
        assert_eq!(&said[..length], b"from afar\n");
        assert_eq!(std::fs::read(&target).expect("read"), b"whole");
    });
    std::fs::remove_dir_all(&folder).expect("removed");
}
