//! The calling thread's shard.
//!
//! A thread claims a shard at its first count and gives it back when it ends. What comes from
//! inside a count (a signal handler, a hook of the allocator), from a thread that ends, or from
//! more threads than there are shards, goes to the shared shard, which takes it from anywhere.

use std::cell::Cell;
use std::sync::atomic::{compiler_fence, Ordering};

use crate::registry::registry;
use crate::series::Series;
use crate::shard::Shard;

struct Own {
    /// The generation it was claimed in; 0: not yet.
    mark: Cell<u64>,
    /// None: there was none to be had.
    shard: Cell<Option<&'static Shard>>,
    /// A count is going on.
    inside: Cell<bool>,
}

thread_local! {
    /// No destructor, so it can be used to the thread's last instruction.
    static OWN: Own =
        const { Own { mark: Cell::new(0), shard: Cell::new(None), inside: Cell::new(false) } };
    static END: End = const { End };
}

struct End;

impl Drop for End {
    fn drop(&mut self) {
        OWN.with(|own| {
            // From here on there is none to be had.
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
            Some(shard) if own.mark.get() == mark && !own.inside.get() => inside(own, shard, count),
            _ => beside(own, mark, count),
        };
    });
}

#[inline]
fn inside(own: &Own, shard: &'static Shard, count: impl FnOnce(&'static Shard)) {
    own.inside.set(true);
    // A signal handler that comes from here on must find it set.
    compiler_fence(Ordering::SeqCst);
    count(shard);
    compiler_fence(Ordering::SeqCst);
    own.inside.set(false);
}

#[cold]
fn beside(own: &Own, mark: u64, count: impl FnOnce(&'static Shard)) {
    if mark == 0 {
        return;
    }
    if own.inside.get() {
        return count(registry().shared());
    }
    if own.mark.get() != mark {
        own.inside.set(true);
        compiler_fence(Ordering::SeqCst);
        // False: the thread's destructors have run; it would not be given back.
        let ends = END.try_with(|_| ()).is_ok();
        own.shard.set(if ends { registry().claim() } else { None });
        own.mark.set(mark);
        compiler_fence(Ordering::SeqCst);
        own.inside.set(false);
    }
    match own.shard.get() {
        Some(shard) => inside(own, shard, count),
        None => count(registry().shared()),
    }
}

/// In a forked child: the shard was the parent's.
pub(crate) fn forget() {
    OWN.with(|own| {
        own.shard.set(None);
        own.mark.set(0);
    });
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

/// Notes a value of a timing (ms), histogram or distribution.
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

/// Notes a member of a set.
#[inline]
pub fn member(series: &'static Series, member: &str) {
    with(|shard| registry().member(shard, series, member));
}
