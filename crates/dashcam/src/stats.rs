//! What the sampler and the keeper count of themselves, as `status` and captures tell it.

use std::sync::atomic::{AtomicU64, Ordering};

use format::json::Object;

/// Running figures of the sampler; relaxed counters.
#[derive(Default)]
pub(crate) struct Stats {
    pub passes: AtomicU64,
    pub samples: AtomicU64,
    pub cpu_ns: AtomicU64,
    pub longest_pass_ns: AtomicU64,
    pub capture_ns: AtomicU64,
    pub captures: AtomicU64,
}

impl Stats {
    /// `budget_used` is the part of the CPU budget that was spent since the start.
    pub(crate) fn json(&self, since_ns: u64, budget_percent: f64) -> String {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let wall = sys::clock::now_ns().saturating_sub(since_ns).max(1);
        let cpu_percent = get(&self.cpu_ns) as f64 * 100.0 / wall as f64;
        Object::new()
            .int("passes", get(&self.passes))
            .int("samples", get(&self.samples))
            .int("cpu_ns", get(&self.cpu_ns))
            .number("cpu_percent", cpu_percent)
            .number("budget_used", cpu_percent / budget_percent)
            .int("longest_pass_ns", get(&self.longest_pass_ns))
            .int("last_capture_ns", get(&self.capture_ns))
            .finish()
    }
}
