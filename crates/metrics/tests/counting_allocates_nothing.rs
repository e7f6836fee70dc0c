//! After a thread's first use of a series there is no allocation, for any kind of metric, window
//! after window.
#![allow(clippy::expect_used, missing_docs)]

mod common;

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use common::{add, series, take};
use metrics::window::Kind;

thread_local! {
    static ALLOCATED: Cell<u64> = const { Cell::new(0) };
}

struct Counting;

// SAFETY: every call goes to the system's allocator unchanged.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        let _ = ALLOCATED.try_with(|count| count.set(count.get() + 1));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(at, layout) }
    }
}

#[global_allocator]
static COUNTING: Counting = Counting;

#[test]
fn counting_allocates_nothing_after_the_first_touch() {
    let (calls, took) = (series(Kind::Counter, "calls"), series(Kind::Timing, "took"));
    let (depth, users) = (series(Kind::Gauge, "depth"), series(Kind::Set, "users"));
    let names: Vec<String> = (0..3000).map(|n| format!("user-{n}")).collect();
    let everything = |turns: usize| {
        let before = ALLOCATED.get();
        for turn in 0..turns {
            metrics::count(calls, 1);
            add(calls, 1);
            metrics::count_float(calls, 0.5);
            metrics::value(took, turn as f64);
            metrics::gauge_set(depth, 1.0);
            metrics::gauge_add(depth, 1.0);
            metrics::member(users, &names[turn % names.len()]);
        }
        ALLOCATED.get() - before
    };
    assert!(everything(1) > 0, "the first touch");
    for _ in 0..3 {
        assert_eq!(everything(10_000), 0);
        assert_eq!(take().len(), 4);
    }
}
