//! Which times of a capture a verdict rests on, for a reader that keeps only these.
//!
//! How it works: the slowest requests and the normal ones beside which they are judged, each with
//! some time around it. Slow and normal ones take turns, so that both are there if few fit.
//!
//! What it promises: the requests are those that `judged` takes. What is missing on purpose: times
//! far from every request, by which a rule may learn what a thread usually does: of a capture that
//! is not read in whole less is known, and never something else.

use analysis::requests::{Judged, Requests};
use analysis::thresholds;
use capture::read::{Capture, Wish};

/// Control requests that are considered.
pub(crate) const CONTROLS_MAX: usize = 200;
/// Slow requests that are considered; the slowest.
pub(crate) const SLOW_MAX: usize = 200;
/// The times that `diagnose` examines of a capture of which only the requests are read, the most
/// important first.
pub fn wanted(capture: &Capture, limit_ns: impl Fn(&str) -> u64) -> Vec<Wish> {
    let requests = Requests::divide(capture, limit_ns);
    // Behind each, and around a normal one: samples that belong to its last state.
    let near_ns = thresholds::sample_near_ns();
    let around = |request: &Judged<'_>, before_ns: u64| Wish {
        request: request.row.id,
        from_ns: request.row.begin_ns.saturating_sub(before_ns),
        to_ns: request.end_ns.saturating_add(near_ns),
    };
    // Before a slow request: what occupied its worker, and what its holder had begun.
    let slow = requests.slow.iter().take(SLOW_MAX).map(|r| around(r, thresholds::stale_ns()));
    let controls = requests.controls(CONTROLS_MAX);
    let mut controls = spread(&controls).map(|r| around(r, near_ns));
    let mut wishes = Vec::with_capacity(SLOW_MAX + CONTROLS_MAX);
    for wish in slow {
        wishes.push(wish);
        wishes.extend(controls.next());
    }
    // Without a slow request there is nothing to judge.
    if !wishes.is_empty() {
        wishes.extend(controls);
    }
    wishes
}

/// The same requests, so that the first few of them are spread over all, too.
fn spread<'r, 'c>(all: &'r [Judged<'c>]) -> impl Iterator<Item = &'r Judged<'c>> {
    let bits = usize::BITS - all.len().max(1).next_power_of_two().trailing_zeros();
    let places = 0..all.len().next_power_of_two();
    places.filter_map(move |at| all.get(at.reverse_bits().checked_shr(bits).unwrap_or(0)))
}

#[cfg(test)]
mod tests {
    use capture::read::RequestRow;

    use super::*;

    #[test]
    fn spreading_keeps_every_request_once_and_begins_everywhere() {
        let row = |id| RequestRow {
            id,
            name: 0,
            tid: 1,
            begin_ns: id,
            started_ns: id,
            end_ns: Some(id),
            ended_tid: 1,
            error: false,
            on_loop: false,
            times: 1,
            attributes: Vec::new(),
        };
        for count in [0, 1, 2, 3, 7, 8, 100] {
            let rows: Vec<RequestRow> = (0..count).map(row).collect();
            let all: Vec<Judged<'_>> = rows.iter().map(|row| Judged { row, end_ns: 0 }).collect();
            let mut ids: Vec<u64> = spread(&all).map(|r| r.row.id).collect();
            if count == 100 {
                assert_eq!(ids[..4], [0, 64, 32, 96]);
            }
            ids.sort_unstable();
            assert!(ids.iter().copied().eq(0..count), "{count}: {ids:?}");
        }
    }
}
