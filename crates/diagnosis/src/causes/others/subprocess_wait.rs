//! subprocess-wait: the request waits for a child process.
//!
//! Signature: wait4/waitid, or reading a pipe or polling inside the `subprocess` module, or reading
//! a pipe whose other end a child has. Which child it is comes from the call or the pipe at
//! sampling time.
//!
//! Quotes: the child's program. Sure: the call was seen and switch records time it.

use analysis::resource::Resource;
use analysis::timeline::Segment;
use format::wait::AwaitKind;

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::Claim;
use crate::context::Context;
use crate::facts::awaits::Awaited;
use crate::facts::children;

pub const RULE: Rule = Rule { id: "subprocess-wait", grounds: Grounds::Code, claim };
pub const ROW: Row = Row { sentence, advice: |_| ADVICE };

const ADVICE: &str =
    "Start the program ahead of time, replace it by a library, or give it a time limit.";

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let own = || Claim::of(Cause::SubprocessWait, segment);
    children::awaits_child(cx, segment)
        .then(|| Claim { resource: children::child(cx, segment).map(Resource::Child), ..own() })
}

/// Of a suspended task: `asyncio.subprocess`.
pub fn awaited(_: &Context<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let own = Claim::of_await(Cause::SubprocessWait, seen.row, segment);
    (seen.row.kind == AwaitKind::Child).then_some(own)
}

fn sentence(d: &Described<'_>) -> String {
    let what = d.resource.map_or_else(|| "a child process".to_owned(), Resource::to_string);
    format!("{} waited {} for {what}", rule::at(d.place), d.time())
}
