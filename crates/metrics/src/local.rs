//! Counting by the calling thread, into its own shard.
//!
//! How it works: a thread claims a shard at its first count and gives it back when it ends. Counts
//! from inside a count (a signal handler, a hook of the allocator), from a thread that ends, or
//! from more threads than there are shards, go to the shared shard, which any thread may use at any
//! time.

use std::sync::atomic::{compiler_fence, Ordering};

use crate::cell::MOST_EXACT;
use crate::own::{Own, INSIDE, OWN, UNREADY};
use crate::registry::registry;
use crate::series::Series;
use crate::shard::Shard;

thread_local! {
    static END: End = const { End };
}

struct End;

impl Drop for End {
    fn drop(&mut self) {
        OWN.with(|own| {
            own.ready.set(UNREADY);
            // A signal handler that comes from here on uses the shared shard.
            compiler_fence(Ordering::SeqCst);
            // From here on the thread has no shard.
            if let Some(shard) = own.shard.take() {
                registry().release(shard, own.mark.get());
            }
        });
    }
}

/// Calls `count` with the shard to count into; not at all while counting is off.
#[inline]
fn with(count: impl FnOnce(&'static Shard)) {
    let mark = registry().mark();
    OWN.with(|own| {
        match own.shard.get() {
            Some(shard) if own.ready.get() == mark => inside(own, mark, || count(shard)),
            _ => beside(own, mark, count),
        };
    });
}

/// `mark`: the generation of the shard that `count` counts into. A fork in the middle of a count
/// leaves the parent's generation there, which is not valid in the child.
#[inline]
fn inside(own: &Own, mark: u64, count: impl FnOnce()) {
    own.ready.set(INSIDE);
    // A signal handler that comes from here on must find it set.
    compiler_fence(Ordering::SeqCst);
    count();
    compiler_fence(Ordering::SeqCst);
    own.ready.set(mark);
}

#[cold]
fn beside(own: &Own, mark: u64, count: impl FnOnce(&'static Shard)) {
    if mark == 0 {
        return;
    }
    if own.ready.get() == INSIDE {
        return count(registry().shared());
    }
    if own.mark.get() != mark {
        own.ready.set(INSIDE);
        compiler_fence(Ordering::SeqCst);
        // False: the thread's destructors have run; a shard would not be given back.
        let ends = END.try_with(|_| ()).is_ok();
        own.shard.set(if ends { registry().claim() } else { None });
        own.mark.set(mark);
        compiler_fence(Ordering::SeqCst);
        own.ready.set(UNREADY);
    }
    match own.shard.get() {
        Some(shard) => inside(own, mark, || count(shard)),
        None => count(registry().shared()),
    }
}

/// Adds to a counter if that takes a few instructions only: it has no rate, and this thread has
/// counted on its page before, in this process. False: nothing was done; call `count`. So a caller
/// that has to check for forks does that only then.
#[inline]
pub fn count_at_once(series: &'static Series, n: i64) -> bool {
    let mark = registry().mark();
    OWN.with(|own| {
        let cell = own.shard.get().and_then(|shard| shard.known(series));
        match cell {
            Some(cell) if own.ready.get() == mark && n.unsigned_abs() <= MOST_EXACT => {
                inside(own, mark, || cell.add_whole(n));
                true
            }
            _ => false,
        }
    })
}

/// Adds to a counter. Cost: a few ns.
#[inline]
pub fn count(series: &'static Series, n: i64) {
    with(|shard| registry().count(shard, series, n));
}

/// Adds a fraction to a counter; what is not finite is refused and counted.
pub fn count_float(series: &'static Series, n: f64) {
    with(|shard| registry().count_float(shard, series, n));
}

/// Adds a value of a timing (ms), histogram or distribution.
#[inline]
pub fn value(series: &'static Series, value: f64) {
    with(|shard| registry().value(shard, series, value));
}

/// Sets a gauge.
#[inline]
pub fn gauge_set(series: &'static Series, value: f64) {
    with(|shard| registry().gauge_set(shard, series, value));
}

/// Changes a gauge.
#[inline]
pub fn gauge_add(series: &'static Series, delta: f64) {
    with(|shard| registry().gauge_add(shard, series, delta));
}

/// Adds a member of a set.
#[inline]
pub fn member(series: &'static Series, member: &str) {
    with(|shard| registry().member(shard, series, member));
}
