//! Whether the process takes up requests while its threads work.
//!
//! How it works: a thread that keeps the GIL in a long call of C code, or an event loop in a long
//! callback, keeps requests from their begin. They wait in their sockets and are not open, so none
//! of them is late as far as the recorder knows; when they begin, it is over. What shows it
//! meanwhile: no request begins, and the process is busy, or a thread was seen waiting for the GIL,
//! whose holder may keep it while it waits for something itself.
//!
//! Pure: what was counted is passed in. What it promises: a process that takes up a request between
//! two passes is not stalled, however busy it is, nor is one whose threads wait, nor one that loads
//! its modules before its first request. One that computes between two requests is.

/// A process is busy if its threads used one in this many parts of the time, or more.
const BUSY_PART: u64 = 2;

/// What a pass found of the time since the last one.
#[derive(Clone, Copy, Debug)]
pub struct Since {
    /// Requests that have begun in all.
    pub begun: u64,
    /// The time, and the CPU time of all threads but the sampler's.
    pub ns: u64,
    /// See `ns`.
    pub cpu_ns: u64,
    /// A thread was seen waiting for the GIL.
    pub gil_wanted: bool,
}

/// Requests taken up, from pass to pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Progress {
    begun: u64,
    stalled: bool,
}

impl Progress {
    /// A pass begins.
    pub fn note(&mut self, since: Since) {
        let none_began = std::mem::replace(&mut self.begun, since.begun) == since.begun;
        let busy = since.cpu_ns.saturating_mul(BUSY_PART) >= since.ns;
        self.stalled = since.begun > 0 && none_began && (busy || since.gil_wanted);
    }

    /// Whether something may keep requests from being taken up.
    pub fn is_stalled(&self) -> bool {
        self.stalled
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PASS: Since = Since { begun: 7, ns: 10_000_000, cpu_ns: 0, gil_wanted: false };

    /// What is thought after passes that found this.
    fn stalled(passes: &[Since]) -> bool {
        let mut progress = Progress::default();
        passes.iter().for_each(|since| progress.note(*since));
        progress.is_stalled()
    }

    #[test]
    fn a_process_that_computes_while_no_request_begins_is_stalled_until_one_does() {
        let busy = Since { cpu_ns: 5_000_000, ..PASS };
        assert!(!stalled(&[busy]), "seven began");
        assert!(stalled(&[busy, busy]));
        assert!(!stalled(&[busy, busy, Since { begun: 8, ..busy }]));
    }

    #[test]
    fn a_gil_that_is_wanted_counts_though_its_holder_uses_no_cpu() {
        let wanted = Since { gil_wanted: true, ..PASS };
        assert!(stalled(&[wanted, wanted]));
        assert!(!stalled(&[wanted, Since { begun: 8, ..wanted }]));
    }

    #[test]
    fn a_process_that_had_no_request_yet_is_not() {
        let loads = Since { begun: 0, cpu_ns: 10_000_000, gil_wanted: true, ..PASS };
        assert!(!stalled(&[loads, loads, loads]));
    }

    #[test]
    fn a_process_whose_threads_wait_or_tick_is_not() {
        assert!(!stalled(&[PASS, PASS, PASS]));
        let ticks = Since { cpu_ns: 4_900_000, ..PASS };
        assert!(!stalled(&[PASS, ticks, ticks]));
    }
}
