//! The recorder of this process, and its consumers of records.
//!
//! How it works: one word, `RECEIVERS`, has a bit for each consumer of records; a record loads it
//! first.
//!
//! What it promises: off, one load and a branch. A forked child shares nothing with its parent.

use std::sync::atomic::{AtomicU64, Ordering};

use sys::cell::StaticRef;

use crate::recorder::Recorder;

static CURRENT: StaticRef<Recorder> = StaticRef::empty();
/// The consumers of records: bit 0 the black box, the others sessions. A bit without a recorder: a
/// forked child that sleeps, and records as soon as it is woken. Relaxed: a record more or less
/// around a switch does no harm; CURRENT and the sessions are published on their own.
static RECEIVERS: AtomicU64 = AtomicU64::new(0);
/// The black box's bit.
pub(crate) const BLACK_BOX: u64 = 1;

/// The recorder, also while paused.
#[inline]
pub fn current() -> Option<&'static Recorder> {
    CURRENT.get()
}

/// Whether there is a consumer of records now, or would be once woken. One load.
#[inline]
pub fn is_on() -> bool {
    receivers() != 0
}

/// The epoch of the recorder if there is a consumer of records now; 0: there is none.
#[inline]
pub fn on_epoch() -> u32 {
    match receivers() {
        0 => 0,
        _ => CURRENT.get().map_or(0, Recorder::epoch),
    }
}

/// As `on_epoch`, and in a child that sleeps since its fork `wake` is called first. Costs a caller
/// one load and a branch while nothing records.
#[inline]
pub fn on_epoch_or(wake: fn()) -> u32 {
    if receivers() == 0 {
        return 0;
    }
    match CURRENT.get() {
        Some(recorder) => recorder.epoch(),
        None => {
            wake();
            on_epoch()
        }
    }
}

/// All consumers of records, a bit each.
#[inline]
pub(crate) fn receivers() -> u64 {
    RECEIVERS.load(Ordering::Relaxed)
}

/// Adds or removes consumers.
pub(crate) fn set_receivers(bits: u64, on: bool) {
    if on {
        RECEIVERS.fetch_or(bits, Ordering::Relaxed);
    } else {
        RECEIVERS.fetch_and(!bits, Ordering::Relaxed);
    }
}

/// Stops recording into the black box; what was recorded stays.
pub fn pause() {
    set_receivers(BLACK_BOX, false);
}

/// Records into the black box again, if there is a recorder.
pub fn resume() {
    set_receivers(BLACK_BOX, CURRENT.get().is_some());
}

/// In a forked child without a recorder: off, but `on_epoch_or` wakes it.
pub fn sleep() {
    set_receivers(BLACK_BOX, true);
}

/// Makes `recorder` the one that records, and turns the black box on.
pub(crate) fn set(recorder: &'static Recorder) {
    CURRENT.set(Some(recorder));
    resume();
}

/// In a forked child: no recorder any more. The parent's object stays in memory, unused; its
/// address is returned so that its mapping can be given back.
pub(crate) fn uninstall() -> Option<&'static Recorder> {
    set_receivers(u64::MAX, false);
    crate::session::forget_all();
    let old = CURRENT.get();
    CURRENT.set(None);
    old
}
