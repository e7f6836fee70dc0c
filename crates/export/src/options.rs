//! What a caller chooses and gets while a format is written.

/// The weight of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Value {
    /// Wall time, ns.
    #[default]
    Wall,
    /// CPU time, ns.
    Cpu,
    /// Time off the CPU, for any reason, ns.
    OffCpu,
    /// Number of samples.
    Samples,
}

/// Called with the progress of the writing: done, in all; the unit is the format's own.
pub type Progress<'p> = dyn FnMut(u64, u64) + 'p;
