//! A capture in parts takes the memory of a part, in every format. A binary of its own: its
//! allocator counts for the whole process.
#![allow(clippy::expect_used, missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use capture::read::{Capture, Parts};
use export::{Chosen, Format, InParts, Options, Value};
use golden::large;

static NOW: AtomicUsize = AtomicUsize::new(0);
static MOST: AtomicUsize = AtomicUsize::new(0);

struct Counting;

// SAFETY: every call is passed on to the system's allocator as it is; the counters are no part of
// what an allocator promises.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // Relaxed: the counters order nothing.
        let now = NOW.fetch_add(layout.size(), Ordering::Relaxed) + layout.size();
        // Relaxed: as above.
        MOST.fetch_max(now, Ordering::Relaxed);
        // SAFETY: the caller's promise about the layout.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        // Relaxed: as above.
        NOW.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise: the block is of this allocator, with this layout.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The largest number of bytes that `run` has at once, beyond those before.
fn most_bytes(run: impl FnOnce()) -> usize {
    // Relaxed: one thread.
    let before = NOW.load(Ordering::Relaxed);
    MOST.store(before, Ordering::Relaxed);
    run();
    MOST.load(Ordering::Relaxed) - before
}

fn options() -> Options<'static> {
    let (value, requests) = (Value::Wall, Chosen::Everything);
    Options { value, requests, all_threads: false, limit_ns: &|_| 100_000_000 }
}

fn in_parts(bytes: &[u8], words: usize, format: Format) {
    let (mut parts, capture) = Parts::parse(bytes, words).expect("a capture");
    let count = parts.count();
    let mut next = |capture: &mut Capture| parts.next(capture).map_err(io::Error::other);
    let mut all = InParts { capture, next: &mut next, count };
    export::write_parts(&mut all, format, &options(), &mut io::sink(), &mut |_, _| ())
        .expect("nothing is written");
}

#[test]
fn a_capture_in_parts_takes_the_memory_of_a_part() {
    let (small, _) = large::write(Vec::new(), 1).expect("written");
    let (big, _) = large::write(Vec::new(), 4).expect("written");
    let words = 1 << 14;
    // One that writes rows, one that writes all at the end, one that keeps rows in a file; the
    // other formats share their writers.
    for format in [Format::Perfetto, Format::Pprof, Format::Speedscope] {
        let least = most_bytes(|| in_parts(&small, words, format));
        let most = most_bytes(|| in_parts(&big, words, format));
        let whole = most_bytes(|| in_parts(&big, usize::MAX, format));
        let name = format.name();
        // Four times the capture, in parts of the same size.
        assert!(most < 2 * least, "{name}: {most} of four, {least} of one");
        // A format of few rows takes what reading takes: ten times as much in whole.
        assert!(whole > 4 * most, "{name}: {whole} in whole, {most} in parts");
    }
}
