//! Files of threads under /proc, kept open between passes.
//!
//! What it promises: at most `MOST_OPEN` threads' files, and never more than there is room for
//! among our descriptors. The files of the thread that was not read for the longest time are closed
//! first.

use std::io;

use samplers::by_tid::ByTid;
use sys::ours;

use crate::world::{Proc, ThreadFiles};

/// Threads whose files are kept open at once, at most. Opening them anew takes 10 us, reading
/// through them 2: with fewer files than running threads, a sample costs twice as much.
const MOST_OPEN: usize = 1024;
/// Descriptors that a thread's files take for a usual sample.
const DESCRIPTORS: usize = 3;

/// All that are open.
pub struct OpenFiles<F> {
    by_tid: ByTid<Opened<F>>,
    /// Readings so far.
    readings: u64,
}

struct Opened<F> {
    files: F,
    /// When they were last read, in readings.
    read: u64,
}

impl<F> Default for OpenFiles<F> {
    fn default() -> OpenFiles<F> {
        OpenFiles { by_tid: ByTid::default(), readings: 0 }
    }
}

impl<F: ThreadFiles> OpenFiles<F> {
    /// The files of `tid`, opened if need be. Errors: as `Proc::open`.
    pub fn of(&mut self, proc: &impl Proc<Files = F>, tid: u32) -> io::Result<&mut F> {
        self.readings += 1;
        let read = self.readings;
        if !self.by_tid.contains_key(&tid) {
            while !self.by_tid.is_empty()
                && (self.by_tid.len() >= MOST_OPEN || !proc.has_room(DESCRIPTORS))
            {
                self.close_oldest();
            }
        }
        let opened = match self.by_tid.entry(tid) {
            std::collections::hash_map::Entry::Occupied(known) => known.into_mut(),
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert(Opened { files: proc.open(tid)?, read })
            }
        };
        opened.read = read;
        Ok(&mut opened.files)
    }

    fn close_oldest(&mut self) {
        let oldest = self.by_tid.iter().min_by_key(|(_, opened)| opened.read);
        if let Some(tid) = oldest.map(|(tid, _)| *tid) {
            self.by_tid.remove(&tid);
            ours::count_refused();
        }
    }

    /// Closes those of threads that are gone.
    pub fn retain(&mut self, mut lives: impl FnMut(u32) -> bool) {
        self.by_tid.retain(|tid, _| lives(*tid));
    }

    /// Closes those of one thread.
    pub fn forget(&mut self, tid: u32) {
        self.by_tid.remove(&tid);
    }

    /// Closes all; they are opened anew at the next sample.
    pub fn give_back(&mut self) {
        let open = self.by_tid.drain();
        ours::count_given_back(open.map(|(_, opened)| opened.files.descriptors()).sum());
    }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
mod tests {
    use super::*;
    use crate::kernel::tests::Nowhere;
    use crate::kernel::Kernel;

    #[test]
    fn files_of_the_thread_not_read_for_the_longest_time_are_closed_first() {
        let (go, wait) = std::sync::mpsc::channel::<()>();
        let wait = std::sync::Arc::new(std::sync::Mutex::new(wait));
        let (send_id, ids) = std::sync::mpsc::channel();
        let waits = |_| {
            let (wait, send_id) = (wait.clone(), send_id.clone());
            std::thread::spawn(move || {
                let ids = send_id.send(sys::thread::tid());
                let _ = wait.lock().map(|wait| wait.recv());
                ids
            })
        };
        let threads: Vec<_> = (0..3).map(waits).collect();
        let tids: Vec<u32> = ids.iter().take(3).collect();
        let mut files = OpenFiles::default();
        let kernel = Kernel::new(Nowhere).expect("own memory");
        for tid in [tids[0], tids[1], tids[2], tids[0]] {
            assert!(files.of(&kernel, tid).is_ok());
        }
        let open = |files: &OpenFiles<_>| -> Vec<bool> {
            tids.iter().map(|tid| files.by_tid.contains_key(tid)).collect()
        };
        files.close_oldest();
        assert_eq!(open(&files), [true, false, true]);
        files.close_oldest();
        assert_eq!(open(&files), [true, false, false]);
        files.give_back();
        assert!(files.by_tid.is_empty());
        assert!(files.of(&kernel, tids[2]).is_ok(), "on demand");
        files.retain(|tid| tid != tids[2]);
        assert!(files.by_tid.is_empty());
        drop(go);
        threads.into_iter().for_each(|thread| assert!(thread.join().is_ok()));
    }
}
