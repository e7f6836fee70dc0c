//! pipe-write: what reads our output does not keep up.
//!
//! Signature: blocked in write on a pipe or terminal.
//!
//! A pipe within the process is a queue: the thread that empties it is named, and what kept it
//! (`queue_reader`).
//!
//! Quotes: which process has the other end, where /proc shows it. Sure: the call was seen and
//! switch records time it.

use analysis::resource::Resource;
use analysis::timeline::{Segment, State};
use format::wait::WaitKind;

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::Claim;
use crate::context::Context;
use crate::ended_by::holder;
use crate::ended_by::one_wait::queue_reader;

pub const RULE: Rule = Rule { id: "pipe-write", grounds: Grounds::Call, claim };
pub const ROW: Row = Row { sentence, advice: |_| ADVICE };

const ADVICE: &str = "Log through a queue to a thread of its own, write less, or make the \
     reader (log collector, terminal) keep up.";

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let writes = matches!(segment.wait(), WaitKind::PipeWrite | WaitKind::TtyWrite);
    if segment.state != State::Wait || !writes {
        return None;
    }
    let resource = segment.sample.and_then(|s| cx.target(s)).map(Resource::PipeReader);
    let within = segment.wait() == WaitKind::PipeWrite;
    let blocker = within.then(|| queue_reader::of(cx, segment)).flatten();
    let blocker = blocker.map(|c| holder::behind(cx, c, segment, false));
    Some(Claim { resource, blocker, ..Claim::of(Cause::PipeWrite, segment) })
}

fn sentence(d: &Described<'_>) -> String {
    let (place, time) = (rule::at(d.place), d.time());
    let waited = format!("{place} waited {time} to write to a pipe");
    let doing =
        d.culprit_doing.map_or_else(String::new, |doing| format!(", which {}", doing.text()));
    match d.culprit {
        Some(_) => format!("{waited}, most likely because {} kept its reader{doing}", d.blamed()),
        None => format!("{waited} nobody emptied{}", rule::resource_text(d)),
    }
}
