//! gil-wait: the request's thread could run Python but another thread kept the interpreter's lock.
//!
//! Signature: futex wait on the GIL's own condition variable (timed waits of 5 ms, so many short
//! ones in a row). The holder is read from the interpreter at each sample. A holder that was
//! runnable without a CPU most of the time makes it cpu-starved, unless its work is long by itself
//! (`contention`).
//!
//! Quotes: the holder, its function and thread. Sure: most samples of the wait read the holder;
//! unsure: no holder was read.

use analysis::timeline::{Segment, State};
use format::wait::WaitKind;

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::Claim;
use crate::context::Context;
use crate::ended_by::read::gil;
use crate::facts::long_work;

pub const RULE: Rule = Rule { id: "gil-wait", grounds: Grounds::Call, claim };
pub const ROW: Row = Row { sentence, advice: |_| ADVICE };

const ADVICE: &str = "Move the long computation to another process, cut it into pieces, or use \
     a library that releases the GIL while it works.";

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    if segment.state != State::Wait || segment.wait() != WaitKind::Gil {
        return None;
    }
    let blocker = gil::holder(cx, segment);
    let inferred = blocker.filter(|c| !c.measured);
    let starves = inferred.is_some_and(|c| long_work::starves(cx, c.tid, segment));
    if starves || gil::holder_starves(cx, segment) {
        // The holder wanted to run and got no CPU: everybody waits for the CPU, not for the GIL.
        return Some(Claim { seen: segment.exact, ..Claim::of(Cause::CpuStarved, segment) });
    }
    Some(Claim { blocker, ..Claim::of(Cause::GilWait, segment) })
}

fn sentence(d: &Described<'_>) -> String {
    let waiter = if d.is_nowhere { "requests".to_owned() } else { rule::at(d.place) };
    let waited = format!("{waiter} waited {} for the GIL", d.time());
    match (d.culprit, d.culprit_threads) {
        (None, _) => format!("{waited}; no sample saw the holder"),
        (Some(blocker), 0 | 1) => {
            let thread = d.culprit_thread.unwrap_or("another thread");
            format!("{waited}, held by {} in thread {thread}", blocker.short())
        }
        (Some(blocker), n) => format!("{waited}, held by {} in {n} threads", blocker.short()),
    }
}
