//! The sampler's CPU budget: a purse that fills with time and pays for each pass.
//!
//! Pure: times are passed in. A full purse lets the sampler work harder for a while when a request
//! is slow; over any longer time it cannot spend more than its share.

/// Fills at `share` of real time, up to what `BURST_NS` of time brings in.
pub struct Budget {
    share: f64,
    purse_ns: f64,
    last_ns: u64,
    /// A pass is booked at no more than this many times the recent mean: one freak pass (the
    /// machine stood still) must not silence the sampler for long.
    mean_ns: f64,
}

/// Savings are at most what this much time brings in.
const BURST_NS: f64 = 20e9;
/// A freak pass is booked at this many means.
const FREAK: f64 = 20.0;

impl Budget {
    /// `percent` of one core, from `now_ns` on; the purse starts half full.
    pub fn new(percent: f64, now_ns: u64) -> Budget {
        let share = percent / 100.0;
        Budget { share, purse_ns: share * BURST_NS / 2.0, last_ns: now_ns, mean_ns: 0.0 }
    }

    /// Books a pass that ended at `now_ns` and cost `cost_ns` of CPU.
    pub fn spend(&mut self, cost_ns: u64, now_ns: u64) {
        let income = now_ns.saturating_sub(self.last_ns) as f64 * self.share;
        self.last_ns = now_ns;
        let mut cost = cost_ns as f64;
        if self.mean_ns > 0.0 {
            cost = cost.min(FREAK * self.mean_ns.max(20_000.0));
        }
        self.mean_ns += (cost - self.mean_ns) / 32.0;
        self.purse_ns = (self.purse_ns + income - cost).min(self.share * BURST_NS);
    }

    /// Whether a pass may be made now: urgent ones while anything is left, others only above half, so
    /// that savings remain for the moment they are needed.
    pub fn allows(&self, urgent: bool) -> bool {
        let reserve = if urgent { 0.0 } else { self.share * BURST_NS / 2.0 };
        self.purse_ns > reserve
    }

    /// How many times the usual period the next pass may be late, since it will not look at threads: what
    /// it cannot leave out costs, too, and would eat the income.
    pub fn stretch(&self, urgent: bool) -> u64 {
        match (self.allows(urgent), self.allows(true)) {
            (true, _) => 1,
            (false, true) => 2,
            (false, false) => 3,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs 60 s of passes every 10 ms that cost `cost_ns`; returns the share of CPU spent.
    fn spent(cost_ns: u64, urgent: bool) -> f64 {
        let mut budget = Budget::new(1.0, 0);
        let mut cpu = 0;
        for step in 1..=6000u64 {
            let cost = if budget.allows(urgent) { cost_ns } else { 500 };
            cpu += cost;
            budget.spend(cost, step * 10_000_000);
        }
        cpu as f64 / 60e9
    }

    #[test]
    fn cheap_passes_are_never_skipped_and_dear_ones_stay_inside_the_budget() {
        assert!(spent(50_000, false) > 0.0049, "0.5 % fits in 1 %");
        assert!(spent(1_000_000, false) < 0.0125, "{}", spent(1_000_000, false));
        assert!(spent(1_000_000, true) < 0.0135, "savings of 10 s are spent once");
    }

    /// Usual passes of 300 us, three times what the budget pays, for a minute; then one request is slow.
    #[test]
    fn savings_are_left_for_a_slow_request_however_dear_passes_are() {
        const COST_NS: u64 = 300_000;
        let mut budget = Budget::new(1.0, 0);
        let mut now_ns = 0;
        while now_ns < 60_000_000_000 {
            now_ns += 10_000_000 * budget.stretch(false);
            let cost = if budget.allows(false) { COST_NS } else { COST_NS / 3 };
            budget.spend(cost, now_ns);
        }
        let mut urgent = 0;
        while budget.allows(true) {
            urgent += 1;
            now_ns += 10_000_000 * budget.stretch(true);
            budget.spend(COST_NS, now_ns);
        }
        assert!(urgent > 400, "{urgent} looks, 10 ms apart");
    }

    #[test]
    fn a_freak_pass_does_not_silence_the_sampler() {
        let mut budget = Budget::new(1.0, 0);
        (1..100u64).for_each(|i| budget.spend(50_000, i * 10_000_000));
        budget.spend(3_000_000_000, 1_000_000_000);
        assert!(budget.allows(true));
    }
}
