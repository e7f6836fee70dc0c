//! The request that a thread works for: a thread-local word, beside the epoch of the recorder it
//! belongs to, so that a forked child does not work for its parent's request.

use std::cell::Cell;

use crate::running::after_fork_child;

thread_local! {
    /// Epoch and id of the request this thread works for. No destructor: a signal handler and an
    /// ending thread may read it.
    static CURRENT: Cell<(u32, u64)> = const { Cell::new((0, 0)) };
}

/// The epoch of the recorder that takes records now; 0: none. Starts a forked child afresh.
#[inline]
pub fn door() -> u32 {
    recorder::on_epoch_or(after_fork_child)
}

/// The epoch of this process's recorder, also while it takes no records; 0: there is none.
#[inline]
pub fn epoch() -> u32 {
    recorder::current().map_or(0, |recorder| recorder.epoch())
}

/// The id of the request this thread works for; 0: none.
#[inline]
pub fn current_request() -> u64 {
    current_in(epoch())
}

/// The same, where the epoch is `now`.
#[inline]
pub(crate) fn current_in(now: u32) -> u64 {
    match CURRENT.get() {
        (epoch, id) if epoch == now => id,
        _ => 0,
    }
}

/// Makes `id` (0: none) the request this thread works for, and returns the one before. For
/// bindings; programs have `request!`, `carry` and `in_request`.
pub fn swap_current_request(id: u64) -> u64 {
    let now = epoch();
    let before = current_in(now);
    CURRENT.set((now, id));
    before
}
