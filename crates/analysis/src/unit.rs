//! The units of figures that a verdict reports.

/// The unit of a figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// Nanoseconds.
    Ns,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// So many of what the figure's name says.
    Count,
    /// Threads.
    Threads,
    /// 1,024 bytes.
    KiB,
    /// A part of something, 0 to 1.
    Part,
    /// The same in hundredths.
    Percent,
    /// So many times something else.
    Times,
}

impl Unit {
    /// As documents and pages write it.
    pub const fn text(self) -> &'static str {
        match self {
            Unit::Ns => "ns",
            Unit::Us => "us",
            Unit::Ms => "ms",
            Unit::Count => "count",
            Unit::Threads => "threads",
            Unit::KiB => "KiB",
            Unit::Part => "part",
            Unit::Percent => "%",
            Unit::Times => "times",
        }
    }
}
