//! recorder: dashcam itself took the CPU, or the thread.
//!
//! Signature: the thread was runnable without a CPU while a thread of the recorder's wrote a
//! capture; or it was inside the predicate that the program gave dashcam (`when=`), which is asked
//! at the end of each request, before the thread takes up the next one. Both by the spans that
//! dashcam leaves.
//!
//! Quotes: the time that dashcam's spans took. Sure: they do for over half of the wait. What its
//! threads ran otherwise is reported with every verdict (`own_cost`).

use analysis::resource::Resource;
use analysis::timeline::{Segment, State};

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::Claim;
use crate::context::Context;

pub const RULE: Rule = Rule { id: "recorder", grounds: Grounds::Recorder, claim };
pub const ROW: Row = Row { sentence, advice };

const ADVICE: &str = "Captures are written too often or too large for this machine: a longer \
     cooldown, a smaller memory; please report it.";

const ADVICE_PREDICATE: &str =
    "Let the predicate compare what it is given, which costs microseconds: \
     no I/O, no lock, no long work; or choose requests by slow= and on_error=.";

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    if cx.predicate_ns(segment) * 2 > segment.ns() {
        return Some(in_predicate(segment));
    }
    let took = segment.state == State::Ready
        && cx.recorder_ns(segment.from_ns, segment.to_ns) * 2 > segment.ns();
    took.then(|| Claim { seen: segment.exact, ..Claim::of(Cause::Recorder, segment) })
}

/// A claim for time in which a thread was inside the predicate.
pub fn in_predicate(segment: &Segment<'_>) -> Claim {
    let resource = Some(Resource::Predicate);
    Claim { resource, ..Claim::of(Cause::Recorder, segment) }
}

/// Of a predicate it is what it does that counts.
fn advice(d: &Described<'_>) -> &'static str {
    match d.resource {
        Some(Resource::Predicate) => ADVICE_PREDICATE,
        _ => ADVICE,
    }
}

fn sentence(d: &Described<'_>) -> String {
    let (at, time) = (rule::at(d.place), d.time());
    match d.resource {
        Some(predicate @ Resource::Predicate) => {
            format!("{at}, in {predicate} that dashcam asks at each request's end, took {time}")
        }
        _ => format!("{at} had no CPU for {time} while dashcam wrote a capture"),
    }
}
