//! Threads that end by a raw exit system call in the middle of a span do not use up the lines of
//! open spans: when no line is left, lines of dead threads are freed.
#![allow(clippy::expect_used, missing_docs)]

use std::ffi::c_void;
use std::sync::atomic::{AtomicU32, Ordering};

use format::region::losses;
use recorder::{Limit, Recorder};
use ring::Region;

/// The thread that died last, as the kernel names it.
static DEAD: AtomicU32 = AtomicU32::new(0);

extern "C" fn dies_in_a_span(begin_ns: *mut c_void) -> *mut c_void {
    DEAD.store(sys::thread::tid(), Ordering::Relaxed);
    recorder::begin_span(1, begin_ns as u64, 0);
    // SAFETY: no Rust frame above needs unwinding: this is the thread's first function.
    unsafe { libc::syscall(libc::SYS_exit, 0) };
    std::ptr::null_mut()
}

#[test]
#[cfg_attr(tsan, ignore = "ThreadSanitizer waits for ever for a thread whose end it did not see")]
fn open_spans_of_dead_threads() {
    let region = Region::in_process(1 << 20, std::process::id(), "test").expect("memory");
    let recorder = Recorder::new(region, Box::new(|_| Limit { ns: u64::MAX, group: 0 }));
    let region = recorder.region();
    recorder::install(recorder);
    let lines = region.layout().open_lines as u64;
    let begun: Vec<u64> = (1..=lines + 5).collect();
    for begin_ns in &begun {
        let mut id = 0;
        // SAFETY: default attributes, a function of the right type, an argument it understands; the
        // thread is joined once.
        let made = unsafe {
            let argument = *begin_ns as usize as *mut c_void;
            libc::pthread_create(&mut id, std::ptr::null(), dies_in_a_span, argument)
        };
        assert_eq!(made, 0);
        // SAFETY: as above.
        assert_eq!(unsafe { libc::pthread_join(id, std::ptr::null_mut()) }, 0);
        // The kernel wakes the joining thread a moment before it takes the dead one off its list.
        while sys::thread::exists(DEAD.load(Ordering::Relaxed)) {
            std::thread::yield_now();
        }
    }
    assert_eq!(region.losses()[losses::SPANS_UNTRACKED], 0, "every thread found a line");
    let mut open: Vec<u64> = region.copy_open().chunks_exact(4).map(|span| span[1]).collect();
    open.sort_unstable();
    // The first of the five brought all lines back.
    assert_eq!(open, begun[lines as usize..]);
}
