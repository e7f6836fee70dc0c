//! downstream-wait: the request waits for another process's answer.
//!
//! Signature: read or write on a socket or pipe, or poll on descriptors; the peer's address comes
//! from the descriptor at sampling time. Also a wait with a time limit in a library's call in which
//! another thread polls: that one polls for both.
//!
//! Quotes: the peer, calls in a loop. Sure: the call was seen and switch records time it; unsure:
//! what an event loop of the thread's own awaited, or a task's await between two samples.

use analysis::frames::Owner;
use analysis::resource::Resource;
use analysis::signatures;
use analysis::thresholds;
use analysis::timeline::{Segment, State};
use format::wait::{AwaitKind, WaitKind};

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::locks::lock_wait;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::Claim;
use crate::context::Context;
use crate::facts::awaits::{self, Awaited};
use crate::facts::waiting;

pub const RULE: Rule = Rule { id: "downstream-wait", grounds: Grounds::Call, claim };
pub const ROW: Row = Row { sentence, advice };

const ADVICE: &str =
    "Look at the peer at this time; give the call a time limit, and a cache or a fallback.";

const ADVICE_CLIENT: &str =
    "The client sends or takes its data slowly: let a proxy in front of the service buffer it, and \
     give it a time limit.";

/// Of a call that waits until another client of the peer puts something there.
const ADVICE_ITEM: &str =
    "The peer answers when somebody puts what is waited for: look at who is to put it, and whether \
     workers are free for that (tasks that wait for tasks may have them all); the peer is not slow.";

/// Of a client that is slow it is not the peer's time limit that helps.
fn advice(d: &Described<'_>) -> &'static str {
    match d.resource {
        Some(Resource::Peer { is_client: true, .. }) => ADVICE_CLIENT,
        _ if d.call.is_some_and(waits_for_an_item) => ADVICE_ITEM,
        _ => ADVICE,
    }
}

/// Whether a command of Redis waits for an item that another client puts, or for a message.
fn waits_for_an_item(call: &str) -> bool {
    signatures::REDIS_WAITS.contains(&call)
}

/// Whether a thread waits in an event loop of its own: which of its tasks waited, and for what, was
/// not read.
pub fn is_a_loops(resource: Option<&Resource>) -> bool {
    matches!(resource, Some(Resource::EventLoop(_)))
}

/// The peer, and whether it is the request's client: the package whose code uses the socket is the
/// server's.
fn peer(cx: &Context<'_>, stack: u32, target: Option<String>) -> Option<Resource> {
    let frames = cx.frames.of(stack).filter(|f| !f.native);
    let inner = frames.take_while(|f| cx.frames.owner(f.file) != Owner::User);
    let mut packages = inner.filter_map(|f| Some((cx.frames.package(f.file)?, f))).peekable();
    let uses_it = packages.peek().map(|(package, _)| *package);
    // A client's and a server's code are in one package at times.
    let mut own = packages.take_while(|(package, _)| Some(*package) == uses_it);
    let serves = own.any(|(_, f)| cx.frames.serves(&f));
    target.map(|name| Resource::peer(name, serves))
}

/// The peer of a call that keeps an event loop, for an answer at a socket.
pub(crate) fn peer_of_loop(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Resource> {
    let waits = matches!(segment.wait(), WaitKind::SocketRead | WaitKind::Poll);
    let peer = || peer(cx, segment.stack(), cx.target_of_wait(segment));
    (segment.state == State::Wait && waits).then(peer).flatten()
}

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let waits = matches!(
        segment.wait(),
        WaitKind::SocketRead | WaitKind::SocketWrite | WaitKind::Poll | WaitKind::PipeRead
    );
    if let Some(polled) = waiting::polled_by_another(cx, segment) {
        let resource = peer(cx, segment.stack(), cx.target(polled));
        return Some(Claim { resource, ..Claim::of(Cause::DownstreamWait, segment) });
    }
    if segment.state != State::Wait || !waits || lock_wait::is_asked_of_a_peer(cx, segment) {
        return None;
    }
    let resource = peer(cx, segment.stack(), cx.target_of_wait(segment));
    Some(Claim { resource, ..Claim::of(Cause::DownstreamWait, segment) })
}

/// Of a suspended task: a stream; or a future behind which a single socket lies, as client
/// libraries wait for an answer. A library's Event likewise.
pub fn awaited(cx: &Context<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let target = awaits::target(cx, seen.row);
    let waits = match seen.row.kind {
        AwaitKind::Socket => true,
        AwaitKind::Future => target.is_some(),
        AwaitKind::Event => target.is_some() && awaits::by_library(cx, seen.row),
        _ => false,
    };
    let own = Claim::of_await(Cause::DownstreamWait, seen.row, segment);
    let resource = peer(cx, seen.row.stack, target);
    waits.then_some(Claim { resource, ..own })
}

fn sentence(d: &Described<'_>) -> String {
    let peer = match d.resource {
        Some(Resource::EventLoop(_)) => "what an event loop of its own awaited".to_owned(),
        peer => peer.map_or_else(|| "a peer".to_owned(), Resource::to_string),
    };
    let waited = format!("{} waited {} for {peer}", rule::at(d.place), d.time());
    match d.times {
        _ if d.repeats.is_some() => format!("{waited}{}", rule::repeats_text(d)),
        times if times >= thresholds::loop_calls() => {
            format!("{waited} in {times} waits, one after the other")
        }
        _ => waited,
    }
}
