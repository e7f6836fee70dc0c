//! What the process's settings say to the sampler.

/// Copied by the driver of the sampler when settings change. `switches` and `stacks` hold for the
/// sampler's life.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Settings {
    /// Time between passes, ns.
    pub period_ns: u64,
    /// CPU budget, percent of one core.
    pub budget_percent: f64,
    /// Threads that a pass samples, at most.
    pub threads: usize,
    /// Switch records are wanted.
    pub switches: bool,
    /// Stacks are wanted.
    pub stacks: bool,
}

/// Why a source is off that the settings turn off.
pub const TURNED_OFF: &str = "turned off by settings";
