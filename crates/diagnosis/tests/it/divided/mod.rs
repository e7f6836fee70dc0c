//! How a request's time is divided, as tests compare it.

use analysis::requests::Judged;
use capture::read::Capture;
use diagnosis::{Cause, CriticalPaths};

/// Begin, end and cause of each slice of a request's critical path.
pub fn divided(capture: &Capture, id: u64) -> Vec<(u64, u64, Cause)> {
    let row = capture.requests.iter().find(|row| row.id == id).expect("a request of that id");
    let end_ns = row.end_ns.unwrap_or(capture.meta.to_ns);
    let slices = CriticalPaths::new(capture).of(&Judged { row, end_ns });
    slices.iter().map(|s| (s.segment.from_ns, s.segment.to_ns, s.claim.cause)).collect()
}
