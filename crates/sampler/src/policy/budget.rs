//! The sampler's CPU budget: a token bucket that fills with time and pays for each pass.
//!
//! Pure: times are passed in. The bucket is for trouble: while a request is open that comes near
//! its limit, the sampler may work harder for a while, and while the process takes up no requests
//! though its threads work, as long as the bucket is more than half full. All other passes are paid
//! by half of the income (the trickle), also while the bucket is full, so that a service whose
//! requests are as fast as usual never pays more. Over any longer time samples cannot cost more
//! than the budget's share, whatever a pass costs. An empty bucket leaves the trickle to slow
//! requests, too.

/// Fills at `share` of real time, up to what `BURST_NS` of time brings in.
pub struct Budget {
    share: f64,
    bucket_ns: f64,
    /// What samples may cost that the bucket does not pay for.
    trickle_ns: f64,
    last_ns: u64,
    /// The recent mean of passes that the bucket paid for, of those that the trickle paid for, and
    /// of those that sampled no thread; the most expensive of late.
    saved_ns: f64,
    trickled_ns: f64,
    rests_ns: f64,
    peak_ns: f64,
}

/// What a pass is needed for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Need {
    /// Requests are taken up, and are as fast as usual.
    Usual,
    /// Threads work, and none is taken up (`super::progress`).
    Stalled,
    /// One comes near its limit.
    Slow,
}

/// Whether a pass may sample threads, and what pays for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PaidBy {
    /// It may not.
    Nothing,
    /// The bucket pays for it.
    Bucket,
    /// The part of the income that does not go into the bucket.
    Trickle,
}

/// The bucket holds at most what this much time brings in.
const BURST_NS: f64 = 20e9;
/// The bucket begins with this part of its capacity, and keeps this part for slow requests: a
/// program that computes for minutes and takes up none must not have used it when they come.
const BEGINS: f64 = 0.75;
const KEPT: f64 = 0.5;
/// With less than this part, passes are made narrow, before the bucket is empty and passes must be
/// left out.
const LOW: f64 = 0.55;
/// The bucket is overdrawn by at most this part, or one pass. Work that a pass cannot leave out may
/// cost more than the income for a while (a program that loads), and must not silence the sampler
/// for minutes.
const OVERDRAWN: f64 = 0.25;
/// The part of the income that trickles. What is not used of it is kept, up to what comes in during
/// `TRICKLE_NS`.
const TRICKLE: f64 = 0.5;
const TRICKLE_NS: f64 = 1e9;
/// The trickle, and a low bucket, may be overdrawn by the cost of one pass: so the next pass is
/// paid in full.
const ONE_PASS_NS: f64 = 20e6;
/// A pass is booked at no more than this many times the recent mean, or twice the most expensive of
/// late, which fades by half in this time. One freak pass (the machine was paused) must not silence
/// the sampler for long, but a cost that repeats is booked whole.
const FREAK: f64 = 20.0;
const FADES_NS: f64 = 10e9;
const CHEAP_NS: f64 = 20_000.0;
/// A pass that the trickle pays for comes as many periods behind the last one as let it sample
/// threads, but no more than these: that a request is late is seen by a pass. One that costs 200
/// us, mostly to wake up on a busy machine, is made 25 times a second then, not 50 times, half of
/// them in vain.
const EVEN_PERIODS: u64 = 5;
/// So that it is not planned for the very moment at which there is nothing left.
const EVEN_BEHIND_NS: u64 = 10_000;
/// No pause between two passes is longer, but for a longer period.
const LONGEST_PAUSE_NS: f64 = 100e6;

impl Budget {
    /// `percent` of one core, from `now_ns` on.
    pub fn new(percent: f64, now_ns: u64) -> Budget {
        let share = percent / 100.0;
        let bucket_ns = share * BURST_NS * BEGINS;
        Budget {
            share,
            bucket_ns,
            trickle_ns: share * TRICKLE * TRICKLE_NS,
            last_ns: now_ns,
            saved_ns: 0.0,
            trickled_ns: 0.0,
            rests_ns: 0.0,
            peak_ns: 0.0,
        }
    }

    /// From `now_ns` on it is `percent` of one core. What was saved, or borrowed, is so much time
    /// of it, as before.
    pub fn follow(&mut self, percent: f64, now_ns: u64) {
        let share = percent / 100.0;
        if share != self.share {
            self.earn(now_ns);
            let times = share / self.share;
            self.bucket_ns *= times;
            self.trickle_ns *= times;
            self.share = share;
        }
    }

    /// Books a pass that ended at `now_ns` and cost `cost_ns` of CPU; `paid_by`: the answer of
    /// `may_sample` for it.
    pub fn spend(&mut self, cost_ns: u64, now_ns: u64, paid_by: PaidBy) {
        self.earn(now_ns);
        let mean = match paid_by {
            PaidBy::Nothing => &mut self.rests_ns,
            PaidBy::Bucket => &mut self.saved_ns,
            PaidBy::Trickle => &mut self.trickled_ns,
        };
        let mut cost = cost_ns as f64;
        if *mean > 0.0 {
            let usual = (FREAK * mean.max(CHEAP_NS)).max(2.0 * self.peak_ns);
            self.peak_ns = self.peak_ns.max(cost);
            cost = cost.min(usual);
        }
        *mean += (cost - *mean) / 32.0;
        self.bucket_ns = (self.bucket_ns - cost).max(self.least_ns());
        let paid = if paid_by == PaidBy::Trickle { cost } else { 0.0 };
        self.trickle_ns = (self.trickle_ns - paid).max(-ONE_PASS_NS);
    }

    /// Takes in what came until now.
    fn earn(&mut self, now_ns: u64) {
        let passed = now_ns.saturating_sub(self.last_ns) as f64;
        let income = passed * self.share;
        self.last_ns = self.last_ns.max(now_ns);
        self.peak_ns *= (-passed / FADES_NS).exp2();
        self.bucket_ns = (self.bucket_ns + income).min(self.most_ns());
        let aside = self.share * TRICKLE * TRICKLE_NS;
        self.trickle_ns = (self.trickle_ns + income * TRICKLE).min(aside);
    }

    /// Whether a pass may sample threads at `now_ns`.
    pub fn may_sample(&mut self, need: Need, now_ns: u64) -> PaidBy {
        self.earn(now_ns);
        self.pays_for(need)
    }

    fn pays_for(&self, need: Need) -> PaidBy {
        let saved = match need {
            Need::Usual => false,
            Need::Stalled => self.bucket_ns > KEPT * self.most_ns(),
            Need::Slow => self.bucket_ns > 0.0,
        };
        match (saved, self.trickle_ns > 0.0) {
            (true, _) => PaidBy::Bucket,
            (false, true) => PaidBy::Trickle,
            (false, false) => PaidBy::Nothing,
        }
    }

    /// Whether there is little more than what is kept for slow requests.
    pub fn is_low(&self) -> bool {
        self.bucket_ns <= LOW * self.most_ns()
    }

    /// Whether nothing more can be borrowed: even the work that should not be left out is done less
    /// often.
    pub fn is_overdrawn(&self) -> bool {
        self.bucket_ns <= 0.9 * self.least_ns()
    }

    /// From the begin of one pass to the begin of the next. A pass that will not sample threads
    /// comes later: the work that it cannot leave out costs, and would use up the income.
    pub fn period_ns(&self, usual_ns: u64, need: Need) -> u64 {
        let times = match (self.pays_for(need), self.pays_for(Need::Slow)) {
            (PaidBy::Nothing, PaidBy::Nothing) => 3,
            (PaidBy::Nothing, _) if self.even_ns() > EVEN_PERIODS * usual_ns => EVEN_PERIODS,
            _ => return usual_ns,
        };
        // At that pace it takes no more than half of what comes in.
        let paid_ns = (2.0 * self.rests_ns / self.share).min(LONGEST_PAUSE_NS);
        (usual_ns * times).max(paid_ns as u64)
    }

    /// The next pass comes no earlier, so that the trickle can pay for it; 0: at any time.
    pub fn paid_at_ns(&self, usual_ns: u64, need: Need) -> u64 {
        match (self.pays_for(need), self.pays_for(Need::Slow)) {
            (PaidBy::Nothing, PaidBy::Bucket | PaidBy::Trickle) => {
                self.last_ns + self.even_ns().min(EVEN_PERIODS * usual_ns)
            }
            _ => 0,
        }
    }

    /// In so much time the trickle will have something left.
    fn even_ns(&self) -> u64 {
        (-self.trickle_ns / (self.share * TRICKLE)).max(0.0) as u64 + EVEN_BEHIND_NS
    }

    /// Whether passes that the trickle pays for cost more than it gets between two of them, if they
    /// come every `usual_ns`.
    pub fn is_too_wide(&self, usual_ns: u64) -> bool {
        self.trickled_ns > usual_ns as f64 * self.share * TRICKLE
    }

    fn most_ns(&self) -> f64 {
        self.share * BURST_NS
    }

    fn least_ns(&self) -> f64 {
        -(OVERDRAWN * self.most_ns()).max(ONE_PASS_NS)
    }
}

/// How many threads a pass samples that the trickle pays for, and how many besides the urgent ones
/// while the bucket is low: as many as let it come as often as it should.
pub struct Width {
    threads: f64,
}

const WIDEST: f64 = 4.0;
const NARROWEST: f64 = 1.0;
/// A pass that costs too much takes this off, and this many passes that do not may give it back.
const STEP: f64 = 0.25;
const PASSES_A_STEP: f64 = 20.0;

impl Default for Width {
    fn default() -> Width {
        Width { threads: WIDEST }
    }
}

impl Width {
    /// Takes note of what a pass may do; `usual_ns`: how often passes should come.
    pub fn follow(&mut self, paid_by: PaidBy, budget: &Budget, usual_ns: u64) {
        let less = paid_by == PaidBy::Nothing
            || paid_by == PaidBy::Trickle && budget.is_too_wide(usual_ns);
        let step = if less { -STEP } else { STEP / PASSES_A_STEP };
        self.threads = (self.threads + step).clamp(NARROWEST, WIDEST);
    }

    /// So many.
    pub fn threads(&self) -> usize {
        self.threads.round() as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PERIOD_NS: u64 = 10_000_000;
    const SECOND_NS: u64 = 1_000_000_000;

    /// When the next pass begins, as `Schedule` plans it.
    fn next(budget: &Budget, planned_ns: u64, need: Need) -> u64 {
        let period_ns = budget.period_ns(PERIOD_NS, need);
        (planned_ns + period_ns).max(budget.paid_at_ns(PERIOD_NS, need))
    }

    /// Runs a minute of passes that cost `cost_ns` if they sample threads, else `rest_ns`; returns
    /// the share of CPU spent.
    fn spent(cost_ns: u64, rest_ns: u64, need: Need) -> f64 {
        let mut budget = Budget::new(1.0, 0);
        let (mut cpu, mut now_ns) = (0, 0);
        while now_ns < 60 * SECOND_NS {
            now_ns = next(&budget, now_ns, need);
            let paid_by = budget.may_sample(need, now_ns);
            let cost = if paid_by == PaidBy::Nothing { rest_ns } else { cost_ns };
            cpu += cost;
            budget.spend(cost, now_ns, paid_by);
        }
        cpu as f64 / now_ns as f64
    }

    #[test]
    fn cheap_passes_are_never_skipped_and_expensive_ones_are_within_the_budget() {
        assert!(spent(45_000, 500, Need::Usual) > 0.0044, "0.45 % fits in the half of 1 %");
        for cost_ns in [300_000, 1_000_000, 5_000_000, 15_000_000] {
            let spent = spent(cost_ns, 30_000, Need::Slow);
            assert!(spent < 0.0104 + 15e7 / 60e9, "{cost_ns} ns: {spent}");
        }
    }

    /// Nothing of the bucket, and of the income the half, beside what passes cost that sample no
    /// thread.
    #[test]
    fn while_no_request_is_slow_passes_take_half_of_the_budget_from_the_first_second_on() {
        for cost_ns in [60_000, 100_000, 300_000, 1_000_000] {
            let spent = spent(cost_ns, 500, Need::Usual);
            assert!((0.0045..0.0054).contains(&spent), "{cost_ns} ns: {spent}");
        }
    }

    /// A worker whose budget becomes a quarter, as others begin to serve, and then whole again.
    #[test]
    fn a_budget_that_changes_keeps_what_it_has_saved_as_time() {
        let mut budget = Budget::new(1.0, 0);
        let saved_ns = budget.bucket_ns;
        budget.follow(0.25, 0);
        assert_eq!(budget.bucket_ns, saved_ns / 4.0);
        budget.follow(0.25, SECOND_NS);
        assert_eq!(budget.bucket_ns, saved_ns / 4.0, "the same is no change");
        budget.follow(1.0, SECOND_NS);
        // A second of the quarter came in.
        assert_eq!(budget.bucket_ns, saved_ns + SECOND_NS as f64 * 0.01);
        assert_eq!(budget.pays_for(Need::Slow), PaidBy::Bucket);
    }

    /// Each of these was half of a larger share before what came again was booked whole.
    #[test]
    fn what_comes_again_is_no_freak_and_small_budgets_hold_too() {
        for (percent, every, expensive_ns) in [
            (1.0, 32, 20_000_000),
            (1.0, 16, 50_000_000),
            (1.0, 100, 10_000_000),
            (0.1, 1, 9_000_000),
            (0.01, 1, 9_000_000),
        ] {
            let mut budget = Budget::new(percent, 0);
            let (mut cpu, mut now_ns, mut step) = (0, 0, 0u64);
            while now_ns < 600 * SECOND_NS {
                now_ns = next(&budget, now_ns, Need::Slow);
                let paid_by = budget.may_sample(Need::Slow, now_ns);
                step += u64::from(paid_by != PaidBy::Nothing);
                let cost = match paid_by {
                    PaidBy::Nothing => 300,
                    _ if step.is_multiple_of(every) => expensive_ns,
                    _ => 20_000,
                };
                cpu += if now_ns > 300 * SECOND_NS { cost } else { 0 };
                budget.spend(cost, now_ns, paid_by);
            }
            let spent = cpu as f64 / 300e9 * 100.0;
            assert!(spent < 1.25 * percent, "{percent} %, {expensive_ns} ns: {spent}");
        }
    }

    #[test]
    fn passes_that_may_not_look_come_so_seldom_that_they_are_paid() {
        let spent = spent(5_000_000, 400_000, Need::Slow);
        assert!(spent < 0.0152, "{spent}, of which 0.0025 are savings");
    }

    /// Usual passes of 300 us, three times what the budget pays, for a minute; then one request is
    /// slow.
    #[test]
    fn the_bucket_is_left_for_a_slow_request_however_expensive_usual_passes_are() {
        const COST_NS: u64 = 300_000;
        let mut budget = Budget::new(1.0, 0);
        let mut now_ns = 0;
        while now_ns < 60 * SECOND_NS {
            now_ns = next(&budget, now_ns, Need::Usual);
            let paid_by = budget.may_sample(Need::Usual, now_ns);
            budget.spend(
                if paid_by == PaidBy::Nothing { COST_NS / 3 } else { COST_NS },
                now_ns,
                paid_by,
            );
        }
        let mut urgent = 0;
        while budget.may_sample(Need::Slow, now_ns) == PaidBy::Bucket {
            urgent += 1;
            now_ns += PERIOD_NS;
            budget.spend(COST_NS, now_ns, PaidBy::Bucket);
        }
        assert!(urgent > 700, "{urgent} samples, 10 ms apart");
    }

    /// A second in which a pass that samples costs 3 ms (a program that loads), then usual ones.
    #[test]
    fn samples_go_on_after_a_burst_that_emptied_the_bucket() {
        let mut budget = Budget::new(1.0, 0);
        let (mut seen, mut now_ns) = (0, 0);
        while now_ns < 4 * SECOND_NS {
            now_ns = next(&budget, now_ns, Need::Usual);
            let paid_by = budget.may_sample(Need::Usual, now_ns);
            let loads = now_ns < SECOND_NS;
            seen += u32::from(paid_by != PaidBy::Nothing && !loads);
            let usual = if loads { 3_000_000 } else { 100_000 };
            budget.spend(if paid_by == PaidBy::Nothing { 30_000 } else { usual }, now_ns, paid_by);
        }
        assert!(seen > 80, "{seen} samples in 3 s");
    }

    #[test]
    fn an_overdrawn_budget_is_reported_and_recovers() {
        let mut budget = Budget::new(1.0, 0);
        let mut now_ns = 0;
        while !budget.is_overdrawn() {
            now_ns += PERIOD_NS;
            budget.spend(1_000_000, now_ns, PaidBy::Nothing);
        }
        assert!(now_ns > SECOND_NS, "savings of 150 ms come first, and 50 ms are borrowed");
        budget.spend(1_000, now_ns + SECOND_NS, PaidBy::Nothing);
        assert!(!budget.is_overdrawn());
    }

    #[test]
    fn a_freak_pass_does_not_silence_the_sampler() {
        let mut budget = Budget::new(1.0, 0);
        (1..100u64).for_each(|i| budget.spend(50_000, i * PERIOD_NS, PaidBy::Bucket));
        budget.spend(3 * SECOND_NS, SECOND_NS, PaidBy::Bucket);
        assert_eq!(budget.may_sample(Need::Slow, 2 * SECOND_NS), PaidBy::Bucket);
    }

    /// Usual passes that cost 25 us and 16 more for each thread that is sampled.
    #[test]
    fn passes_get_narrower_so_that_they_come_as_often_as_they_should() {
        let (mut budget, mut width) = (Budget::new(1.0, 0), Width::default());
        let (mut now_ns, mut passes, mut samples, mut cpu_ns) = (0, 0, 0, 0);
        while now_ns < 60 * SECOND_NS {
            now_ns = next(&budget, now_ns, Need::Usual);
            let paid_by = budget.may_sample(Need::Usual, now_ns);
            width.follow(paid_by, &budget, PERIOD_NS);
            let threads = if paid_by == PaidBy::Nothing { 0 } else { width.threads() as u64 };
            let cost_ns = 25_000 + 16_000 * threads;
            budget.spend(cost_ns, now_ns, paid_by);
            if now_ns > 30 * SECOND_NS {
                (passes, samples, cpu_ns) = (passes + 1, samples + threads, cpu_ns + cost_ns);
            }
        }
        assert!(passes > 2850, "{passes} in 30 s");
        assert!(samples > 5 * passes / 4, "{samples} in {passes} passes");
        assert!(cpu_ns < 153 * 1_000_000, "{cpu_ns} ns");
    }
}
