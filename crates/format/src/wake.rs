//! What ended a thread's wait, as the kernel records it (source `wakers`).
//!
//! ```text
//!  word 0: kind 16 (8) | 3 words (8) | kind of waker (16) | tid of the woken thread (32)
//!       1: t
//!       2: a thread of this process: its tid; another process: its pid; the kernel: 0
//! ```
//! Wakeups are recorded of some threads only, and not at all times: a missing record means nothing.

use crate::words::{header, Kind};

/// The waker: what ended a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waker {
    /// A thread of the same process, by its tid.
    Thread(u32),
    /// An interrupt: a timer, a device, the network.
    Kernel,
    /// Another process or a kernel thread, by its pid.
    Process(u32),
}

/// One wakeup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wake {
    /// When.
    pub t_ns: u64,
    /// The woken thread.
    pub tid: u32,
    /// The waker.
    pub by: Waker,
}

impl Wake {
    /// As words.
    pub fn encode(&self) -> [u64; 3] {
        let (by_kind, id) = match self.by {
            Waker::Thread(tid) => (0, tid),
            Waker::Kernel => (1, 0),
            Waker::Process(pid) => (2, pid),
        };
        [header(Kind::Wake, 3, by_kind, self.tid), self.t_ns, u64::from(id)]
    }

    pub(crate) fn decode(tid: u32, by_kind: u16, body: &[u64]) -> Option<Wake> {
        let &[t_ns, id] = body else { return None };
        let by = match by_kind {
            0 => Waker::Thread(id as u32),
            1 => Waker::Kernel,
            2 => Waker::Process(id as u32),
            _ => return None,
        };
        Some(Wake { t_ns, tid, by })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{decode, Record};

    #[test]
    fn a_wakeup_survives_encoding() {
        for by in [Waker::Thread(9), Waker::Kernel, Waker::Process(u32::MAX)] {
            let wake = Wake { t_ns: 5, tid: 7, by };
            assert_eq!(decode(&wake.encode()), Some((3, Record::Wake(wake))));
        }
    }

    #[test]
    fn an_unknown_kind_of_waker_is_refused() {
        assert_eq!(decode(&[header(Kind::Wake, 3, 3, 7), 5, 9]), None);
        assert_eq!(decode(&[header(Kind::Wake, 2, 0, 7), 5]), None);
    }
}
