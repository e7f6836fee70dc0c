//! What a reader of an export must know about the capture: which sources were off, what is missing,
//! what is an estimate. One line each; every format writes them where it allows comments.

use analysis::states::Threads;
use format::source::SourceState;

/// The lines.
pub fn of(threads: &Threads<'_>) -> Vec<String> {
    let capture = threads.capture;
    let meta = &capture.meta;
    let mut out = vec![format!(
        "dashcam capture of {} on {}, pid {}, {}",
        meta.service, meta.host, meta.pid, meta.runtime
    )];
    out.push(format!("saved because: {}", meta.reason));
    let seconds = |from_ns: u64| meta.to_ns.saturating_sub(from_ns) as f64 / 1e9;
    out.push(format!(
        "covers {:.3} s; all threads are complete for the last {:.3} s",
        seconds(meta.from_ns),
        seconds(capture.common_horizon_ns().max(meta.from_ns))
    ));
    let off = meta.source_states().filter(|(_, state, _)| *state != SourceState::On);
    out.extend(off.map(|(name, _, text)| format!("source {name} is {text}")));
    out.push(off_cpu(threads));
    let lost = meta.losses.iter().filter(|(_, count)| *count > 0);
    out.extend(lost.map(|(name, count)| format!("loss {name}: {count}")));
    let missing = |c: &capture::read::Coverage| {
        c.missing_before.saturating_add(c.missing_between).saturating_add(c.missing_after)
    };
    let missing = capture.coverage.iter().map(missing).fold(0, u64::saturating_add);
    if missing > 0 {
        out.push(format!("records missing, overwritten or outside of the window: {missing}"));
    }
    if capture.torn_blocks > 0 {
        let torn = capture.torn_blocks;
        out.push(format!("blocks overwritten while they were copied: {torn}"));
    }
    out.extend(capture.damage.iter().map(|what| format!("damage: {what}")));
    // A note is one line, whatever the host's name is.
    out.iter().map(|line| line.replace(|c: char| c.is_control(), " ")).collect()
}

fn off_cpu(threads: &Threads<'_>) -> String {
    let sampled = threads.capture.samples.iter().filter(|(_, samples)| !samples.is_empty());
    let (exact, estimated): (Vec<u32>, Vec<u32>) =
        sampled.map(|(tid, _)| *tid).partition(|tid| threads.is_exact(*tid));
    let how = "the stack is the one sampled in or nearest to each interval";
    match (exact.len(), estimated.len()) {
        (0, 0) => "off-cpu: nothing sampled".to_owned(),
        (_, 0) => format!("off-cpu: exact, from switch records; {how}"),
        (0, _) => "off-cpu: an estimate (wall - cpu of each sample); no switch records".to_owned(),
        (_, n) => format!(
            "off-cpu: exact, from switch records; {how}; but an estimate (wall - cpu of each \
             sample) for {n} threads without switch records"
        ),
    }
}
