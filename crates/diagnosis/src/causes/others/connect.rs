//! connect: a connection is being set up and the peer does not answer.
//!
//! Signature: connect(), or poll for writing on a socket that has no peer yet.
//!
//! Quotes: the peer's address. Sure: the call was seen and switch records time it; unsure: without
//! these, or where an event loop connects, whose samples are apart.

use analysis::resource::Resource;
use analysis::timeline::{Segment, State};
use format::wait::{AwaitKind, WaitKind};

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::Claim;
use crate::context::Context;
use crate::facts::awaits::{self, Awaited};

pub const RULE: Rule = Rule { id: "connect", grounds: Grounds::Call, claim };
pub const ROW: Row = Row { sentence, advice: |_| ADVICE };

const ADVICE: &str =
    "Check the peer's accept queue and the network; keep connections open; set a connect time limit.";

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    if segment.state != State::Wait || segment.wait() != WaitKind::Connect {
        return None;
    }
    let resource =
        segment.sample.and_then(|s| cx.target(s)).map(|name| Resource::peer(name, false));
    Some(Claim { resource, ..Claim::of(Cause::Connect, segment) })
}

/// Of a suspended task: `create_connection` and the like.
pub fn awaited(cx: &Context<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let own = Claim::of_await(Cause::Connect, seen.row, segment);
    let resource = awaits::target(cx, seen.row).map(|name| Resource::peer(name, false));
    (seen.row.kind == AwaitKind::Connect).then_some(Claim { resource, ..own })
}

fn sentence(d: &Described<'_>) -> String {
    let (place, time) = (rule::at(d.place), d.time());
    format!("{place} waited {time} for a connection to be set up{}", rule::resource_text(d))
}
