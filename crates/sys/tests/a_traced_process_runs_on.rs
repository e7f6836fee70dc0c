//! A process that was stopped runs on, whatever becomes of the process that stopped it.
#![allow(clippy::expect_used, missing_docs)]

use std::sync::atomic::{AtomicI32, AtomicU64, Ordering};
use std::time::Duration;

use sys::tracee::while_stopped;
use testkit::{start_child, until, wait_for_child, Folder};

/// Far longer than a thread takes to stop.
const LIMIT: Duration = Duration::from_secs(60);

/// Words that a test shares with its children.
struct Shared {
    words: &'static [AtomicU64],
    _folder: Folder,
}

const COUNT: usize = 0;
const END: usize = 1;
const STOPPED: usize = 2;

impl Shared {
    fn new() -> Shared {
        let folder = Folder::new("tracee");
        let mapped = sys::map::create(&folder.path().join("words"), 4096).expect("shared memory");
        if mapped.in_steps {
            sys::map::populate(mapped.words).expect("a page");
        }
        Shared { words: mapped.words, _folder: folder }
    }

    fn get(&self, word: usize) -> u64 {
        self.words[word].load(Ordering::Acquire)
    }

    fn set(&self, word: usize, value: u64) {
        self.words[word].store(value, Ordering::Release);
    }

    /// A child with two threads, each of which counts until the end is asked for.
    fn start_counting(&self) -> i32 {
        start_child(|| {
            std::thread::scope(|scope| {
                scope.spawn(|| self.count());
                self.count();
            });
            0
        })
    }

    fn count(&self) {
        while self.get(END) == 0 {
            self.words[COUNT].fetch_add(1, Ordering::Relaxed);
            sys::thread::pause(100_000);
        }
    }

    fn counts_on(&self) {
        let before = self.get(COUNT);
        until("the process to run on", || self.get(COUNT) > before);
    }

    fn end(&self, pid: i32) {
        self.set(END, 1);
        assert_eq!(wait_for_child(pid), 0);
    }
}

/// The states of a process's threads, as /proc has them.
fn states(pid: u32) -> Vec<char> {
    let tasks = std::fs::read_dir(format!("/proc/{pid}/task")).expect("alive");
    let state = |task: std::fs::DirEntry| {
        let stat = std::fs::read_to_string(task.path().join("stat")).ok()?;
        stat.rsplit(')').next()?.trim_start().chars().next()
    };
    tasks.flatten().filter_map(state).collect()
}

#[test]
fn every_thread_is_stopped_while_the_function_runs_and_none_afterwards() {
    let shared = Shared::new();
    let pid = shared.start_counting();
    until("two threads", || shared.get(COUNT) > 0 && states(pid as u32).len() == 2);
    let (seen, took) = while_stopped(pid as u32, LIMIT, || states(pid as u32)).expect("stopped");
    assert_eq!(seen, ['t', 't']);
    assert!(took > Duration::ZERO);
    shared.counts_on();
    assert!(!states(pid as u32).contains(&'t'));
    shared.end(pid);
}

#[test]
fn a_process_runs_on_after_a_panic_while_it_was_stopped() {
    let shared = Shared::new();
    let pid = shared.start_counting();
    until("a count", || shared.get(COUNT) > 0);
    let ended = std::panic::catch_unwind(|| {
        let _ = while_stopped(pid as u32, LIMIT, || panic!("in between"));
    });
    assert!(ended.is_err());
    shared.counts_on();
    shared.end(pid);
}

/// The attacher is killed at the very moment at which all threads are stopped.
#[test]
fn a_process_runs_on_when_the_one_that_stopped_it_is_killed() {
    let shared = Shared::new();
    let pid = AtomicI32::new(0);
    let attacher = start_child(|| {
        // A child of the attacher: tracing a descendant needs no right of its own.
        pid.store(shared.start_counting(), Ordering::Release);
        let counting = pid.load(Ordering::Acquire) as u32;
        until("a count", || shared.get(COUNT) > 0);
        let _ = while_stopped(counting, LIMIT, || {
            shared.set(STOPPED, u64::from(counting));
            loop {
                sys::thread::pause(900_000_000);
            }
        });
        1
    });
    until("the process to be stopped", || shared.get(STOPPED) != 0);
    let counting = shared.get(STOPPED) as u32;
    assert!(states(counting).iter().all(|state| *state == 't'), "{:?}", states(counting));
    // SAFETY: a child of this process that was not waited for.
    unsafe { libc::kill(attacher, libc::SIGKILL) };
    assert_eq!(wait_for_child(attacher), -libc::SIGKILL);
    shared.counts_on();
    shared.set(END, 1);
}

#[test]
fn a_signal_that_arrives_meanwhile_is_delivered_on_release() {
    static CAUGHT: AtomicU64 = AtomicU64::new(0);
    extern "C" fn caught(_: i32) {
        CAUGHT.fetch_add(1, Ordering::Relaxed);
    }
    let shared = Shared::new();
    let pid = start_child(|| {
        // SAFETY: the handler only adds to an atomic.
        unsafe { libc::signal(libc::SIGUSR1, caught as extern "C" fn(i32) as usize) };
        shared.set(COUNT, 1);
        while CAUGHT.load(Ordering::Relaxed) == 0 {
            sys::thread::pause(100_000);
        }
        7
    });
    until("the handler", || shared.get(COUNT) == 1);
    // SAFETY: a child of this process that was not waited for.
    let sent = while_stopped(pid as u32, LIMIT, || unsafe { libc::kill(pid, libc::SIGUSR1) });
    assert_eq!(sent.expect("stopped").0, 0);
    assert_eq!(wait_for_child(pid), 7);
}

#[test]
fn a_process_that_has_ended_is_an_error() {
    let pid = start_child(|| 0);
    assert_eq!(wait_for_child(pid), 0);
    let error = while_stopped(pid as u32, LIMIT, || ()).expect_err("ended");
    assert!(
        error.kind() == std::io::ErrorKind::NotFound || error.raw_os_error() == Some(libc::ESRCH),
        "{error}"
    );
}

/// A thread that waits in the kernel, here for a child that shares its execution, does not stop.
#[test]
fn a_thread_that_does_not_stop_is_an_error_with_its_state_and_runs_on() {
    let shared = Shared::new();
    let pid = start_child(|| {
        let flags = libc::CLONE_VFORK | libc::SIGCHLD;
        // SAFETY: as fork: the child has a copy of the memory, and ends without returning. This
        // process has one thread.
        let made = unsafe { libc::syscall(libc::SYS_clone, flags, 0, 0, 0, 0) };
        if made == 0 {
            until("the end", || shared.get(END) == 1);
            // SAFETY: ends the child, without what its parent does at its exit.
            unsafe { libc::_exit(0) };
        }
        7
    });
    until("a wait in the kernel", || states(pid as u32) == ['D']);
    let error = while_stopped(pid as u32, Duration::ZERO, || ()).expect_err("no stop");
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert_eq!(error.to_string(), format!("thread {pid} (state D) of process {pid}"));
    shared.set(END, 1);
    assert_eq!(wait_for_child(pid), 7);
}

#[test]
fn a_process_that_is_traced_already_is_an_error_and_stays_with_its_tracer() {
    let shared = Shared::new();
    let pid = shared.start_counting();
    let second = || while_stopped(pid as u32, LIMIT, || ()).map(drop);
    let (refused, _) = while_stopped(pid as u32, LIMIT, second).expect("stopped");
    assert_eq!(refused.expect_err("one tracer only").raw_os_error(), Some(libc::EPERM));
    shared.counts_on();
    shared.end(pid);
}
