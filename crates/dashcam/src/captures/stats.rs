//! What the sampler and `dashcam-capture` count of themselves, as `status` and captures report it.

use std::sync::atomic::{AtomicU64, Ordering};

use format::json::Object;
use sampler::Figures;

use crate::captures::queue::Queue;

/// `budget_used` is the part of the CPU budget that was spent since `since_ns`.
pub(crate) fn json(sampler: &Figures, queue: &Queue, since_ns: u64, budget_percent: f64) -> String {
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let wall = sys::clock::now_ns().saturating_sub(since_ns).max(1);
    let cpu_percent = get(&sampler.cpu_ns) as f64 * 100.0 / wall as f64;
    Object::new()
        .int("passes", get(&sampler.passes))
        .int("samples", get(&sampler.samples))
        .int("cpu_ns", get(&sampler.cpu_ns))
        .number("cpu_percent", cpu_percent)
        .number("budget_used", cpu_percent / budget_percent)
        .int("longest_pass_ns", get(&sampler.longest_pass_ns))
        .int("last_capture_ns", get(&queue.last_took_ns))
        .finish()
}
