//! However many requests are slow at once, and however many threads are in their way, a pass
//! samples no more threads than the setting `threads` allows; and the threads in one slow request's
//! way are seen.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Barrier};
use std::time::{Duration, Instant};

const PAIRS: usize = 24;
const THREADS: u64 = 4;

/// A mutex of the C library, which names its owner: each sample shows the thread in the way.
struct Lock(std::cell::UnsafeCell<libc::pthread_mutex_t>);

// SAFETY: pthread_mutex_t is made to be used by several threads at once, through its address alone;
// nothing else is done with it, and it does not move (it is behind an Arc).
unsafe impl Sync for Lock {}
// SAFETY: as above.
unsafe impl Send for Lock {}

impl Lock {
    fn new() -> Lock {
        Lock(std::cell::UnsafeCell::new(libc::PTHREAD_MUTEX_INITIALIZER))
    }

    fn take(&self) {
        // SAFETY: an initialised mutex that outlives the call.
        assert_eq!(unsafe { libc::pthread_mutex_lock(self.0.get()) }, 0);
    }

    fn give(&self) {
        // SAFETY: as above, and this thread has it.
        assert_eq!(unsafe { libc::pthread_mutex_unlock(self.0.get()) }, 0);
    }
}

/// A figure of the sampler.
fn figure(name: &str) -> u64 {
    let status = dashcam::status_json();
    let (_, from) = status.split_once(&format!("\"{name}\":")).expect("the sampler's figures");
    let digits = from.find(|c: char| !c.is_ascii_digit()).unwrap_or(from.len());
    from[..digits].parse().expect("a number")
}

/// Holds `lock` until it is stopped, and runs a little all the time.
fn hold(lock: &Lock, held: &Barrier, stop: &AtomicBool) {
    lock.take();
    held.wait();
    while !stop.load(Ordering::Relaxed) {
        std::thread::sleep(Duration::from_millis(1));
    }
    lock.give();
}

fn wait_in_a_request(lock: &Lock) {
    let _request = dashcam::request!("waits");
    lock.take();
    lock.give();
}

/// Threads by name, as the kernel has it.
fn tids(name: &str) -> Vec<u32> {
    let tasks = std::fs::read_dir("/proc/self/task").expect("our threads");
    let of = |entry: std::io::Result<std::fs::DirEntry>| {
        let path = entry.ok()?.path();
        let comm = std::fs::read_to_string(path.join("comm")).ok()?;
        let tid = path.file_name()?.to_str()?.parse().ok()?;
        (comm.trim() == name).then_some(tid)
    };
    tasks.filter_map(of).collect()
}

#[test]
fn no_pass_looks_at_more_threads_than_it_may() {
    let out = std::path::Path::new(env!("CARGO_TARGET_TMPDIR"))
        .join(format!("places-{}", std::process::id()));
    let settings = dashcam::Config::new().service("places").slow("10s").out(out.display());
    let settings = settings.with("threads", THREADS).with("budget_percent", 100);
    dashcam::start(settings).expect("settings");
    let (stop, held) = (Arc::new(AtomicBool::new(false)), Arc::new(Barrier::new(PAIRS + 1)));
    let locks: Vec<Arc<Lock>> = (0..PAIRS).map(|_| Arc::new(Lock::new())).collect();
    let mut threads = Vec::new();
    for lock in &locks {
        let (lock, held, stop) = (lock.clone(), held.clone(), stop.clone());
        let named = std::thread::Builder::new().name("holds".into());
        threads.push(named.spawn(move || hold(&lock, &held, &stop)).expect("a thread"));
    }
    held.wait();
    for lock in &locks {
        let lock = lock.clone();
        let named = std::thread::Builder::new().name("waits".into());
        threads.push(named.spawn(move || wait_in_a_request(&lock)).expect("a thread"));
    }
    // What is usual for such a request is not known: all are past it after a short while.
    std::thread::sleep(Duration::from_millis(300));
    let (before, began) = ([figure("passes"), figure("samples")], Instant::now());
    while figure("passes") < before[0] + 60 {
        assert!(began.elapsed() < Duration::from_secs(60), "{}", dashcam::status_json());
        std::thread::sleep(Duration::from_millis(20));
    }
    // A pass is counted at its end, its samples before.
    let (samples, passes) = (figure("samples") - before[1], figure("passes") + 1 - before[0]);
    let path = dashcam::snap("test").expect("a capture");
    let (holders, waiters) = (tids("holds"), tids("waits"));
    stop.store(true, Ordering::Relaxed);
    threads.into_iter().for_each(|thread| thread.join().expect("it ends"));
    let capture = capture::read::Capture::open(&path).expect("a whole capture");
    testkit::remove(&out);
    println!("{samples} samples in {passes} passes");
    assert!(samples <= THREADS * passes, "{samples} samples in {passes} passes");
    // Each in the other's way, and each had its turn.
    let seen = |tid: &&u32| capture.samples.get(tid).is_some_and(|rows| !rows.is_empty());
    let (holders, waiters) =
        (holders.iter().filter(seen).count(), waiters.iter().filter(seen).count());
    assert!(holders > PAIRS / 2 && waiters == PAIRS, "{holders} holders, {waiters} waiters");
}
