//! A watch samples the place where a thread computes, with its stack, and nothing of one that
//! sleeps.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc;
use std::time::Duration;
use sys::perf::{Seen, Watch};
use sys::thread;

const PERIOD_NS: u64 = 2_000_000;
/// Far apart from anything a stack holds by chance.
const MARK: u64 = 0x6461_7368_6361_6d21;

#[inline(never)]
fn spin(stop: &AtomicBool, place: &AtomicU64) -> u64 {
    let local = std::hint::black_box([MARK; 4]);
    place.store(local.as_ptr() as u64, Ordering::Relaxed);
    let mut turns = 0u64;
    while !stop.load(Ordering::Relaxed) {
        turns = std::hint::black_box(turns.wrapping_mul(3) + 1);
    }
    turns.wrapping_add(std::hint::black_box(&local)[0])
}

fn watch_or_skip(tid: u32) -> Option<Watch> {
    Watch::open(tid, PERIOD_NS).map_err(|e| crate::common::skipped(&e.to_string())).ok()
}

/// Waits for a sample; the machine may be busy.
fn next(watch: &mut Watch, stack: &mut Vec<u8>) -> Seen {
    loop {
        if let Some(seen) = watch.next(stack) {
            return seen;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[test]
fn a_spinning_thread_is_seen_with_its_stack() {
    static STOP: AtomicBool = AtomicBool::new(false);
    static PLACE: AtomicU64 = AtomicU64::new(0);
    let (sender, receiver) = mpsc::channel();
    let spinner = std::thread::spawn(move || {
        sender.send(thread::tid()).expect("the test listens");
        spin(&STOP, &PLACE)
    });
    let tid = receiver.recv().expect("it starts");
    if let Some(mut watch) = watch_or_skip(tid) {
        let mut stack = Vec::new();
        assert_eq!(watch.next(&mut stack), None, "it is made disabled");
        while PLACE.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        assert!(!watch.ended());
        let before = sys::clock::now_ns();
        watch.enable(true);
        for _ in 0..20 {
            let seen = next(&mut watch, &mut stack);
            assert!(seen.t_ns >= before && seen.t_ns <= sys::clock::now_ns());
            let at = PLACE.load(Ordering::Relaxed).checked_sub(seen.sp);
            let at = at.expect("its locals lie above its stack pointer") as usize;
            assert_eq!(stack.get(at..at + 8), Some(&MARK.to_le_bytes()[..]));
        }
        watch.enable(false);
        while watch.next(&mut stack).is_some() {}
        let had = watch.seen();
        std::thread::sleep(Duration::from_millis(20));
        assert_eq!((watch.next(&mut stack), watch.seen()), (None, had), "it is disabled");
        assert_eq!(watch.garbled(), 0);
    }
    STOP.store(true, Ordering::Relaxed);
    spinner.join().expect("it spins");
}

/// As `spin`, for a caller that keeps a buffer on its stack, as `std::io::copy` does.
#[inline(never)]
fn spin_below_a_buffer(stop: &AtomicBool, place: &AtomicU64) -> u64 {
    let buffer = std::hint::black_box([1u8; 10 << 10]);
    let turns = spin(stop, place);
    turns.wrapping_add(u64::from(std::hint::black_box(&buffer)[9]))
}

#[test]
fn callers_of_one_that_keeps_a_large_buffer_are_seen() {
    static STOP: AtomicBool = AtomicBool::new(false);
    static PLACE: AtomicU64 = AtomicU64::new(0);
    static CALLER: AtomicU64 = AtomicU64::new(0);
    let (sender, receiver) = mpsc::channel();
    let spinner = std::thread::spawn(move || {
        let local = std::hint::black_box([!MARK; 4]);
        CALLER.store(local.as_ptr() as u64, Ordering::Relaxed);
        sender.send(thread::tid()).expect("the test listens");
        spin_below_a_buffer(&STOP, &PLACE).wrapping_add(std::hint::black_box(&local)[0])
    });
    if let Some(mut watch) = watch_or_skip(receiver.recv().expect("it starts")) {
        while PLACE.load(Ordering::Relaxed) == 0 {
            std::thread::yield_now();
        }
        watch.enable(true);
        let mut stack = Vec::new();
        let seen = next(&mut watch, &mut stack);
        let at = CALLER.load(Ordering::Relaxed).checked_sub(seen.sp);
        let at = at.expect("callers lie above the stack pointer") as usize;
        assert!(at > 10 << 10);
        assert_eq!(stack.get(at..at + 8), Some(&(!MARK).to_le_bytes()[..]));
    }
    STOP.store(true, Ordering::Relaxed);
    spinner.join().expect("it spins");
}

#[test]
fn a_full_ring_loses_and_counts() {
    static STOP: AtomicBool = AtomicBool::new(false);
    static PLACE: AtomicU64 = AtomicU64::new(0);
    let (sender, receiver) = mpsc::channel();
    let spinner = std::thread::spawn(move || {
        sender.send(thread::tid()).expect("the test listens");
        spin(&STOP, &PLACE)
    });
    if let Some(mut watch) = watch_or_skip(receiver.recv().expect("it starts")) {
        let mut stack = Vec::new();
        watch.enable(true);
        // The count comes with the first record that fits again.
        while watch.lost() == 0 {
            std::thread::sleep(Duration::from_millis(50));
            next(&mut watch, &mut stack);
        }
        assert_eq!(watch.garbled(), 0);
    }
    STOP.store(true, Ordering::Relaxed);
    spinner.join().expect("it spins");
}

#[test]
fn threads_may_end_and_the_process_fork_while_they_are_watched() {
    if watch_or_skip(thread::tid()).is_none() {
        return;
    }
    let mut stack = Vec::new();
    let mut kept = Vec::new();
    for turn in 0..60 {
        let (sender, receiver) = mpsc::channel();
        let brief = std::thread::spawn(move || {
            sender.send(thread::tid()).expect("the test listens");
            (0..turn * 20_000u64).fold(0, |sum, i| std::hint::black_box(sum ^ i))
        });
        let tid = receiver.recv().expect("it starts");
        match Watch::open(tid, 100_000) {
            Ok(mut watch) => {
                watch.enable(true);
                kept.push(watch);
            }
            // It was faster.
            Err(refused) => assert_eq!(refused.errno, libc::ESRCH, "{refused}"),
        }
        if turn % 10 == 0 {
            assert_eq!(crate::common::in_a_child(|| 0), 0);
        }
        brief.join().expect("it computes");
        // Joined is a moment before ended.
        crate::common::wait_for("the thread's end", || {
            kept.last().is_none_or(Watch::ended).then_some(())
        });
        kept.iter_mut().for_each(|watch| {
            watch.next(&mut stack);
            assert_eq!(watch.garbled(), 0);
        });
        if kept.len() > 5 {
            kept.clear();
        }
    }
}

#[test]
fn also_as_nobody() {
    crate::common::all_again_as_nobody(module_path!());
}
