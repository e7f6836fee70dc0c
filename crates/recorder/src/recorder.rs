//! The recorder of this process: region, tables, open requests, limits.

use std::sync::atomic::{AtomicU64, Ordering};

use ring::{Region, Tables};
use sys::cell::StaticRef;

use crate::limits::Limits;
use crate::open::OpenTable;

/// Everything that records share. Made once a process (again in a forked child) and never freed.
pub struct Recorder {
    region: &'static Region,
    tables: Tables,
    open: OpenTable,
    limits: Limits,
}

static CURRENT: StaticRef<Recorder> = StaticRef::empty();
/// Who takes records: bit 0 the black box, the others sessions. Relaxed: a record more or less
/// around a switch does no harm; CURRENT and the sessions are published on their own.
static TAKERS: AtomicU64 = AtomicU64::new(0);
/// The black box's bit.
pub(crate) const BLACK_BOX: u64 = 1;

impl Recorder {
    /// A recorder over a new region. `limit_ns` answers how long a request of that name may take
    /// before it counts as slow (`u64::MAX`: no limit); it is asked once a name.
    pub fn new(
        region: Region,
        limit_ns: Box<dyn Fn(&str) -> u64 + Send + Sync>,
    ) -> &'static Recorder {
        let region: &'static Region = Box::leak(Box::new(region));
        Box::leak(Box::new(Recorder {
            region,
            tables: Tables::new(region, crate::session::learn_name),
            open: OpenTable::new(),
            limits: Limits::new(limit_ns),
        }))
    }

    /// The black box.
    pub fn region(&self) -> &'static Region {
        self.region
    }

    /// Names, codes, stacks, threads.
    pub fn tables(&self) -> &Tables {
        &self.tables
    }

    /// Requests that have begun and not ended.
    pub fn open_requests(&self) -> &OpenTable {
        &self.open
    }

    /// Limits by name, typical times, and the mailbox of slow requests.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Interns a request's name and looks its limit up, so that the request's end need not.
    pub fn request_name(&self, text: &str) -> ring::Name {
        let name = self.tables.name(text);
        self.limits.know(name, text);
        name
    }
}

/// Makes `recorder` the one that records, and turns the black box on.
pub fn install(recorder: &'static Recorder) {
    crate::thread::hook_ends();
    CURRENT.set(Some(recorder));
    resume();
}

/// The recorder, also while paused.
#[inline]
pub fn current() -> Option<&'static Recorder> {
    CURRENT.get()
}

/// Whether anybody takes records now. One load.
#[inline]
pub fn is_on() -> bool {
    takers() != 0
}

/// Everybody who takes records now, a bit each.
#[inline]
pub(crate) fn takers() -> u64 {
    TAKERS.load(Ordering::Relaxed)
}

/// Adds or removes takers.
pub(crate) fn set_takers(bits: u64, on: bool) {
    if on {
        TAKERS.fetch_or(bits, Ordering::Relaxed);
    } else {
        TAKERS.fetch_and(!bits, Ordering::Relaxed);
    }
}

/// Stops taking records into the black box; what was recorded stays.
pub fn pause() {
    set_takers(BLACK_BOX, false);
}

/// Takes records into the black box again, if there is a recorder.
pub fn resume() {
    set_takers(BLACK_BOX, CURRENT.get().is_some());
}

/// In a forked child: no recorder any more. The parent's object stays in memory, unused; its
/// address is returned so that its mapping can be given back.
pub(crate) fn uninstall() -> Option<&'static Recorder> {
    set_takers(u64::MAX, false);
    crate::session::forget_all();
    let old = CURRENT.get();
    CURRENT.set(None);
    old
}
