//! Our descriptors do not take numbers that the host needs: they have high numbers, and those that
//! `select` can take remain the host's. A stream takes a bounded share, and is refused rather than
//! cover nothing.
//!
//! Every test runs in forked children, whose limit it may change; one test at a time, because a
//! child inherits the descriptors of streams that other tests have open.

use std::sync::{mpsc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use sys::perf::SwitchStream;
use sys::thread;

fn alone() -> MutexGuard<'static, ()> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner)
}

fn limit_descriptors(soft: u64) {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is ours; concerns this child only.
    unsafe {
        assert_eq!(libc::getrlimit(libc::RLIMIT_NOFILE, &mut limit), 0);
        limit.rlim_cur = soft.min(limit.rlim_max);
        assert_eq!(libc::setrlimit(libc::RLIMIT_NOFILE, &limit), 0);
    }
}

/// Numbers of our open perf events.
fn numbers() -> Vec<i32> {
    numbers_of("perf_event")
}

/// Numbers of all that is open whose path has `part`.
fn numbers_of(part: &str) -> Vec<i32> {
    let dir = std::fs::read_dir("/proc/self/fd").expect("/proc is there").flatten();
    let these = dir.filter(|entry| {
        std::fs::read_link(entry.path()).is_ok_and(|to| to.to_string_lossy().contains(part))
    });
    these.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

#[test]
fn low_numbers_stay_free() {
    let _alone = alone();
    let code = crate::common::in_a_child(|| {
        limit_descriptors(4096);
        let stream = crate::common::stream_or_skip(&[]);
        let numbers = numbers();
        assert_eq!(numbers.len(), stream.as_ref().map_or(0, SwitchStream::descriptors));
        assert!(numbers.iter().all(|number| *number >= 1024), "{numbers:?}");
        0
    });
    assert_eq!(code, 0);
}

#[test]
fn what_is_read_of_threads_has_high_numbers() {
    let _alone = alone();
    let code = crate::common::in_a_child(|| {
        limit_descriptors(4096);
        let tid = thread::tid();
        let mut reader = sys::task::TaskReader::open(tid).expect("it lives");
        reader.schedstat().expect("readable");
        reader.state().expect("readable");
        let numbers = numbers_of(&format!("/task/{tid}"));
        assert!(numbers.len() >= 3, "{numbers:?}");
        assert!(numbers.iter().all(|number| *number >= 1024), "{numbers:?}");
        0
    });
    assert_eq!(code, 0);
}

#[test]
fn a_share_is_not_exceeded_and_what_is_left_out_is_counted() {
    let _alone = alone();
    let code = crate::common::in_a_child(|| {
        let (_never, wait) = mpsc::channel::<()>();
        let wait = std::sync::Arc::new(Mutex::new(wait));
        for _ in 0..40 {
            let wait = wait.clone();
            // Not of Rust's: the harness may have been beginning one of those at the fork.
            let body = move || drop(wait.lock().map(|wait| wait.recv()));
            drop(thread::spawn_quiet("waits", body).expect("starts"));
        }
        limit_descriptors(128);
        if let Some(stream) = crate::common::stream_or_skip(&[]) {
            let cpus = stream.cpus();
            // Four of the eighth of the limit are for events, one ring a CPU among them.
            let expected = 41 - (4 - cpus.min(4)) / cpus;
            assert_eq!(stream.uncovered(), expected, "on {cpus} CPUs");
            assert!(stream.descriptors() <= 4);
        }
        0
    });
    assert_eq!(code, 0);
}

#[test]
fn a_stream_covers_something_or_is_refused() {
    let _alone = alone();
    if crate::common::stream_or_skip(&[]).is_none() {
        return;
    }
    for soft in 3..40 {
        let code = crate::common::in_a_child(|| {
            limit_descriptors(soft);
            match SwitchStream::open(&[]) {
                Ok(mut stream) => {
                    let mut seen = false;
                    // On a busy machine the first records may come later.
                    for _ in 0..500 {
                        std::thread::sleep(Duration::from_millis(1));
                        stream.drain(|s| seen |= s.tid == thread::tid());
                        if seen {
                            break;
                        }
                    }
                    assert!(seen, "with {soft} descriptors");
                }
                Err(e) => assert!(e.to_string().contains("RLIMIT_NOFILE"), "{e}"),
            }
            0
        });
        assert_eq!(code, 0, "with {soft} descriptors");
    }
}
