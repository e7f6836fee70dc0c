//! The waker of a group's longest wait, where the kernel recorded it.

use format::wake::Waker;

use crate::cause::Cause;
use crate::context::Scene;
use crate::finding::Evidence;
use crate::groups::{blame, Group};

/// The waker of the longest wait of a group, and when, where that was recorded.
pub fn evidence(scene: &Scene<'_>, group: &Group<'_>) -> Option<Evidence> {
    if !matches!(blame::waits(scene, group), Cause::LockWait | Cause::PoolWait) {
        return None;
    }
    let waits = group.pieces.iter().map(|p| &p.piece.segment);
    let told = waits.filter_map(|segment| {
        let off = scene.off_around(segment)?;
        let wake = scene.capture.wake_in(segment.tid, off)?;
        Some((segment.ns(), segment.tid, wake, scene.capture.waker_stack_in(segment.tid, off)))
    });
    let (_, _, wake, stack) = told.max_by_key(|(ns, tid, wake, _)| (*ns, *tid, wake.t_ns))?;
    let place = scene.frames.innermost_user(stack).filter(|place| !place.is_an_address());
    let place = place.map_or_else(String::new, |place| format!(" in {}", place.short()));
    let who = match wake.by {
        Waker::Thread(tid) => match scene.capture.thread_name(tid) {
            Some(name) => format!("thread {name} ({tid})"),
            None => format!("thread {tid}"),
        },
        Waker::Process(pid) => format!("another process ({pid})"),
        Waker::Kernel => "the kernel (a timer, a device or the network)".to_owned(),
    };
    let since_ns = wake.t_ns.saturating_sub(scene.capture.meta.from_ns);
    let what = format!("the longest wait was ended by {who}{place}, at this time of the capture");
    Some(Evidence { what, value: (since_ns as f64 / 1e4).round() / 100.0, unit: "ms" })
}
