//! What the records of a process share: region, tables, open requests, limits.
//!
//! It is made once a process and never freed, so a record may hold it at any time. Which one
//! records now is in `current`.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::Arc;

use format::region::word;
use ring::{Region, Tables};
use sys::nap::Nap;

use crate::failures::{ErrorJudge, Failures};
use crate::latency::Latencies;
use crate::limits::{LimitOf, Limits};
use crate::open::OpenTable;
use crate::rollups::Rollups;
use crate::twice::Twice;

/// Everything that records share. Made once a process (again in a forked child), never freed.
pub struct Recorder {
    /// Its number among the recorders that this process and its ancestors had. Ids of names are
    /// kept together with it, since another recorder numbers its names anew.
    epoch: u32,
    ids_seed: u64,
    region: &'static Region,
    tables: Tables,
    open: OpenTable,
    limits: Limits,
    failures: Failures,
    latencies: Latencies,
    rollups: Rollups,
    pub(crate) twice: Twice,
}

/// Epochs in use so far. A child continues where its parent was. Relaxed: only uniqueness matters.
static EPOCHS: AtomicU32 = AtomicU32::new(0);

impl Recorder {
    /// A recorder over a new region. `limit_of` returns how long a request of a name may take
    /// before it counts as slow; it is called once a name.
    pub fn new(region: Region, limit_of: LimitOf) -> &'static Recorder {
        let region: &'static Region = Box::leak(Box::new(region));
        let epoch = EPOCHS.fetch_add(1, Ordering::Relaxed) + 1;
        Box::leak(Box::new(Recorder {
            epoch,
            ids_seed: region.header(word::IDS_SEED).load(Ordering::Relaxed),
            region,
            tables: Tables::new(region, crate::session::learn_name),
            open: OpenTable::new(),
            limits: Limits::new(limit_of),
            failures: Failures::new(),
            latencies: Latencies::default(),
            rollups: Rollups::default(),
            twice: Twice::new(),
        }))
    }

    /// Its number; never 0.
    #[inline]
    pub fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Seed of the ids of traces and spans: see `format::ids`.
    #[inline]
    pub fn ids_seed(&self) -> u64 {
        self.ids_seed
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

    /// Where the sampler sleeps while the host is idle; a request's begin wakes it, and a writer
    /// that takes one of the last blocks of a box that can grow.
    #[inline]
    pub fn nap(&self) -> &Nap {
        self.region.idle_nap()
    }

    /// Limits by name, typical times, and the mailbox of slow requests.
    pub fn limits(&self) -> &Limits {
        &self.limits
    }

    /// Requests that failed or were chosen, by rule.
    pub fn failures(&self) -> &Failures {
        &self.failures
    }

    /// Times of requests by name, if they are measured.
    pub fn latencies(&self) -> &Latencies {
        &self.latencies
    }

    /// Counts of all requests by name.
    pub fn rollups(&self) -> &Rollups {
        &self.rollups
    }

    /// Measures times of requests by name from here on. Cost as `set_limits`.
    pub fn measure_latencies(&self) {
        self.latencies.measure();
        self.tables.each_name(|name, _| {
            if self.limits.is_request(name) {
                self.latencies.know(name);
            }
        });
    }

    /// Judges requests by other limits from here on, also the open ones. Walks all names, under
    /// their lock.
    pub fn set_limits(&self, limit_of: LimitOf) {
        self.limits.replace(limit_of);
        self.tables.each_name(|name, text| self.limits.judge_again(name, text));
    }

    /// Judges failed requests by other rules from here on. Cost as `set_limits`.
    pub fn set_error_rules(&self, judge: Arc<dyn ErrorJudge>) {
        self.failures.replace(judge);
        self.tables.each_name(|name, text| {
            if self.limits.is_request(name) {
                self.failures.know(name, text);
            }
        });
    }

    /// Interns a request's name and looks up the rules' answer for it, so that the request's end
    /// need not.
    pub fn request_name(&self, text: &str) -> ring::Name {
        let name = self.tables.name(text);
        // Before the rules: of threads that use a new name at once, only one asks for its rules.
        self.rollups.know(name);
        if self.limits.know(name, text) {
            self.failures.know(name, text);
            self.latencies.know(name);
        }
        name
    }
}
