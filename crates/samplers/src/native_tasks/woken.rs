//! The mailbox of wakers: the stacks of threads that ended the await of a late request's task.
//!
//! How it works: a thread that wakes such a task copies the innermost part of its own stack to a
//! free place of a fixed list; the sampler takes it in its next pass. A thread's stack ends where
//! it likes, so it is copied by guarded reads.
//!
//! What it promises: no thread waits here: a place that another thread uses at this instant (or
//! used when the process forked) is passed over, and if all are full the waker is not known.
//! Missing on purpose: wakers of tasks that the sampler has not seen suspended: those are many.

use std::sync::Mutex;

use sys::mem::Reader;
use sys::own_stack::{registers, Registers};

/// Wakers that are kept between two passes.
const PLACES: usize = 16;
/// A stack is copied in parts of this size, so that its end needs not be known.
const READ_BYTES: usize = 512;
/// Parts that are copied.
const READS: usize = 16;

/// What ended an await.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Woken {
    /// The request whose task was woken.
    pub request: u64,
    /// Its cell, and which of its awaits came.
    pub cell: u64,
    /// See `cell`.
    pub index: usize,
    /// When.
    pub t_ns: u64,
    /// The thread that woke it.
    pub tid: u32,
    /// The request that this thread worked for, 0: none.
    pub by_request: u64,
    /// The thread's registers, and its stack from the stack pointer on.
    pub at: Registers,
    /// See `at`.
    pub stack: Vec<u8>,
}

static PLACES_OF: [Mutex<Option<Woken>>; PLACES] = [const { Mutex::new(None) }; PLACES];

/// Posts what the calling thread ends; its stack is added here. False: there is no room, or stacks
/// cannot be read. Cost: some microseconds.
#[inline(never)]
pub fn post(woken: Woken) -> bool {
    let free = PLACES_OF.iter().find_map(|place| {
        let place = place.try_lock().ok()?;
        place.is_none().then_some(place)
    });
    let (Some(mut place), Some(at), Some(mem)) = (free, registers(), Reader::by_call()) else {
        return false;
    };
    let begin = (at.sp % READ_BYTES as u64) as usize;
    let mut places = [0; READS];
    for (i, place) in places.iter_mut().enumerate() {
        *place = (at.sp as usize - begin).saturating_add(i * READ_BYTES);
    }
    let mut stack = vec![0; READS * READ_BYTES];
    let read = mem.read_many(&places, READ_BYTES, &mut stack);
    stack.truncate(read * READ_BYTES);
    stack.drain(..begin.min(stack.len()));
    *place = Some(Woken { at, stack, ..woken });
    true
}

/// Takes what was posted since the last call.
pub fn take(out: &mut Vec<Woken>) {
    for place in &PLACES_OF {
        if let Ok(mut place) = place.try_lock() {
            out.extend(place.take());
        }
    }
    out.sort_unstable_by_key(|woken| woken.t_ns);
}

#[cfg(test)]
#[cfg(target_arch = "x86_64")]
mod tests {
    use super::*;

    #[test]
    fn wakers_are_kept_in_a_bounded_list_and_taken_once_in_order() {
        let posted = (0..20u64).filter(|i| post(Woken { t_ns: 90 - i, ..Woken::default() }));
        assert_eq!(posted.count(), PLACES);
        let mut out = Vec::new();
        take(&mut out);
        assert_eq!(out.len(), PLACES);
        assert!(out.windows(2).all(|pair| pair[0].t_ns <= pair[1].t_ns));
        let here = registers().expect("x86-64").sp;
        assert!(out.iter().all(|w| w.stack.len() > 256 && w.at.sp < here), "{out:?}");
        out.clear();
        take(&mut out);
        assert!(out.is_empty());
    }
}
