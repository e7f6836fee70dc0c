//! The slices of a request's critical path do not overlap, leave no gap and sum to its time, in
//! every golden capture.

use std::path::PathBuf;

use analysis::requests::Judged;
use capture::read::{Capture, Wanted};
use diagnosis::CriticalPaths;
use golden::store;

/// Requests of a capture that are divided: the longest, and others spread over it.
const REQUESTS_MAX: usize = 4;

#[test]
fn slices_follow_each_other_from_begin_to_end() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures");
    let (mut divided, mut wrong) = (0, Vec::new());
    for entry in store::entries(&folder, "*").expect("descriptions are right") {
        let bytes = entry.capture().expect("unpacks");
        let Ok(capture) = Capture::parse_for(&bytes, Wanted::Causes) else { continue };
        let end = |end_ns: Option<u64>| end_ns.unwrap_or(capture.meta.to_ns);
        let mut rows: Vec<_> = capture.requests.iter().filter(|r| r.begin_ns != 0).collect();
        rows.sort_by_key(|r| std::cmp::Reverse(end(r.end_ns).saturating_sub(r.begin_ns)));
        let step = rows.len().div_ceil(REQUESTS_MAX).max(1);
        let paths = CriticalPaths::new(&capture);
        for row in rows.into_iter().step_by(step) {
            let end_ns = end(row.end_ns).max(row.begin_ns);
            let slices = paths.of(&Judged { row, end_ns });
            let slices = slices.iter().map(|s| (s.segment.from_ns, s.segment.to_ns, s.claim.cause));
            let slices: Vec<_> = slices.collect();
            let mut at = row.begin_ns;
            let follows = slices.iter().all(|(from_ns, to_ns, _)| {
                let next = *from_ns == at && to_ns >= from_ns;
                at = *to_ns;
                next
            });
            if !follows || at != end_ns {
                wrong.push(format!("{}: request {}: {slices:?}", entry.name, row.id));
            }
            divided += 1;
        }
    }
    assert!(wrong.is_empty(), "{} of {divided} wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(divided > 500, "only {divided} requests were there to divide");
}
