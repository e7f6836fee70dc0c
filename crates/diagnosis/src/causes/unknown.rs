//! unknown: what no rule claims. Said, not hidden; the place is where most of it was seen.
//!
//! Signature: none. Quotes: the stacks that most of it passed in (`unexplained`). Never surer than
//! *possible*.

use analysis::resource::Resource;
use analysis::timeline::{Segment, State};
use format::wait::WaitKind;

use super::rule;
use crate::causes::rule::{Described, Row};
use crate::context::Context;

pub const ROW: Row = Row { sentence, advice };

const ADVICE: &str = "Run with more sources (`dashcam doctor`, see \"missing\"), or look at \
     the stacks in `dashcam show`.";

/// Of a suspended task of Rust's: spans around what it awaits say where the time passes.
const ADVICE_NATIVE: &str =
    "Put a span (tracing's, or dashcam's) around each call that the handler awaits, to see which one \
     takes the time; and look at what other tasks and peers did meanwhile.";

fn advice(d: &Described<'_>) -> &'static str {
    match d.resource {
        Some(Resource::NativeAwait { .. }) => ADVICE_NATIVE,
        _ => ADVICE,
    }
}

/// The system call that a thread sat in for which there is no rule: its name, or what its
/// descriptor is.
pub fn resource(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Resource> {
    let sits = segment.state == State::Wait && segment.wait() == WaitKind::Other;
    let name = segment.sample.filter(|_| sits).and_then(|sample| cx.target(sample));
    name.map(Resource::SystemCall)
}

fn sentence(d: &Described<'_>) -> String {
    let time = d.time();
    if let Some(Resource::NativeAwait { span }) = d.resource {
        let inside = span.as_ref().map_or_else(String::new, |name| format!(" in span {name}"));
        let unread = "what a task of this runtime awaits is not recorded";
        return format!("requests were suspended for {time}{inside}; {unread}");
    }
    match d.place {
        place if d.resource == Some(&Resource::ShortRuns) => format!(
            "{} got no CPU for {time} between runs of microseconds: it gave it away itself (a loop \
             that yields, a lock that spins), or others took it at once",
            rule::at(place)
        ),
        Some(place) => {
            let call = d.resource.map_or_else(String::new, |r| format!(", in a system call: {r}"));
            format!("{time} could not be explained; most of it passed in {}{call}", place.short())
        }
        None => format!("{time} could not be explained: nothing was seen of it"),
    }
}
