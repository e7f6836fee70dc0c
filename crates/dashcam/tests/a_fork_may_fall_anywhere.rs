//! A fork may fall between any two lines of any thread of ours: the child must still be able to
//! start, record, save and stop, whatever the parent's threads had half done.
//!
//! The allocator stops a thread that allocates, every so often, in the middle of whatever it does;
//! then another thread forks. Each part runs in a process of its own, forked before anything was
//! started, so that also what is done once a process is met half done.
#![allow(clippy::expect_used, missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::io::Write;
use std::net::UdpSocket;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::OnceLock;
use std::time::Duration;

/// Every how many allocations a fork comes, and how many processes share that. `DASHCAM_FORK_PARTS`
/// sets how many of them run (default 1; the live lane runs all). `DASHCAM_THREAD_FORKS` sets how
/// many forks come while threads begin.
const EVERY: u64 = 97;
const PARTS: u64 = 4;

/// Counts and stops. Its fields say what to do, and are read by all threads.
struct Stopping {
    on: AtomicBool,
    /// Allocations, every how many of them to stop, and at which.
    count: AtomicU64,
    every: AtomicU64,
    at: AtomicU64,
    /// Most forks.
    most: AtomicU64,
    /// Forks asked for and done.
    wanted: AtomicU64,
    done: AtomicU64,
}

thread_local! {
    /// This thread forks, or is being stopped.
    static APART: Cell<bool> = const { Cell::new(false) };
}

impl Stopping {
    fn allocates(&self) {
        if !self.on.load(Ordering::Relaxed)
            || APART.try_with(|apart| apart.replace(true)) != Ok(false)
        {
            return;
        }
        let (every, at) = (self.every.load(Ordering::Relaxed), self.at.load(Ordering::Relaxed));
        if self.count.fetch_add(1, Ordering::Relaxed) % every == at {
            let mine = self.wanted.fetch_add(1, Ordering::AcqRel) + 1;
            while self.on.load(Ordering::Acquire) && self.done.load(Ordering::Acquire) < mine {
                sys::thread::pause(50_000);
            }
        }
        let _ = APART.try_with(|apart| apart.set(false));
    }
}

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Stopping {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        self.allocates();
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static STOPPING: Stopping = Stopping {
    on: AtomicBool::new(false),
    count: AtomicU64::new(0),
    every: AtomicU64::new(EVERY),
    at: AtomicU64::new(0),
    most: AtomicU64::new(30),
    wanted: AtomicU64::new(0),
    done: AtomicU64::new(0),
};

/// Where captures go: made by the test before it forks.
static FOLDER: OnceLock<testkit::Folder> = OnceLock::new();

fn folder() -> &'static Path {
    FOLDER.get_or_init(|| testkit::Folder::new("forks-anywhere")).path()
}

const HEADER: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

/// A bit of everything. The number says what went wrong.
fn work() -> i32 {
    let request = dashcam::request!("GET /somewhere");
    if !dashcam::continue_trace(request.id(), HEADER, "vendor=1") {
        return 20;
    }
    if dashcam::tracestate_of(request.id()).as_deref() != Some("vendor=1") {
        return 21;
    }
    let inside = dashcam::span!("inside", n = 1);
    dashcam::event!("point", key = "k1");
    dashcam::counter("calls").inc();
    dashcam::gauge("depth").set(1.0);
    dashcam::timing("took").record(1.0);
    dashcam::set("users").add("somebody");
    drop((inside, request));
    0
}

fn config() -> dashcam::Config {
    dashcam::Config::new().memory("1MiB").out(folder().display()).slow("1h").keep(3)
}

/// In a child: what a program may do there. It either goes on with its parent's settings, or,
/// forked while its parent started or stopped, begins by itself.
fn child() -> i32 {
    dashcam::after_fork_child();
    if dashcam::start(config()).is_err() || !dashcam::is_started() {
        return 10;
    }
    let failed = work();
    if failed != 0 {
        return failed;
    }
    if dashcam::snap("child").is_err() {
        return 11;
    }
    // The sampler is there, and passes.
    for _ in 0..2000 {
        if !dashcam::status_json().contains("\"passes\":0,") {
            dashcam::before_exit();
            return 0;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    12
}

/// Forks when a thread is stopped, until `end` is set; the first code that is not 0, and how many.
fn forks(end: &AtomicBool) -> (i32, u64) {
    APART.set(true);
    let (mut bad, mut forked) = (0, 0);
    while !end.load(Ordering::Acquire) {
        let done = STOPPING.done.load(Ordering::Relaxed);
        if STOPPING.wanted.load(Ordering::Acquire) == done {
            sys::thread::pause(20_000);
            continue;
        }
        let mut pid = 0;
        if bad == 0 && forked < STOPPING.most.load(Ordering::Relaxed) {
            pid = testkit::start_child(|| {
                STOPPING.on.store(false, Ordering::Relaxed);
                child()
            });
            forked += 1;
        }
        STOPPING.done.store(done + 1, Ordering::Release);
        if pid != 0 {
            bad = testkit::wait_at_most(pid, Duration::from_secs(40)).unwrap_or(99);
        }
    }
    (bad, forked)
}

/// Calls `body` with a fork wherever the allocator stops a thread; what went wrong in a child, and
/// how many there were.
fn while_forks_come(body: impl FnOnce()) -> (i32, u64) {
    static END: AtomicBool = AtomicBool::new(false);
    let forker = std::thread::spawn(|| forks(&END));
    {
        let _ends = testkit::SetsAtEnd(&END);
        STOPPING.on.store(true, Ordering::Release);
        body();
        STOPPING.on.store(false, Ordering::Release);
    }
    forker.join().expect("no panic")
}

/// A life in which all is done for the first time, some of it again.
fn life(part: u64) -> i32 {
    let receiver = UdpSocket::bind("127.0.0.1:0").expect("a port");
    let at = receiver.local_addr().expect("bound");
    std::env::set_var("DASHCAM_STATSD", format!("udp://{at}"));
    // Nobody listens there: it is refused at once.
    std::env::set_var("DASHCAM_OTLP", "http://127.0.0.1:1");
    STOPPING.at.store(part * EVERY / PARTS, Ordering::Relaxed);
    let mut failed = 0;
    let (bad, forked) = while_forks_come(|| {
        for round in 0..2 {
            dashcam::start(config()).expect("starts");
            for n in 0..40 {
                failed = failed.max(work());
                dashcam::event!(name: &format!("name {round} {n}"));
            }
            // The forks that stop the thread which writes may take longer than `snap` waits.
            if let Err(why) = dashcam::snap("parent") {
                assert!(why.contains("not written within"), "{why}");
            }
            dashcam::flush();
            dashcam::stop();
        }
    });
    dashcam::before_exit();
    // To be sure that it is not an empty promise.
    let few = i32::from(forked < 10) * 30;
    [failed, bad, few].into_iter().find(|code| *code != 0).unwrap_or(0)
}

// Each test is a process of its own (nextest): a child must not be forked while the harness begins
// a thread for another test, or the standard library begins none in it.

#[test]
fn a_child_forked_anywhere_starts_records_saves_and_stops() {
    let folder = folder();
    for part in 0..testkit::count("DASHCAM_FORK_PARTS", 1).min(PARTS) {
        assert_eq!(testkit::in_a_child(|| life(part)), 0, "part {part}");
    }
    testkit::remove(folder);
}

/// Threads of Rust's take a lock of the standard library when they begin, and allocate while they
/// have it. A child that was forked at that moment could begin no thread.
#[test]
fn a_child_forked_while_a_thread_of_the_program_begins_has_threads_of_ours() {
    let folder = folder();
    let code = testkit::in_a_child(|| {
        dashcam::start(config()).expect("starts");
        STOPPING.every.store(1, Ordering::Relaxed);
        STOPPING.most.store(testkit::count("DASHCAM_THREAD_FORKS", 24), Ordering::Relaxed);
        let (over, begun) = (AtomicBool::new(false), AtomicU64::new(0));
        let (bad, forked) = std::thread::scope(|scope| {
            let _ends = testkit::SetsAtEnd(&over);
            while_forks_come(|| {
                // The library's list of threads allocates under its lock when there are twelve.
                for _ in 0..16 {
                    scope.spawn(|| {
                        begun.fetch_add(1, Ordering::Relaxed);
                        while !over.load(Ordering::Relaxed) {
                            std::thread::sleep(Duration::from_millis(5));
                        }
                    });
                }
                while begun.load(Ordering::Relaxed) < 16 {
                    std::thread::sleep(Duration::from_millis(1));
                }
            })
        });
        dashcam::before_exit();
        // To be sure that it is not an empty promise.
        bad + i32::from(forked < 16) * 30
    });
    assert_eq!(code, 0);
    testkit::remove(folder);
}

/// What the recorder has to say in a child it says on a thread of the program, and the parent's
/// other thread may have been writing to stderr.
#[test]
fn a_child_has_its_say_while_a_thread_of_its_parent_has_stderr() {
    let folder = folder();
    let code = testkit::in_a_child(|| {
        // Said at each start, since nothing comes of it.
        std::env::set_var("DASHCAM_STATSD", "nonsense://");
        dashcam::start(config()).expect("starts");
        let (report, reported) = std::sync::mpsc::channel();
        std::thread::spawn(move || {
            let mut stderr = std::io::stderr().lock();
            let _ = stderr.write_all(b"dashcam: a line that is not said at once\n");
            report.send(()).expect("it is waited for");
            std::thread::sleep(Duration::from_secs(1000));
        });
        reported.recv().expect("it writes");
        let code = testkit::in_a_child(child);
        dashcam::before_exit();
        code
    });
    assert_eq!(code, 0);
    testkit::remove(folder);
}
