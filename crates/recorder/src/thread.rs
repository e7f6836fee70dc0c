//! The calling thread's own state: its writers.
//!
//! How it works: a record that comes from inside another record of the same thread (a signal
//! handler, a hook of the allocator) finds the thread's writer in use and takes the next *lane*: a
//! writer with its own block and its own row in the thread table.
//!
//! What it promises: no lock, no allocation, no destructor of Rust's thread-locals. So a record may
//! come at any time: the first of a thread, from a signal handler, from another library's
//! thread-exit hook.

use std::cell::RefCell;
use std::ffi::c_void;
use std::sync::atomic::{compiler_fence, Ordering};

use format::region::losses;
use ring::{Class, Newcomer, Writer};

use crate::current::{current, uninstall};
use crate::recorder::Recorder;

/// Lanes: records inside records inside records. Deeper records are dropped and counted.
const LANES: usize = 3;

thread_local! {
    static WRITERS: Lanes =
        const { [const { RefCell::new(None) }; LANES] };
}

/// Appends a record of the calling thread, stamped `now_ns` or earlier, to the black box.
/// Async-signal-safe.
#[inline]
pub(crate) fn append(record: &[u64], now_ns: u64) {
    WRITERS.with(|lanes| {
        if !put(lanes, 0, record, now_ns) {
            append_nested(lanes, record, now_ns);
        }
    });
}

type Lanes = [RefCell<Option<Writer>>; LANES];

/// False: the lane is in use, by a record that this one interrupted.
#[inline]
fn put(lanes: &Lanes, depth: usize, record: &[u64], now_ns: u64) -> bool {
    let Ok(mut lane) = lanes[depth].try_borrow_mut() else {
        return false;
    };
    // A signal handler that comes from here on must find the lane in use.
    compiler_fence(Ordering::SeqCst);
    let kept = lane.as_mut().is_some_and(|writer| writer.append(record, now_ns));
    if !kept {
        first_record(&mut lane, depth, record, now_ns);
    }
    compiler_fence(Ordering::SeqCst);
    true
}

#[cold]
fn append_nested(lanes: &Lanes, record: &[u64], now_ns: u64) {
    if (1..LANES).any(|depth| put(lanes, depth, record, now_ns)) {
        return;
    }
    if let Some(recorder) = current() {
        recorder.region().lose(losses::DROPPED_REENTRANT, 1);
    }
}

#[cold]
fn first_record(lane: &mut Option<Writer>, depth: usize, record: &[u64], now_ns: u64) {
    if let Some(writer) = register(lane, depth) {
        writer.append(record, now_ns);
    }
}

/// Enters the calling thread into the thread table and makes its writer, in place of one whose
/// region is gone.
fn register(lane: &mut Option<Writer>, depth: usize) -> Option<&mut Writer> {
    let recorder = current()?;
    recorder.region().expect_thread();
    sys::thread::arm_end();
    let new = Newcomer {
        tid: sys::thread::cached_tid(),
        comm: sys::thread::comm(),
        nested: depth > 0,
        now_ns: sys::clock::now_ns(),
    };
    Some(lane.insert(Writer::new(recorder.region(), &new)))
}

/// Before the first record: registers the function that threads call when they end. Again in a
/// forked child, whose parent may have been in the middle of this on another thread.
pub(crate) fn hook_ends() {
    // Without a key (1024 are in use) blocks of ended threads come back when they are in the way,
    // and their rows never say that they ended.
    sys::thread::on_end(ended);
}

/// The calling thread ends: its half-full blocks go to the next threads. A lane in use (the thread
/// was ended in the middle of a record) stays as it is; its block is taken back later.
extern "C" fn ended(_: *mut c_void) {
    crate::open_spans::thread_ends(current());
    WRITERS.with(|lanes| {
        for lane in lanes {
            let Ok(mut lane) = lane.try_borrow_mut() else { continue };
            if let Some(writer) = &mut *lane {
                writer.end(sys::clock::now_ns());
            }
            *lane = None;
        }
    });
}

/// Sets the name that the calling thread has in captures.
pub fn name_thread(name: &str) {
    let Some(recorder) = current() else { return };
    WRITERS.with(|lanes| {
        let Ok(mut lane) = lanes[0].try_borrow_mut() else { return };
        let writer = match &mut *lane {
            Some(writer) => Some(writer),
            none => register(none, 0),
        };
        if let Some(slot) = writer.and_then(|writer| writer.slot()) {
            let name = recorder.tables().classed(Class::Thread, name);
            recorder.region().thread_renamed(slot, name);
        }
    });
}

/// Names another thread; for threads that are older than the recorder. Takes a slot of the thread
/// table until the end.
pub fn name_other_thread(tid: u32, name: &str) {
    if let Some(recorder) = current() {
        let now_ns = sys::clock::now_ns();
        let new = Newcomer { tid, comm: [0; 16], nested: false, now_ns };
        if let (Some(slot), _) = recorder.region().thread_begins(&new) {
            let name = recorder.tables().classed(Class::Thread, name);
            recorder.region().thread_renamed(slot, name);
        }
    }
}

/// In a forked child: forgets this thread's writers without touching the parent's region. The
/// caller is the only thread. A lane in use (the fork came from a signal handler inside a record)
/// notices by itself that its region is gone. Returns the parent's recorder, whose mapping may be
/// replaced.
pub fn forget_after_fork() -> Option<&'static Recorder> {
    sys::thread::forget_tid();
    crate::open_spans::forget();
    WRITERS.with(|lanes| {
        for lane in lanes {
            if let Ok(mut lane) = lane.try_borrow_mut() {
                *lane = None;
            }
        }
    });
    uninstall()
}
