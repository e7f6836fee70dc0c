//! How many threads this process has, and how many of them are ours.
//!
//! How it works: threads of ours enter their ids into a fixed table of atomics. The kernel has the
//! number of all threads as the link count of /proc/self/task, which opens nothing. A thread whose
//! body is over may exist for a moment more: while one does, and for threads that were not started
//! by us (`name_own`), the names in /proc decide instead, each of which is a file.
//!
//! What it promises: a thread of the host's never counts as ours. What it does not: a thread of
//! ours may count as the host's while it starts, or where the table is full.

use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicU64, Ordering};

/// The begin of the names of all threads of ours.
const OURS: &[u8] = b"dashcam-";
/// With more threads than this, their names are not read.
const MANY_THREADS: usize = 64;
/// Places of the table: a handful of threads, and one for each live stream.
const PLACES: usize = 96;
/// Beside an id: only its name shows whether it is still ours.
const UNSURE: u64 = 1 << 32;

/// Ids of threads of ours, 0: free. Written by each thread itself, and freed by the thread that
/// finds that it is gone. Relaxed: nothing else depends on them, and a count has no exact instant.
static IDS: [AtomicU64; PLACES] = [const { AtomicU64::new(0) }; PLACES];

/// A thread of ours while its body runs.
pub(crate) struct Entered {
    id: u64,
    place: Option<&'static AtomicU64>,
}

/// The calling thread, which is ours, was started by us.
pub(crate) fn enter(tid: u32) -> Entered {
    Entered { id: tid.into(), place: put(tid.into()) }
}

fn put(value: u64) -> Option<&'static AtomicU64> {
    let take = |place: &&AtomicU64| {
        place.compare_exchange(0, value, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    };
    IDS.iter().find(take)
}

impl Drop for Entered {
    fn drop(&mut self) {
        if let Some(place) = self.place {
            place.store(self.id | UNSURE, Ordering::Relaxed);
        }
    }
}

/// In a forked child, where the calling thread is the only one. Async-signal-safe.
pub(crate) fn forget() {
    IDS.iter().for_each(|place| place.store(0, Ordering::Relaxed));
}

/// Gives the calling thread a name in the kernel, of which 15 bytes are kept: one that was not
/// started here counts as ours by it.
pub fn name_own(tid: u32, name: &str) {
    if let Ok(name) = std::ffi::CString::new(name) {
        // SAFETY: the name ends with a NUL.
        unsafe { libc::prctl(libc::PR_SET_NAME, name.as_ptr(), 0, 0, 0) };
    }
    put(u64::from(tid) | UNSURE);
}

/// Whether a thread of this process with that id is alive. A syscall; async-signal-safe.
pub fn exists(tid: u32) -> bool {
    // SAFETY: signal 0 is never delivered; the call only checks that the thread is there.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, 0) == 0 }
}

/// How many threads this process has, and how many of them are ours; None if /proc does not show
/// it. Microseconds; some 10 us for each thread where names have to be read, and with more than
/// `MANY_THREADS` threads none counts as ours then.
pub fn count() -> Option<(usize, usize)> {
    let all = all();
    match sure() {
        Some(ours) if all > ours => Some((all, ours)),
        _ => by_names(),
    }
}

/// All threads; 0 where the kernel does not count them.
fn all() -> usize {
    /// Links of a folder without folders in it.
    const OF_ANY: u64 = 2;
    let links = std::fs::metadata("/proc/self/task").map_or(0, |folder| folder.nlink());
    usize::try_from(links.saturating_sub(OF_ANY)).unwrap_or(0)
}

/// Threads of ours. None: of one it is not sure whether it is gone.
fn sure() -> Option<usize> {
    let mut ours = 0;
    for place in &IDS {
        let value = place.load(Ordering::Relaxed);
        match value {
            0 => continue,
            running if running & UNSURE == 0 => ours += 1,
            unsure if exists(unsure as u32) => return None,
            gone => {
                let _ = place.compare_exchange(gone, 0, Ordering::Relaxed, Ordering::Relaxed);
            }
        }
    }
    Some(ours)
}

/// By the kernel's names. A thread that ends meanwhile does not count.
fn by_names() -> Option<(usize, usize)> {
    let all: Vec<_> = std::fs::read_dir("/proc/self/task").ok()?.flatten().collect();
    if all.len() > MANY_THREADS {
        return Some((all.len(), 0));
    }
    let name = |thread: &std::fs::DirEntry| std::fs::read(thread.path().join("comm")).ok();
    let names: Vec<Vec<u8>> = all.iter().filter_map(name).collect();
    Some((names.len(), names.iter().filter(|name| name.starts_with(OURS)).count()))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;

    use super::*;

    /// In its own process (nextest): it is about all threads.
    #[test]
    fn threads_are_counted_without_a_descriptor() {
        let (go, wait) = channel::<()>();
        let waiting = crate::thread::spawn_quiet("other", move || {
            let _ = wait.recv();
        });
        let (end, hosts) = channel::<()>();
        let host = std::thread::spawn(move || {
            let _ = hosts.recv();
        });
        // Rust's tests have a thread beside the first one.
        let first = std::fs::read_dir("/proc/self/task").expect("it is there").count() - 2;
        let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
        // SAFETY: `limit` is ours, whole, and of the type that the calls want.
        unsafe {
            assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
            let none = libc::rlimit { rlim_cur: 0, ..limit };
            assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &none), 0);
        }
        assert_eq!(count(), Some((first + 2, 1)));
        // SAFETY: as above.
        unsafe { assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0) };
        drop((go, end));
        waiting.expect("starts").join();
        host.join().expect("ends");
        assert_eq!(sure(), Some(0));
    }

    #[test]
    fn a_thread_that_is_ours_by_name_is_found_by_it() {
        let (go, wait) = channel::<()>();
        let (sender, receiver) = channel();
        let host = std::thread::spawn(move || {
            name_own(crate::thread::tid(), "dashcam-by-name");
            sender.send(()).expect("waited for");
            let _ = wait.recv();
        });
        receiver.recv().expect("it runs");
        assert_eq!(sure(), None);
        assert!(count().is_some_and(|(_, ours)| ours == 1));
        drop(go);
        host.join().expect("ends");
    }
}
