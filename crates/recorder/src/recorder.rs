//! The recorder of this process: region, tables, open requests, limits.

use std::sync::atomic::{AtomicU32, Ordering};

use ring::{Region, Tables};
use sys::cell::StaticRef;

use crate::limits::Limits;
use crate::open::OpenTable;

/// Everything that records share. Made once a process (again in a forked child) and never freed.
pub struct Recorder {
    /// Its number among the recorders this process and its ancestors had. Names' ids are kept
    /// beside it: another recorder numbers its names anew.
    epoch: u32,
    region: &'static Region,
    tables: Tables,
    open: OpenTable,
    limits: Limits,
}

static CURRENT: StaticRef<Recorder> = StaticRef::empty();
/// 0: off. `ASLEEP`. Otherwise on, and this is the epoch of the recorder that records. Written by
/// install/pause/resume/sleep, read by every record. Relaxed: a record more or less around the
/// switch does no harm; CURRENT is published on its own.
static STATE: AtomicU32 = AtomicU32::new(0);
/// Of a forked child that records as soon as somebody wakes it.
const ASLEEP: u32 = u32::MAX;
/// Epochs given out. A child goes on counting where its parent was.
static EPOCHS: AtomicU32 = AtomicU32::new(0);

impl Recorder {
    /// A recorder over a new region. `limit_ns` answers how long a request of that name may take
    /// before it counts as slow (`u64::MAX`: no limit); it is asked once a name.
    pub fn new(
        region: Region,
        limit_ns: Box<dyn Fn(&str) -> u64 + Send + Sync>,
    ) -> &'static Recorder {
        let region: &'static Region = Box::leak(Box::new(region));
        let epoch = EPOCHS.fetch_add(1, Ordering::Relaxed) + 1;
        Box::leak(Box::new(Recorder {
            epoch,
            region,
            tables: Tables::new(region),
            open: OpenTable::new(),
            limits: Limits::new(limit_ns),
        }))
    }

    /// Its number; never 0.
    #[inline]
    pub fn epoch(&self) -> u32 {
        self.epoch
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
    on_epoch() != 0
}

/// The epoch of the recorder that takes records now; 0: none does.
#[inline]
pub fn on_epoch() -> u32 {
    match STATE.load(Ordering::Relaxed) {
        ASLEEP => 0,
        epoch => epoch,
    }
}

/// As `on_epoch`, and in a child that sleeps since its fork `wake` is called first. Costs a caller
/// one load and a branch while nothing records.
#[inline]
pub fn on_epoch_or(wake: fn()) -> u32 {
    match STATE.load(Ordering::Relaxed) {
        ASLEEP => {
            wake();
            on_epoch()
        }
        epoch => epoch,
    }
}

/// Stops taking records; what was recorded stays.
pub fn pause() {
    STATE.store(0, Ordering::Relaxed);
}

/// Takes records again, if there is a recorder.
pub fn resume() {
    STATE.store(CURRENT.get().map_or(0, Recorder::epoch), Ordering::Relaxed);
}

/// In a forked child without a recorder: off, but `on_epoch_or` wakes it.
pub fn sleep() {
    STATE.store(ASLEEP, Ordering::Relaxed);
}

/// In a forked child: no recorder any more. The parent's object stays in memory, unused; its
/// address is returned so that its mapping can be given back.
pub(crate) fn uninstall() -> Option<&'static Recorder> {
    pause();
    let old = CURRENT.get();
    CURRENT.set(None);
    old
}
