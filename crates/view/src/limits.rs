//! How much one page may hold: what bounds the choice, and what `page` lowers until it fits.

/// How much a page may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Slow requests with a timeline; the slowest ones.
    pub slow: usize,
    /// Of these, the slowest, for which the states of all threads are kept.
    pub whole: usize,
    /// Normal requests with a timeline, for comparison.
    pub normal: usize,
    /// Requests in the scatter plot; the slow ones first, then every n-th.
    pub dots: usize,
    /// Size of the data in the page, bytes. The number of requests is reduced until it fits.
    pub bytes: usize,
}

impl Default for Limits {
    fn default() -> Limits {
        Limits { slow: 200, whole: 10, normal: 60, dots: 20_000, bytes: 8 << 20 }
    }
}
