//! Repeated reads allocate nothing: switches, threads, calls, vitals.

#![allow(clippy::expect_used, reason = "a test may fail")]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use sys::task::TaskReader;
use sys::vitals::Vitals;
use sys::{calls, mem, perf, task, thread};

thread_local! {
    static COUNT: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: hands every request to the system allocator unchanged; the counter is a plain cell of
// the thread, without a destructor, so it can be reached at any time.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        COUNT.with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promises are passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: as above.
        unsafe { System.dealloc(memory, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

fn allocations(mut body: impl FnMut()) -> u64 {
    body();
    let before = COUNT.with(Cell::get);
    for _ in 0..20 {
        body();
    }
    COUNT.with(Cell::get) - before
}

#[test]
fn nothing_is_allocated() {
    let mut tids = Vec::with_capacity(64);
    assert_eq!(allocations(|| task::list(&mut tids).expect("/proc is there")), 0);
    let mut reader = TaskReader::open(thread::tid()).expect("a thread can open itself");
    let mem = mem::Reader::new().expect("a process may read itself");
    let read = || {
        let _ = (reader.schedstat(), reader.state(), reader.status_switches());
        let _ = reader.wchan().map(str::len);
        let _ = reader.call().map(|call| calls::meaning(&call, &mem));
    };
    assert_eq!(allocations(read), 0);
    let mut vitals = Vitals::open();
    assert_eq!(allocations(|| vitals.read(|_, _| {})), 0);
    let Some(mut stream) = common::stream_or_skip(&[]) else {
        return;
    };
    let mut seen = 0;
    let drain = || {
        std::thread::sleep(std::time::Duration::from_micros(100));
        stream.drain(|_: perf::Switch| seen += 1);
    };
    assert_eq!(allocations(drain), 0);
    assert!(seen > 0);
}
