//! Which requests go to the collector: those past their limit, those that failed, and a share.
//!
//! The share is taken by the trace id, as W3C Trace Context level 2 and OpenTelemetry's consistent
//! probability sampling do it: the last 56 bits of the id against a threshold. So services that use
//! the same share choose the same traces.

use std::collections::HashMap;

use format::ids;
use format::record::{flag, Record};
use recorder::Limits;

/// Requests of one scan; the others are counted.
const MOST: usize = 500;
/// Trace ids of open requests that are remembered.
const MOST_KNOWN: usize = 16_384;
/// The bits of a trace id that are random by W3C's word.
const RANDOM: u64 = (1 << 56) - 1;

/// Why a request was chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Why {
    Slow = 0,
    Failed = 1,
    Share = 2,
}

impl Why {
    /// Its word in `dashcam.chosen`.
    pub(super) fn text(self) -> &'static str {
        match self {
            Why::Slow => "slow",
            Why::Failed => "failed",
            Why::Share => "share",
        }
    }
}

/// A request that goes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Chosen {
    pub id: u64,
    pub begin_ns: u64,
    pub why: Why,
}

/// Chooses among the requests that ended.
pub(super) struct Chooser {
    seed: u64,
    /// Ids below it are not taken.
    threshold: u64,
    /// Trace ids that came from outside, of requests that have not ended yet.
    known: HashMap<u64, u128>,
    /// Chosen, not asked for yet.
    pub chosen: Vec<Chosen>,
    /// Requests that ended, by reason of being chosen.
    pub counts: [u64; 3],
    /// Requests that would have been chosen, but there were too many.
    pub too_many: u64,
}

impl Chooser {
    /// `share`: part of the other requests, 0 to 1.
    pub(super) fn new(seed: u64, share: f64) -> Chooser {
        let threshold = ((1.0 - share.clamp(0.0, 1.0)) * (RANDOM + 1) as f64) as u64;
        let (known, chosen) = (HashMap::new(), Vec::new());
        Chooser { seed, threshold, known, chosen, counts: [0; 3], too_many: 0 }
    }

    fn is_share(&self, trace: u128) -> bool {
        trace as u64 & RANDOM >= self.threshold
    }

    /// To be called with every new record.
    pub(super) fn see(&mut self, limits: &Limits, record: &Record<'_>) {
        match record {
            Record::Trace(trace, _) if !trace.of_span && trace.trace != 0 => {
                // A program that never ends its requests: their share is taken by the derived id.
                if self.known.len() >= MOST_KNOWN {
                    self.known.clear();
                }
                self.known.insert(trace.request, trace.trace);
            }
            Record::RequestEnd { name, flags, begin_ns, end_ns, request, .. } => {
                let trace = self.known.remove(request);
                let trace = trace.unwrap_or_else(|| ids::trace_id(self.seed, *request));
                let took_ns = end_ns.saturating_sub(*begin_ns);
                let why = match () {
                    () if took_ns >= limits.limit_ns(*name) => Why::Slow,
                    () if flags & flag::ERROR != 0 => Why::Failed,
                    () if self.is_share(trace) => Why::Share,
                    () => return,
                };
                if self.chosen.len() >= MOST {
                    self.too_many += 1;
                    return;
                }
                self.counts[why as usize] += 1;
                self.chosen.push(Chosen { id: *request, begin_ns: *begin_ns, why });
            }
            _ => (),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_that_share_and_the_same_for_the_same_id() {
        for (share, low, high) in [(0.0, 0, 0), (0.01, 850, 1150), (1.0, 100_000, 100_000)] {
            let chooser = Chooser::new(5, share);
            let taken = (0..100_000).filter(|r| chooser.is_share(ids::trace_id(5, *r))).count();
            assert!((low..=high).contains(&taken), "{taken} of 100,000 at {share}");
        }
        let (small, large) = (Chooser::new(1, 0.1), Chooser::new(2, 0.5));
        let trace = |r| ids::trace_id(9, r);
        assert!((0..1000).all(|r| !small.is_share(trace(r)) || large.is_share(trace(r))));
    }
}
