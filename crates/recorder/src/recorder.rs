//! The recorder of this process: region, tables, open requests, limits.

use std::sync::atomic::{AtomicBool, Ordering};

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
/// Written by install/pause/resume, read by every record. Relaxed: a record more or less around
/// the switch does no harm; CURRENT is published on its own.
static ON: AtomicBool = AtomicBool::new(false);

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
            tables: Tables::new(region),
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

/// Makes `recorder` the one that records, and turns recording on.
pub fn install(recorder: &'static Recorder) {
    CURRENT.set(Some(recorder));
    resume();
}

/// The recorder, also while paused.
#[inline]
pub fn current() -> Option<&'static Recorder> {
    CURRENT.get()
}

/// Whether records are taken now.
#[inline]
pub fn is_on() -> bool {
    ON.load(Ordering::Relaxed)
}

/// Stops taking records; what was recorded stays.
pub fn pause() {
    ON.store(false, Ordering::Relaxed);
}

/// Takes records again, if there is a recorder.
pub fn resume() {
    ON.store(CURRENT.get().is_some(), Ordering::Relaxed);
}

/// In a forked child: no recorder any more. The parent's object stays in memory, unused; its
/// address is returned so that its mapping can be given back.
pub(crate) fn uninstall() -> Option<&'static Recorder> {
    pause();
    let old = CURRENT.get();
    CURRENT.set(None);
    old
}
