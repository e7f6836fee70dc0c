//! When switch records cost more than they are worth: bursts of short-lived threads.
//!
//! How it works: for each new thread the kernel copies the events that write switch records, one a
//! CPU, and removes them at the thread's end. `Burst` is passed the births and answers when to
//! close the events and when to open them again:
//!
//! ```text
//!   recording --4 windows over the limit--> paused --4 windows under half of it--> recording
//!                                             ^ |
//!        1 window over, and wait twice as long | | after 4 s, 8, 16 ... 60
//!                                             | v
//!                                            trying --4 windows under--> recording
//! ```
//! While paused the exact number of births is unknown: the caller gives an upper bound (of the
//! whole host). If another process keeps the bound high, a trial finds out. Pure: times and counts
//! are passed in.

/// A window of births.
const WINDOW_NS: u64 = 250_000_000;
/// Windows in a row that make a burst, or the end of one.
const WINDOWS: u32 = 4;
/// What events may cost a second, for births alone: 1 % of a core.
const COST_NS: u64 = 10_000_000;
/// Birth and end of a thread with one event, measured: 4-6 us (AMD EPYC under KVM, Linux 6.18).
const EVENT_NS: u64 = 5_000;
/// Fewer births a second are no burst, on however many CPUs: services commonly start a thread for
/// each of some hundred requests a second.
const CALM: u64 = 500;
/// Time until the first trial, and the longest.
const WAIT_NS: (u64, u64) = (4_000_000_000, 60_000_000_000);

/// What to do now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Close the events.
    Pause,
    /// Open them.
    Resume,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Recording,
    Paused { until_ns: u64 },
    Trying,
}

/// The decision.
#[derive(Debug)]
pub struct Burst {
    mode: Mode,
    limit: u64,
    begin_ns: u64,
    births: u64,
    /// Windows in a row that speak for a change.
    streak: u32,
    wait_ns: u64,
}

impl Burst {
    /// With events on `cpus` CPUs, recording from `now_ns` on.
    pub fn new(cpus: usize, now_ns: u64) -> Burst {
        let limit = (COST_NS / (EVENT_NS * cpus.max(1) as u64)).max(CALM);
        let (mode, wait_ns) = (Mode::Recording, WAIT_NS.0);
        Burst { mode, limit, begin_ns: now_ns, births: 0, streak: 0, wait_ns }
    }

    /// Births a second from which on it is a burst.
    pub fn limit(&self) -> u64 {
        self.limit
    }

    /// Takes note of threads born since the last call. Returns at most one change, which the caller
    /// carries out. A change that could not be carried out is reported with `refused`.
    pub fn update(&mut self, now_ns: u64, births: u64) -> Option<Change> {
        self.births = self.births.saturating_add(births);
        let passed_ns = now_ns.saturating_sub(self.begin_ns);
        let whole = passed_ns >= WINDOW_NS;
        // What is over the limit before the window ends is so at its end.
        let births = u128::from(self.births) * 1_000_000_000;
        let over = |limit: u64, ns: u64| births >= u128::from(limit) * u128::from(ns);
        let speaks_for = match self.mode {
            Mode::Recording => over(self.limit, passed_ns),
            Mode::Paused { .. } => !over(self.limit / 2, passed_ns),
            Mode::Trying => true,
        };
        let lasts = whole && self.lasts(speaks_for);
        let change = match self.mode {
            Mode::Trying if over(self.limit, passed_ns.max(WINDOW_NS)) => {
                self.wait_ns = (self.wait_ns * 2).min(WAIT_NS.1);
                self.pause(now_ns)
            }
            Mode::Recording if lasts => {
                self.wait_ns = WAIT_NS.0;
                self.pause(now_ns)
            }
            Mode::Trying if lasts => {
                (self.mode, self.streak) = (Mode::Recording, 0);
                None
            }
            Mode::Paused { until_ns } if lasts || now_ns >= until_ns => self.resume(),
            _ => None,
        };
        if whole || change.is_some() {
            (self.begin_ns, self.births) = (now_ns, 0);
        }
        change
    }

    /// The events could not be opened: it stays paused, and tries again later.
    pub fn refused(&mut self, now_ns: u64) {
        self.wait_ns = (self.wait_ns * 2).min(WAIT_NS.1);
        self.pause(now_ns);
    }

    fn lasts(&mut self, speaks_for: bool) -> bool {
        self.streak = if speaks_for { self.streak + 1 } else { 0 };
        self.streak >= WINDOWS
    }

    fn pause(&mut self, now_ns: u64) -> Option<Change> {
        (self.mode, self.streak) = (Mode::Paused { until_ns: now_ns + self.wait_ns }, 0);
        Some(Change::Pause)
    }

    fn resume(&mut self) -> Option<Change> {
        (self.mode, self.streak) = (Mode::Trying, 0);
        Some(Change::Resume)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Passes every 10 ms from `from_ms` to `to_ms` with `rate` births a second; the changes, as
    /// text. In a pause the caller's bound is `bound` a second.
    fn run(burst: &mut Burst, from_ms: u64, to_ms: u64, rate: u64, bound: u64) -> Vec<String> {
        let (mut changes, mut owed) = (Vec::new(), 0);
        for ms in (from_ms + 10..=to_ms).step_by(10) {
            owed += if matches!(burst.mode, Mode::Paused { .. }) { bound } else { rate };
            if let Some(change) = burst.update(ms * MS, owed / 100) {
                changes.push(format!("{change:?} at {ms} ms"));
            }
            owed %= 100;
        }
        changes
    }

    #[test]
    fn a_thread_for_each_of_some_hundred_requests_is_no_burst() {
        for cpus in [1, 2, 8, 256] {
            let mut burst = Burst::new(cpus, 0);
            assert_eq!(run(&mut burst, 0, 60_000, 450, 450), [""; 0], "{cpus} CPUs");
        }
        assert_eq!(Burst::new(2, 0).limit(), 1000);
        assert_eq!(Burst::new(64, 0).limit(), 500);
    }

    #[test]
    fn two_windows_of_births_at_the_start_are_no_burst() {
        let mut burst = Burst::new(2, 0);
        assert_eq!(run(&mut burst, 0, 500, 8_000, 0), [""; 0]);
        assert_eq!(run(&mut burst, 500, 5_000, 10, 10), [""; 0]);
    }

    #[test]
    fn a_burst_pauses_and_its_end_brings_the_records_back() {
        let mut burst = Burst::new(2, 0);
        assert_eq!(run(&mut burst, 0, 2_000, 20_000, 20_000), ["Pause at 1000 ms"]);
        // Between half of the limit and the limit nothing changes.
        assert_eq!(run(&mut burst, 2_000, 3_000, 600, 600), [""; 0]);
        assert_eq!(run(&mut burst, 3_000, 9_000, 300, 300), ["Resume at 4000 ms"]);
    }

    #[test]
    fn trials_in_a_long_burst_are_short_and_get_rare() {
        let mut burst = Burst::new(2, 0);
        let changes = run(&mut burst, 0, 100_000, 20_000, 20_000);
        let resumed = changes.iter().filter(|t| t.starts_with("Resume")).count();
        assert_eq!(
            changes[..5],
            [
                "Pause at 1000 ms",
                "Resume at 5000 ms",
                "Pause at 5020 ms",
                "Resume at 13020 ms",
                "Pause at 13040 ms"
            ]
        );
        assert_eq!(resumed, 4, "{changes:?}");
    }

    #[test]
    fn another_process_that_forks_a_lot_delays_the_return_only() {
        let mut burst = Burst::new(2, 0);
        run(&mut burst, 0, 1_000, 20_000, 0);
        assert_eq!(run(&mut burst, 1_000, 60_000, 0, 5_000), ["Resume at 5000 ms"]);
    }

    #[test]
    fn what_is_refused_is_tried_again() {
        let mut burst = Burst::new(2, 0);
        run(&mut burst, 0, 1_000, 20_000, 0);
        assert_eq!(run(&mut burst, 1_000, 2_000, 0, 0), ["Resume at 2000 ms"]);
        burst.refused(2_000 * MS);
        assert_eq!(run(&mut burst, 2_000, 3_000, 0, 0), ["Resume at 3000 ms"]);
    }
}
