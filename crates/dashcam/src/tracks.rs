//! What the sampler remembers of each thread between passes.

use std::collections::HashMap;

use samplers::python_stacks::PyThread;
use sys::task::{Schedstat, TaskReader};

/// A thread under observation.
#[derive(Default)]
pub(crate) struct Track {
    /// Its interpreter state, if it runs Python.
    pub python: Option<PyThread>,
    /// Readers of its /proc entry; closed when too many are open.
    pub reader: Option<TaskReader>,
    /// When it was last sampled, 0 never.
    pub sampled_ns: u64,
    /// Its times then.
    pub times: Option<Schedstat>,
    /// It has been on a CPU since its last sample, as far as switch records tell.
    pub ran: bool,
    /// Its last sample, for carrying over.
    pub last: Option<format::record::Sample>,
    /// When the holder of the lock it waits for was last looked up.
    pub holder_asked_ns: u64,
}

/// All threads by kernel id.
#[derive(Default)]
pub(crate) struct Tracks {
    /// The threads.
    pub by_tid: HashMap<u32, Track>,
    open_readers: usize,
}

/// Readers kept open at once; each holds up to five descriptors of the host's allowance.
const MOST_READERS: usize = 48;

impl Tracks {
    /// Keeps the threads `lives` knows, adds new ones.
    pub(crate) fn refresh(&mut self, alive: &[u32], python: &[PyThread], own: &[u32]) {
        self.by_tid.retain(|tid, _| alive.contains(tid));
        for tid in alive.iter().filter(|tid| !own.contains(tid)) {
            self.by_tid.entry(*tid).or_insert_with(|| Track { ran: true, ..Track::default() });
        }
        for track in self.by_tid.values_mut() {
            track.python = None;
        }
        for thread in python {
            if let Some(track) = self.by_tid.get_mut(&thread.tid) {
                track.python = Some(*thread);
            }
        }
        self.open_readers = self.by_tid.values().filter(|t| t.reader.is_some()).count();
    }

    /// A reader for `tid`, opened if need be. Others are closed when too many are open.
    pub(crate) fn reader(&mut self, tid: u32) -> Option<&mut TaskReader> {
        let has = self.by_tid.get(&tid)?.reader.is_some();
        if !has {
            if self.open_readers >= MOST_READERS {
                self.by_tid.values_mut().for_each(|t| t.reader = None);
                self.open_readers = 0;
            }
            let reader = TaskReader::open(tid).ok()?;
            self.open_readers += 1;
            self.by_tid.get_mut(&tid)?.reader = Some(reader);
        }
        self.by_tid.get_mut(&tid)?.reader.as_mut()
    }

    /// A switch record brought the thread back to a CPU.
    pub(crate) fn ran(&mut self, tid: u32) {
        if let Some(track) = self.by_tid.get_mut(&tid) {
            track.ran = true;
        }
    }
}
