//! The gate: joins firings into captures. A slow request fires, the capture follows a little later,
//! then comes a quiet time.
//!
//! What it promises: one capture for each cooldown; the cooldown doubles while firings go on, and
//! firings without a capture are counted. No clock: time is passed in.

/// The times that a gate uses, in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Timing {
    /// Waited after the firing, so that the capture contains what followed.
    pub post_ns: u64,
    /// How long beyond `post_ns` the capture waits for the firing request to end.
    pub patience_ns: u64,
    /// Quiet time after a capture; doubles while firings go on, up to 32 times.
    pub cooldown_ns: u64,
}

/// Why a capture is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A request ended past its limit.
    Ended,
    /// A request is past its limit and still running.
    Running,
    /// A request ended with an error of this type (a name id; 0: type not known).
    Failed {
        /// Name id of the error's type.
        kind: u32,
    },
    /// By this rule, too large a share of requests failed.
    Share {
        /// Number of the rule.
        rule: u32,
        /// Requests in the window, and those of them that failed.
        counts: (u64, u64),
    },
    /// The program's predicate chose a request that ended.
    Chosen,
    /// By this rule, a metric is over its limit.
    Metric {
        /// Number of the rule.
        rule: u32,
    },
}

/// One firing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Firing {
    /// The request that fired.
    pub request: u64,
    /// Name id of the request.
    pub name: u32,
    /// How long it had taken when it fired.
    pub took_ns: u64,
    /// Why it fired.
    pub why: Why,
    /// When it fired.
    pub at_ns: u64,
}

#[derive(Clone, Copy, Debug)]
enum State {
    Armed,
    Pending(Firing),
    Cooling { until_ns: u64 },
}

/// The gate's state: armed, pending (fired, capture not due yet) or cooling down.
#[derive(Debug)]
pub struct Gate {
    timing: Timing,
    state: State,
    doublings: u32,
    last_capture_ns: u64,
    /// The request that a capture was made for while it still ran; its end does not fire again.
    reported: u64,
    owed: Owed,
    /// The state before the last capture, which may fail.
    before: Before,
    /// Captures in a row that could not be written.
    failures: u32,
}

/// Slow requests since the last capture that are in no capture so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owed {
    /// How many.
    pub count: u64,
    /// When the first of them began; None if there are none.
    pub from_ns: Option<u64>,
}

impl Owed {
    fn add(&mut self, count: u64, from_ns: Option<u64>) {
        self.count += count;
        self.from_ns = [self.from_ns, from_ns].into_iter().flatten().min();
    }
}

/// What a capture changes, as it was before.
#[derive(Clone, Copy, Debug, Default)]
struct Before {
    last_capture_ns: u64,
    doublings: u32,
    owed: Owed,
    /// When the request of the capture's firing began.
    begin_ns: u64,
}

impl Firing {
    fn begin_ns(&self) -> u64 {
        self.at_ns.saturating_sub(self.took_ns)
    }
}

/// Quiet time after a capture that could not be written; doubles with each further failure, up to
/// the cooldown.
const FAILED_NS: u64 = 1_000_000_000;

impl Gate {
    /// Armed.
    pub fn new(timing: Timing) -> Gate {
        Gate {
            timing,
            state: State::Armed,
            doublings: 0,
            last_capture_ns: 0,
            reported: 0,
            owed: Owed::default(),
            before: Before::default(),
            failures: 0,
        }
    }

    /// Uses other times from here on.
    pub fn set_timing(&mut self, timing: Timing) {
        self.timing = timing;
    }

    /// A request was slow. True when a capture will contain or contains it; false when it is
    /// suppressed.
    pub fn slow(&mut self, firing: Firing) -> bool {
        if let State::Cooling { until_ns } = self.state {
            if firing.at_ns >= until_ns {
                self.state = State::Armed;
            }
        }
        match self.state {
            State::Armed if firing.request != self.reported => {
                self.state = State::Pending(firing);
                true
            }
            // Slow requests while a capture is pending will be in it.
            State::Pending(_) => true,
            _ if firing.request == self.reported => true,
            _ => {
                self.owed.add(1, Some(firing.begin_ns()));
                false
            }
        }
    }

    /// The firing whose capture is due now. `still_open` returns whether a request still runs.
    pub fn due(&mut self, now_ns: u64, still_open: impl Fn(u64) -> bool) -> Option<Firing> {
        let State::Pending(firing) = self.state else {
            return None;
        };
        let after_ns = now_ns.saturating_sub(firing.at_ns);
        let patient = after_ns < self.timing.post_ns + self.timing.patience_ns;
        let waits = patient && firing.why == Why::Running && still_open(firing.request);
        if after_ns < self.timing.post_ns || waits {
            return None;
        }
        self.before = Before {
            last_capture_ns: self.last_capture_ns,
            doublings: self.doublings,
            owed: self.owed,
            begin_ns: firing.begin_ns(),
        };
        let quiet_ns = now_ns.saturating_sub(self.last_capture_ns);
        let cooldown_ns = self.timing.cooldown_ns;
        // Twice the longest cooldown without a capture: the doubling ends.
        if self.last_capture_ns == 0 || quiet_ns > cooldown_ns.saturating_mul(2 << self.doublings) {
            self.doublings = 0;
        } else {
            self.doublings = (self.doublings + 1).min(5);
        }
        self.last_capture_ns = now_ns;
        self.owed = Owed::default();
        self.reported = firing.request;
        let until_ns = now_ns.saturating_add(cooldown_ns << self.doublings);
        self.state = State::Cooling { until_ns };
        Some(firing)
    }

    /// A capture was written.
    pub fn made(&mut self) {
        self.failures = 0;
    }

    /// The capture that was due at `due_ns` could not be written: its firing is in no capture, and
    /// another may fire a short while later.
    pub fn failed(&mut self, due_ns: u64, now_ns: u64) {
        let before = self.before;
        self.owed.add(1, Some(before.begin_ns));
        let quiet_ns = (FAILED_NS << self.failures).min(self.timing.cooldown_ns);
        self.failures = (self.failures + 1).min(16);
        // Another one is on its way already and decides what follows.
        if self.last_capture_ns != due_ns {
            return;
        }
        (self.last_capture_ns, self.doublings) = (before.last_capture_ns, before.doublings);
        self.owed.add(before.owed.count, before.owed.from_ns);
        self.reported = 0;
        if let State::Cooling { until_ns } = &mut self.state {
            *until_ns = now_ns.saturating_add(quiet_ns);
        }
    }

    /// Slow requests since the last capture that are in no capture: at the end of the process they
    /// are worth one more.
    pub fn owed(&self) -> Owed {
        self.owed
    }

    /// Whether a firing at this time would be suppressed by the quiet time after a capture.
    pub fn is_cooling(&self, now_ns: u64) -> bool {
        matches!(self.state, State::Cooling { until_ns } if now_ns < until_ns)
    }

    /// Whether a firing waits for its capture.
    pub fn is_pending(&self) -> bool {
        matches!(self.state, State::Pending(_))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;
    const TIMING: Timing = Timing { post_ns: S, patience_ns: 5 * S, cooldown_ns: 10 * S };

    fn firing(request: u64, at_ns: u64, why: Why) -> Firing {
        Firing { request, name: 1, took_ns: S, why, at_ns }
    }

    #[test]
    fn a_capture_follows_the_post_trigger_time() {
        let mut gate = Gate::new(TIMING);
        assert!(gate.slow(firing(1, 100 * S, Why::Ended)));
        assert_eq!(gate.due(100 * S + S / 2, |_| false), None);
        assert_eq!(gate.due(101 * S, |_| false).map(|f| f.request), Some(1));
        assert_eq!(gate.due(102 * S, |_| false), None, "once");
    }

    #[test]
    fn a_running_request_is_waited_for_but_not_for_ever() {
        let mut gate = Gate::new(TIMING);
        gate.slow(firing(1, 100 * S, Why::Running));
        assert_eq!(gate.due(102 * S, |_| true), None);
        assert!(gate.due(106 * S, |_| true).is_some(), "patience is over");
    }

    #[test]
    fn the_end_of_a_request_already_captured_does_not_fire_again() {
        let mut gate = Gate::new(TIMING);
        gate.slow(firing(7, 100 * S, Why::Running));
        assert!(gate.due(110 * S, |_| true).is_some());
        gate.slow(firing(7, 200 * S, Why::Ended));
        assert!(!gate.is_pending());
        gate.slow(firing(8, 200 * S, Why::Ended));
        assert!(gate.is_pending());
    }

    #[test]
    fn a_flood_gets_one_capture_a_cooldown_and_the_cooldown_doubles() {
        let mut gate = Gate::new(TIMING);
        let mut captures = Vec::new();
        for step in 0..2000u64 {
            let now = 1000 * S + step * S / 2;
            gate.slow(firing(step + 1, now, Why::Ended));
            captures.extend(gate.due(now, |_| false).map(|_| now / S - 1000));
        }
        assert!(gate.owed().count > 0, "what came after the last capture is in none");
        assert_eq!(captures, [1, 12, 33, 74, 155, 316, 637, 958]);
    }

    #[test]
    fn a_capture_that_failed_is_tried_again_soon_and_then_less_often() {
        let mut gate = Gate::new(TIMING);
        gate.slow(firing(1, 100 * S, Why::Running));
        assert!(gate.due(106 * S, |_| true).is_some());
        gate.failed(106 * S, 107 * S);
        assert_eq!(gate.owed(), Owed { count: 1, from_ns: Some(99 * S) });
        assert!(gate.is_cooling(107 * S + S / 2) && !gate.is_cooling(108 * S));
        assert!(gate.slow(firing(1, 108 * S, Why::Ended)) && gate.is_pending(), "it is in none");
        assert!(gate.due(109 * S, |_| false).is_some());
        gate.failed(109 * S, 109 * S);
        assert!(gate.owed().count == 2 && gate.is_cooling(110 * S) && !gate.is_cooling(111 * S));
        assert!(gate.slow(firing(2, 111 * S, Why::Ended)));
        assert!(gate.due(112 * S, |_| false).is_some());
        gate.made();
        assert!(
            gate.owed() == Owed::default() && gate.is_cooling(121 * S),
            "the cooldown of a first capture"
        );
        assert!(!gate.is_cooling(122 * S));
    }

    #[test]
    fn requests_in_no_capture_are_counted_from_the_begin_of_the_first() {
        let mut gate = Gate::new(TIMING);
        gate.slow(firing(1, 100 * S, Why::Ended));
        assert!(gate.due(101 * S, |_| false).is_some());
        for (request, at_s) in [(2, 105), (3, 104), (4, 106)] {
            assert!(!gate.slow(firing(request, at_s * S, Why::Ended)), "the cooldown");
        }
        assert_eq!(gate.owed(), Owed { count: 3, from_ns: Some(103 * S) });
        assert!(gate.slow(firing(5, 112 * S, Why::Ended)));
        assert!(gate.due(113 * S, |_| false).is_some());
        assert_eq!(gate.owed(), Owed::default());
    }

    #[test]
    fn after_a_quiet_time_the_cooldown_is_short_again() {
        let mut gate = Gate::new(TIMING);
        for at in [100, 120] {
            assert!(gate.slow(firing(at, at * S, Why::Ended)));
            assert!(gate.due((at + 2) * S, |_| false).is_some());
        }
        assert!(!gate.slow(firing(1, 135 * S, Why::Ended)), "doubled to 20 s");
        assert!(gate.slow(firing(2, 1000 * S, Why::Ended)));
        assert!(gate.due(1002 * S, |_| false).is_some());
        assert!(gate.slow(firing(3, 1013 * S, Why::Ended)), "10 s again");
    }
}
