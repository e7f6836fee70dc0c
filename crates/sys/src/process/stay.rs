//! Threads that would be ended from outside, below code of ours, stay where they are instead.
//!
//! How it works: CPython up to 3.13 ends a daemon thread that requests the GIL of a dying
//! interpreter with `pthread_exit`. The C library then unwinds the thread's stack; where code of
//! ours is on it (a request calls the program, which waits for the GIL), Rust takes that for a
//! panic of a foreign language, and the process aborts. So such threads register a cleanup handler
//! beforehand, once, which waits for ever. Before it unwinds the first frame, the C library calls
//! the handlers of frames that are left, and it counts a handler as left if its record is on none
//! of the frames that remain: ours is on the heap.
//!
//! ```text
//!   pthread_exit > handler of ours: waits       | ctypes | our call | interpreter | thread's begin
//! ```
//!
//! What it promises: nothing changes before `from_now_on`; afterwards a thread that called `arm`
//! and is ended by `pthread_exit`, or cancelled, stays until the process is gone, as CPython 3.14
//! has it. Cost: 32 bytes a thread, and nothing on any call. glibc and musl.
//!
//! What is missing on purpose: threads that never called `arm`, and threads that return: they are
//! not ours.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicBool, Ordering};

/// `struct _pthread_cleanup_buffer` of glibc (four words), `struct __ptcb` of musl (three): filled
/// by the library.
type Buffer = [usize; 4];

extern "C" {
    fn _pthread_cleanup_push(
        buffer: *mut Buffer,
        routine: extern "C" fn(*mut c_void),
        argument: *mut c_void,
    );
    fn _pthread_cleanup_pop(buffer: *mut Buffer, execute: c_int);
}

/// Relaxed: nothing else depends on it.
static STAYS: AtomicBool = AtomicBool::new(false);

extern "C" fn stay(_: *mut c_void) {
    while STAYS.load(Ordering::Relaxed) {
        // SAFETY: takes no argument; returns behind a signal's handler.
        unsafe { libc::pause() };
    }
}

/// A registered handler; taken back when the thread has returned from its work.
struct Armed(*mut Buffer);

impl Drop for Armed {
    fn drop(&mut self) {
        // SAFETY: the buffer was pushed on this thread and is popped and freed once. Handlers
        // pushed later are popped by now, since the frames that pushed them are gone.
        unsafe {
            _pthread_cleanup_pop(self.0, 0);
            drop(Box::from_raw(self.0));
        }
    }
}

thread_local! {
    static ARMED: RefCell<Option<Armed>> = const { RefCell::new(None) };
}

/// Makes the calling thread one that stays. Only for threads whose begin and end are the
/// interpreter's.
pub fn arm() {
    let arm = |armed: &RefCell<Option<Armed>>| {
        let Ok(mut armed) = armed.try_borrow_mut() else { return };
        armed.get_or_insert_with(|| {
            let buffer = Box::into_raw(Box::new([0; 4]));
            // SAFETY: the library fills the buffer, which lives on the heap until it is popped;
            // `stay` has the handlers' type and stays loaded.
            unsafe { _pthread_cleanup_push(buffer, stay, std::ptr::null_mut()) };
            Armed(buffer)
        });
    };
    // A thread that is past its own end is not armed.
    let _ = ARMED.try_with(arm);
}

/// From here on such threads stay: the interpreter ends.
pub fn from_now_on() {
    STAYS.store(true, Ordering::Relaxed);
}
