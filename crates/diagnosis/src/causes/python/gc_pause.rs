//! gc-pause: the cyclic garbage collector ran, on the request's thread or on one that held the GIL
//! meanwhile.
//!
//! Signature: begin and end of the collection come from the interpreter's own callbacks, so the
//! time is exact; the thread it ran on and where its allocation came from are known. The part of it
//! in which that thread got no CPU is not the collector's.
//!
//! Quotes: the collections' time. Sure: the interpreter's callbacks record begin and end, and on
//! which thread.

use analysis::timeline::{Segment, State};
use format::wait::WaitKind;

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::{Blocker, Claim};
use crate::context::Context;
use crate::explain::Inference;
use crate::facts::long_work;

pub const RULE: Rule = Rule { id: "gc-pause", grounds: Grounds::Collection, claim };
pub const ROW: Row = Row { sentence, advice: |_| ADVICE };

const ADVICE: &str = "Keep long-lived objects out of the collector (gc.freeze() after start-up), \
     collect between requests, or raise the threshold of generation 2.";

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let gc = cx.gc_over(segment.from_ns, segment.to_ns)?;
    let on_own_thread = gc.tid == segment.tid;
    let waits =
        segment.state == State::Wait && matches!(segment.wait(), WaitKind::Gil | WaitKind::Unknown);
    // If the collector's thread is runnable without a CPU, the collector does not take the time,
    // nor does it for a thread that waits for that thread.
    let collects = on_own_thread && segment.state != State::Ready;
    if !collects && !(waits && (on_own_thread || !long_work::starves(cx, gc.tid, segment))) {
        return None;
    }
    let stack = cx.main_stack(gc.tid, gc.begin_ns, gc.end_ns);
    let blocker =
        (!on_own_thread).then_some(Blocker::thread(gc.tid, stack, true, Inference::GcRecord));
    let stack = if on_own_thread && stack != 0 { stack } else { segment.stack() };
    // The collector's own callbacks saw it, sample or not.
    Some(Claim { stack, blocker, seen: true, ..Claim::of(Cause::GcPause, segment) })
}

fn sentence(d: &Described<'_>) -> String {
    let pause = format!("the garbage collector ran for {}", d.time());
    match d.culprit {
        None => format!("{pause} at {}", rule::at(d.place)),
        Some(blocker) => {
            let waiter = d.place.filter(|place| *place != blocker);
            let waiter =
                waiter.map_or_else(String::new, |place| format!("; {} waited", place.short()));
            let thread = d.culprit_thread.unwrap_or("?");
            format!("{pause} on thread {thread} at {} and kept the GIL{waiter}", blocker.short())
        }
    }
}
