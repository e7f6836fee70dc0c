//! A capture and its verdict as ONE self-contained HTML page.
//!
//! How it works: the requests that matter (`choice`) are divided into segments by the diagnosis,
//! the threads they waited for are followed (`detail`), and the states of these threads are kept
//! for the windows around the requests only (`windows`). What these requests recorded was taken
//! from the parts of the capture (`recorded`). All of it becomes columns of whole numbers beside
//! tables of names, frames and stacks (`intern`, `json`), deflated and in base64, which is put into
//! the page that `viewer/` builds (`html`; viewer/dist/page.html is part of this crate).
//!
//! What it promises: the page asks no network for anything; nothing in a capture can become markup
//! or script: text is escaped, and data is base64; the page remains below `Limits::bytes` by
//! keeping fewer requests, and lists what it leaves out. It is a pure function of its input. Cost:
//! a few times that of the verdict; memory for the chosen windows. Missing on purpose: everything
//! outside of the windows. The page is for reading, not an archive.

mod choice;
mod detail;
mod html;
mod intern;
mod json;
mod limits;
mod recorded;
mod whole;
mod windows;

use std::collections::HashSet;

use analysis::requests::Requests;
use capture::read::Capture;
use diagnosis::Diagnosis;

use choice::Chosen;
pub use limits::Limits;
pub use recorded::Recorded;

/// The ids of the requests with a timeline: `Recorded` is to have theirs.
pub fn timelines(
    capture: &Capture,
    limit_ns: &dyn Fn(&str) -> u64,
    limits: Limits,
) -> HashSet<u64> {
    let (slow, normal) = choice::with_timeline(&Requests::divide(capture, limit_ns), limits);
    slow.iter().chain(&normal).map(|request| request.row.id).collect()
}

/// The page of a capture, which may have been read for its verdict only; what its requests recorded
/// is in `recorded`. `file` is its path as shown to the user; `limit_ns` is the time that a
/// request of a name may take, the same as in `diagnosis`.
pub fn page(
    capture: &Capture,
    recorded: &Recorded,
    diagnosis: &Diagnosis<'_>,
    file: &str,
    limit_ns: &dyn Fn(&str) -> u64,
    limits: Limits,
) -> String {
    let mut limits = limits;
    loop {
        let chosen = Chosen::of(capture, limit_ns, limits);
        let packed = html::pack(&whole::data(&chosen, recorded, diagnosis, file));
        let least = limits.slow <= 1 && limits.normal == 0 && limits.dots <= 100;
        if packed.len() <= limits.bytes || least {
            let title = format!("{} - dashcam", capture.meta.service);
            return html::fill(&title, &report::to_text(diagnosis), &packed);
        }
        if limits.whole > 0 {
            // Threads that the requests had nothing to do with are missed least.
            limits.whole = 0;
            continue;
        }
        limits.slow = (limits.slow / 2).max(1);
        limits.normal /= 2;
        // Dots are cheap: they are reduced last.
        limits.dots = if limits.slow <= 10 { limits.dots / 2 } else { limits.dots };
    }
}
