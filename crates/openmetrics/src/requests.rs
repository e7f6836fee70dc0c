//! Times of requests, as the program's recorder hands them over when a client comes.
//!
//! They are no window of metrics: the recorder has the histogram since its start, and each bucket
//! may name an example request. Plain data, filled by the caller, written by `text`.

/// Times of the requests of one name, since the start.
#[derive(Clone, Debug, Default)]
pub struct RequestTimes {
    /// The request's name.
    pub name: String,
    /// Requests by duration: at most the bound of the same index in `bounds_ns`, and longer than
    /// the bound before; the last: longer than all bounds.
    pub counts: Vec<u64>,
    /// Upper bounds, ns; one fewer than counts.
    pub bounds_ns: &'static [u64],
    /// Sum of all durations, ns.
    pub sum_ns: u64,
    /// The slowest recent request of each bucket, if there is one.
    pub exemplars: Vec<Option<Exemplar>>,
}

/// A request that is the example of its bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Exemplar {
    /// Its id, as in captures.
    pub request: u64,
    /// Its trace id; 0: not known.
    pub trace: u128,
    /// Name of the capture's file that contains it; empty: none does.
    pub capture: String,
    /// How long it took, ns.
    pub took_ns: u64,
    /// Its end, ns since the epoch.
    pub at_epoch_ns: u64,
}
