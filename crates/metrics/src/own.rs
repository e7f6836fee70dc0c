//! The calling thread's shard, as words of the thread: which one, and who may count into it now.

use std::cell::Cell;

use crate::shard::Shard;

/// Values of `ready` that are no generation. This one: there is no shard to use at once.
pub(crate) const UNREADY: u64 = u64::MAX;
/// A count is going on.
pub(crate) const INSIDE: u64 = u64::MAX - 1;

pub(crate) struct Own {
    /// The generation that may count into `shard` at once, or one of the two values above.
    /// Comparing this one word with the registry's mark answers all: counting is on, the shard is
    /// of this process and this thread, and no count is going on.
    pub(crate) ready: Cell<u64>,
    /// The generation in which a shard was requested; 0: not yet.
    pub(crate) mark: Cell<u64>,
    /// None: no shard was free.
    pub(crate) shard: Cell<Option<&'static Shard>>,
}

thread_local! {
    /// No destructor, so it can be used to the thread's last instruction.
    pub(crate) static OWN: Own = const {
        Own { ready: Cell::new(UNREADY), mark: Cell::new(0), shard: Cell::new(None) }
    };
}

/// In a forked child: the shard was the parent's. A count that the fork interrupted is still going
/// on.
pub(crate) fn forget() {
    OWN.with(|own| {
        own.shard.set(None);
        own.mark.set(0);
        if own.ready.get() != INSIDE {
            own.ready.set(UNREADY);
        }
    });
}
