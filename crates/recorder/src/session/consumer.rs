//! A session as its reader holds it, and the offer of each record to those that take it.

use std::sync::atomic::{AtomicU64, Ordering};

use format::region::losses;
use ring::{OnFull, Queue, QueueCounts};

use super::table::{Filter, Receiver, SESSIONS, TABLE};
use crate::current::{current, set_receivers, BLACK_BOX};

/// How long closing waits for a thread that is inside; after that the memory is left to the thread.
const LEAVE_NS: u64 = 1_000_000_000;

/// What became of the records that a session was offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SessionCounts {
    /// Records its filter left out.
    pub filtered: u64,
    /// What became of the others.
    pub queue: QueueCounts,
}

/// An open session; closed when dropped.
#[derive(Debug)]
pub struct Session {
    /// Its number, 1-63: its bit in the word of consumers.
    bit: usize,
    /// The process that opened it: in a forked child the number may be another session's.
    pid: u32,
}

impl Session {
    /// Opens a session with a queue of `bytes`. Errors: 63 are open already, or no recorder runs.
    pub fn open(filter: Filter, on_full: OnFull, bytes: usize) -> Result<Session, String> {
        let recorder = current().ok_or("dashcam is not recording; start it first")?;
        let names = match filter.names {
            Some(_) => recorder.region().layout().name_bytes / 8 / 64 + 1,
            None => 0,
        };
        let mut receiver = Box::new(Receiver {
            filter,
            passing: (0..names).map(|_| AtomicU64::new(0)).collect(),
            queue: Queue::new(bytes, on_full),
            filtered: AtomicU64::new(0),
        });
        for (bit, place) in TABLE.iter().enumerate().skip(1) {
            match place.put(receiver) {
                Err(back) => receiver = back,
                Ok(()) => {
                    // From here on new names are learned as they come; these are the names that
                    // exist already.
                    recorder.tables().each_name(|id, text| {
                        place.with(|receiver| receiver.learn(id, text));
                    });
                    set_receivers(1 << bit, true);
                    return Ok(Session { bit, pid: std::process::id() });
                }
            }
        }
        let most = SESSIONS - 1;
        Err(format!("sessions: found {most} open, wanted at most {most}; close one"))
    }

    /// Its number, 1-63.
    pub fn number(&self) -> usize {
        self.bit
    }

    /// Hands over the records in the queue, oldest first, at most `most`; returns how many. One
    /// reader at a time.
    pub fn read(&self, most: usize, mut each: impl FnMut(u32, &[u64])) -> usize {
        let mut record = Vec::with_capacity(128);
        let read = self.with(|receiver| {
            let mut count = 0;
            while count < most {
                let Some(tid) = receiver.queue.take(&mut record) else { break };
                each(tid, &record);
                count += 1;
            }
            count
        });
        read.unwrap_or(0)
    }

    /// What became of the records it was offered. At rest: offered = read + overwritten + dropped +
    /// torn + still inside.
    pub fn counts(&self) -> SessionCounts {
        let counts = self.with(|receiver| SessionCounts {
            filtered: receiver.filtered.load(Ordering::Relaxed),
            queue: receiver.queue.counts(),
        });
        counts.unwrap_or_default()
    }

    /// Stops recording; what is in the queue can still be read.
    pub fn pause(&self) {
        if self.is_ours() {
            set_receivers(1 << self.bit, false);
        }
    }

    /// False in a forked child of the process that opened it.
    pub fn is_ours(&self) -> bool {
        self.pid == std::process::id()
    }

    fn with<R>(&self, visit: impl FnOnce(&Receiver) -> R) -> Option<R> {
        self.is_ours().then(|| TABLE[self.bit].with(visit)).flatten()
    }
}

impl Drop for Session {
    /// Its number is free again, unless a thread ended inside it.
    fn drop(&mut self) {
        self.pause();
        if !self.is_ours() {
            return;
        }
        // A thread that is still inside after the limit keeps the memory and the number.
        let _ = TABLE[self.bit].take(LEAVE_NS);
    }
}

/// Offers a record to the sessions whose bits are set.
#[cold]
pub(crate) fn offer(receivers: u64, record: &[u64]) {
    let mut bits = receivers & !BLACK_BOX;
    while bits != 0 {
        TABLE[bits.trailing_zeros() as usize].with(|receiver| offer_to(receiver, record));
        bits &= bits - 1;
    }
}

fn offer_to(receiver: &Receiver, record: &[u64]) {
    if receiver.wants(record) {
        if !receiver.queue.offer(sys::thread::cached_tid(), record) {
            if let Some(recorder) = current() {
                recorder.region().lose(losses::SESSIONS_DROPPED, 1);
            }
        }
    } else {
        receiver.filtered.fetch_add(1, Ordering::Relaxed);
    }
}
