//! What dashcam itself cost while the slow requests ran: it is a suspect like any other.
//!
//! How it works: the sampler says what CPU time it took, which is spread evenly over the time the
//! capture covers; when the others of dashcam's threads ran is in the kernel's switch records. What
//! is missing on purpose: what recording takes within the program's own threads, and the kernel's
//! part in it.

use analysis::index::is_of_the_recorder;
use analysis::requests::Judged;
use analysis::timeline::overlap_ns;
use capture::read::Capture;
use format::metric::Numbers;

use crate::context::Context;

const CPU_SECONDS: &str = "dashcam.sampler.cpu_seconds";

/// Mean CPU time of dashcam's threads while a slow request ran, ms. None where nothing measures it.
pub fn mean_ms(cx: &Context<'_>, slow: &[Judged<'_>]) -> Option<f64> {
    let whole_ns: u64 = slow.iter().map(Judged::ns).sum();
    let sampler_ns = reported(cx.capture)? * whole_ns as f64;
    Some((sampler_ns + ran_ns(cx, slow) as f64) / 1e6 / slow.len().max(1) as f64)
}

/// Between two times off the CPU a thread ran; in front of its first and behind its last one
/// nothing is known.
fn ran_ns(cx: &Context<'_>, slow: &[Judged<'_>]) -> u64 {
    let off_cpu = cx.capture.off_cpu.iter();
    let threads = off_cpu.filter(|(tid, _)| is_of_the_recorder(cx.capture, **tid));
    let runs = threads.flat_map(|(_, off)| off.windows(2).map(|w| (w[0].in_ns, w[1].out_ns)));
    let inside = |(from, to): (u64, u64)| -> u64 {
        let part = |r: &Judged<'_>| overlap_ns((from, to), (r.row.begin_ns, r.end_ns));
        slow.iter().map(part).sum()
    };
    runs.map(inside).sum()
}

/// The part of a core that the sampler says it took.
fn reported(capture: &Capture) -> Option<f64> {
    let own = capture.metrics.iter().filter(|row| capture.name(row.name) == CPU_SECONDS);
    let counts = own.map(|row| match row.numbers {
        Numbers::Count(n) => n,
        _ => 0.0,
    });
    let (seconds, ns) =
        (counts.sum::<f64>(), capture.meta.to_ns - capture.meta.from_ns.min(capture.meta.to_ns));
    (seconds > 0.0 && ns > 0).then_some(seconds * 1e9 / ns as f64)
}
