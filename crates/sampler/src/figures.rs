//! What the sampler counts of itself.

use std::sync::atomic::AtomicU64;

/// Written by the sampler's thread, read by `status` and by the windows of metrics. Relaxed: sums
/// that order nothing else.
#[derive(Debug, Default)]
pub struct Figures {
    /// Passes made.
    pub passes: AtomicU64,
    /// Samples of threads and tasks written.
    pub samples: AtomicU64,
    /// CPU time spent, with what others spent for the sampler.
    pub cpu_ns: AtomicU64,
    /// CPU time of the longest pass.
    pub longest_pass_ns: AtomicU64,
}
