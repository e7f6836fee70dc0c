//! The calling thread's own state: its writer.

use std::cell::RefCell;

use format::region::losses;
use ring::{Class, Writer};

use crate::recorder::{current, Recorder};

/// A thread's part in the recording. Its borrow flag is what keeps a record from inside another
/// record (signal handler, GC hook) out.
struct ThreadState {
    writer: Option<Writer>,
    recorder: Option<&'static Recorder>,
    slot: Option<usize>,
}

impl Drop for ThreadState {
    /// The thread ends: its half-full block goes to the next thread.
    fn drop(&mut self) {
        let Some(recorder) = self.recorder else {
            return;
        };
        if let Some(writer) = &mut self.writer {
            writer.close();
        }
        if let Some(slot) = self.slot {
            recorder.tables().thread_ends(slot, sys::clock::now_ns());
        }
    }
}

thread_local! {
    static STATE: RefCell<ThreadState> =
        const { RefCell::new(ThreadState { writer: None, recorder: None, slot: None }) };
}

/// Appends a record of the calling thread, stamped `now_ns` or earlier.
#[inline]
pub fn append(record: &[u64], now_ns: u64) {
    let result = STATE.try_with(|state| match state.try_borrow_mut() {
        Ok(mut state) => match &mut state.writer {
            Some(writer) => writer.append(record, now_ns),
            None => first_record(&mut state, record, now_ns),
        },
        Err(_) => lost(losses::DROPPED_REENTRANT),
    });
    if result.is_err() {
        lost(losses::DROPPED_THREAD_ENDING);
    }
}

#[cold]
fn first_record(state: &mut ThreadState, record: &[u64], now_ns: u64) {
    if let Some(writer) = register(state, None) {
        writer.append(record, now_ns);
    }
}

/// Enters the calling thread into the thread table, once, and makes its writer.
fn register<'s>(state: &'s mut ThreadState, name: Option<&str>) -> Option<&'s mut Writer> {
    let recorder = current()?;
    if state.writer.is_none() {
        let tid = sys::thread::cached_tid();
        let tables = recorder.tables();
        let name = name.map_or_else(comm, str::to_owned);
        let name = tables.classed(Class::Thread, &name);
        let (slot, serial) = tables.thread_begins(tid, name, sys::clock::now_ns());
        state.recorder = Some(recorder);
        state.slot = slot;
        state.writer = Some(Writer::new(recorder.region(), tid, serial));
    }
    state.writer.as_mut()
}

/// The kernel's name of the calling thread.
fn comm() -> String {
    let text = std::fs::read_to_string("/proc/thread-self/comm").unwrap_or_default();
    text.trim_end().to_owned()
}

#[cold]
fn lost(loss: usize) {
    if let Some(recorder) = current() {
        recorder.region().lose(loss, 1);
    }
}

/// Gives the calling thread the name it has in captures.
pub fn name_thread(name: &str) {
    let Some(recorder) = current() else { return };
    let _ = STATE.try_with(|state| {
        let Ok(mut state) = state.try_borrow_mut() else {
            return;
        };
        if register(&mut state, Some(name)).is_some() {
            if let Some(slot) = state.slot {
                let tables = recorder.tables();
                tables.thread_renamed(slot, tables.classed(Class::Thread, name));
            }
        }
    });
}

/// Gives another thread a name; for threads that were there before the recorder. Takes a slot of
/// the thread table until the end.
pub fn name_other_thread(tid: u32, name: &str) {
    if let Some(recorder) = current() {
        let tables = recorder.tables();
        let name = tables.classed(Class::Thread, name);
        tables.thread_begins(tid, name, sys::clock::now_ns());
    }
}

/// In a forked child: drops this thread's writer without touching the parent's region. The caller
/// is the only thread. Returns the parent's recorder, whose mapping may be given back.
pub fn forget_after_fork() -> Option<&'static Recorder> {
    sys::thread::forget_tid();
    let _ = STATE.try_with(|state| {
        if let Ok(mut state) = state.try_borrow_mut() {
            let fresh = ThreadState { writer: None, recorder: None, slot: None };
            // Forgotten, not dropped: dropping would close a block in the parent's memory.
            std::mem::forget(std::mem::replace(&mut *state, fresh));
        }
    });
    crate::recorder::uninstall()
}
