//! The waker of a group's longest wait, where the kernel recorded it.

use analysis::unit::Unit;
use format::wake::Waker;

use crate::cause::Cause;
use crate::context::Context;
use crate::finding::Evidence;
use crate::groups::{blame, Group};

/// The waker of the longest wait of a group, and when, where that was recorded.
pub fn evidence(cx: &Context<'_>, group: &Group<'_>) -> Option<Evidence> {
    if !matches!(blame::waits(cx, group), Cause::LockWait | Cause::PoolWait) {
        return None;
    }
    let waits = group.slices.iter().map(|p| &p.slice.segment);
    let recorded = waits.filter_map(|segment| {
        let off = cx.off_around(segment)?;
        let wake = cx.capture.wake_in(segment.tid, off)?;
        Some((segment.ns(), segment.tid, wake, cx.capture.waker_stack_in(segment.tid, off)))
    });
    let (_, _, wake, stack) = recorded.max_by_key(|(ns, tid, wake, _)| (*ns, *tid, wake.t_ns))?;
    let place = cx.frames.innermost_user(stack).filter(|place| !place.is_an_address());
    let place = place.map_or_else(String::new, |place| format!(" in {}", place.short()));
    let waker = match wake.by {
        Waker::Thread(tid) => match cx.capture.thread_name(tid) {
            Some(name) => format!("thread {name} ({tid})"),
            None => format!("thread {tid}"),
        },
        Waker::Process(pid) => format!("another process ({pid})"),
        Waker::Kernel => "the kernel (a timer, a device or the network)".to_owned(),
    };
    let since_ns = wake.t_ns.saturating_sub(cx.capture.meta.from_ns);
    let what = format!("the longest wait was ended by {waker}{place}, at this time of the capture");
    Some(Evidence { what, value: (since_ns as f64 / 1e4).round() / 100.0, unit: Unit::Ms })
}
