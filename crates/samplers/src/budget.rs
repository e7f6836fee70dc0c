//! The sampler's CPU budget: a purse that fills with time and pays for each pass.
//!
//! Pure: times are passed in. A full purse lets the sampler work harder for a while when a request
//! is slow; over any longer time passes of up to a millisecond cannot spend more than its share (dearer
//! ones can: decision 0017). Half of the purse is kept for slow requests.
//! While there is less, half of the income goes on being spent on looks: what led to the next slow request
//! must be seen, too.

/// Fills at `share` of real time, up to what `BURST_NS` of time brings in.
pub struct Budget {
    share: f64,
    purse_ns: f64,
    /// What may be spent on looks though the purse is low.
    trickle_ns: f64,
    last_ns: u64,
    /// A pass is booked at no more than this many times the recent mean: one freak pass (the
    /// machine stood still) must not silence the sampler for long.
    mean_ns: f64,
}

/// Savings are at most what this much time brings in.
const BURST_NS: f64 = 20e9;
/// The purse begins with this part of the most it holds, and keeps this part for slow requests.
const BEGINS: f64 = 0.75;
const KEPT: f64 = 0.5;
/// It is overdrawn by at most this part: what a pass cannot leave out may cost more than comes in for a
/// while (a program that loads), and must not silence the sampler for minutes.
const OVERDRAWN: f64 = 0.25;
/// The part of the income that trickles, and how much of that is put aside: of so much time.
const TRICKLE: f64 = 0.5;
const TRICKLE_NS: f64 = 1e9;
/// A freak pass is booked at this many means.
const FREAK: f64 = 20.0;

impl Budget {
    /// `percent` of one core, from `now_ns` on.
    pub fn new(percent: f64, now_ns: u64) -> Budget {
        let share = percent / 100.0;
        let purse_ns = share * BURST_NS * BEGINS;
        Budget { share, purse_ns, trickle_ns: 0.0, last_ns: now_ns, mean_ns: 0.0 }
    }

    /// Books a pass that ended at `now_ns` and cost `cost_ns` of CPU; `looked`: it looked at threads.
    pub fn spend(&mut self, cost_ns: u64, now_ns: u64, looked: bool) {
        let income = now_ns.saturating_sub(self.last_ns) as f64 * self.share;
        self.last_ns = now_ns;
        let mut cost = cost_ns as f64;
        if self.mean_ns > 0.0 {
            cost = cost.min(FREAK * self.mean_ns.max(20_000.0));
        }
        self.mean_ns += (cost - self.mean_ns) / 32.0;
        let most = self.share * BURST_NS;
        self.purse_ns = (self.purse_ns + income - cost).clamp(-OVERDRAWN * most, most);
        let aside = self.share * TRICKLE * TRICKLE_NS;
        let paid = if looked { cost } else { 0.0 };
        self.trickle_ns = (self.trickle_ns + income * TRICKLE - paid).clamp(-aside / 5.0, aside);
    }

    /// Whether a pass may look at threads now.
    pub fn allows(&self, urgent: bool) -> bool {
        let part = self.purse_ns / (self.share * BURST_NS);
        let kept = if urgent { 0.0 } else { KEPT };
        part > kept || part > -OVERDRAWN && self.trickle_ns > 0.0
    }

    /// Whether there is no more than what is kept for urgent passes.
    pub fn is_low(&self) -> bool {
        self.purse_ns <= KEPT * self.share * BURST_NS
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
            let looks = budget.allows(urgent);
            let cost = if looks { cost_ns } else { 500 };
            cpu += cost;
            budget.spend(cost, step * 10_000_000, looks);
        }
        cpu as f64 / 60e9
    }

    #[test]
    fn cheap_passes_are_never_skipped_and_dear_ones_stay_inside_the_budget() {
        assert!(spent(50_000, false) > 0.0049, "0.5 % fits in 1 %");
        assert!(spent(1_000_000, false) < 0.0125, "{}", spent(1_000_000, false));
        assert!(spent(1_000_000, true) < 0.0135, "savings of 15 s are spent once");
    }

    /// Usual passes of 300 us, three times what the budget pays, for a minute; then one request is slow.
    #[test]
    fn savings_are_left_for_a_slow_request_however_dear_passes_are() {
        const COST_NS: u64 = 300_000;
        let mut budget = Budget::new(1.0, 0);
        let mut now_ns = 0;
        while now_ns < 60_000_000_000 {
            now_ns += 10_000_000 * budget.stretch(false);
            let looks = budget.allows(false);
            budget.spend(if looks { COST_NS } else { COST_NS / 3 }, now_ns, looks);
        }
        let mut urgent = 0;
        while budget.allows(true) {
            urgent += 1;
            now_ns += 10_000_000 * budget.stretch(true);
            budget.spend(COST_NS, now_ns, true);
        }
        assert!(urgent > 400, "{urgent} looks, 10 ms apart");
    }

    /// Twenty passes that cost 20 ms each (a program that loads), then usual ones of 100 us.
    #[test]
    fn looks_go_on_after_a_burst_that_took_all_savings() {
        let mut budget = Budget::new(1.0, 0);
        let mut seen = 0;
        for step in 1..=400u64 {
            let looks = budget.allows(false);
            let usual = if looks { 100_000 } else { 30_000 };
            let cost = if step <= 20 { 20_000_000 } else { usual };
            seen += u32::from(looks && step > 50);
            budget.spend(cost, step * 10_000_000, looks);
        }
        assert!(seen > 100, "{seen} looks in 3.5 s");
    }

    #[test]
    fn a_freak_pass_does_not_silence_the_sampler() {
        let mut budget = Budget::new(1.0, 0);
        (1..100u64).for_each(|i| budget.spend(50_000, i * 10_000_000, true));
        budget.spend(3_000_000_000, 1_000_000_000, true);
        assert!(budget.allows(true));
    }
}
