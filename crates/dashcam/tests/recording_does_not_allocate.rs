//! The macros allocate nothing once a call site and a thread are known, and nothing at all while
//! recording is off.
#![allow(clippy::expect_used, missing_docs)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::path::PathBuf;

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

fn everything(turn: u64) {
    let mut request = dashcam::request!("request", turn = turn, late = dashcam::Later);
    {
        let _span = dashcam::span!("span", text = "a text", half = 0.5);
        dashcam::event!("event", yes = true, key = "k1");
    }
    request.set("late", turn);
    dashcam::carry().run(|| dashcam::event!("carried"));
}

fn allocated(turns: u64) -> u64 {
    let before = ALLOCATED.get();
    (0..turns).for_each(everything);
    ALLOCATED.get() - before
}

#[test]
fn the_macros_allocate_nothing_after_their_first_use() {
    assert_eq!(allocated(1000), 0, "off, before any start");
    let out = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("allocations");
    let config = dashcam::Config::new().memory("16MiB").out(out.display()).slow("1h");
    dashcam::start(config).expect("starts");
    assert!(allocated(1) > 0, "the first use of a thread and its call sites");
    assert_eq!(allocated(10_000), 0, "on");
    dashcam::stop();
    assert_eq!(allocated(1000), 0, "off again");
    dashcam::before_exit();
}
