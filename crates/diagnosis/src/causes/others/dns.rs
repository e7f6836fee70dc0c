//! dns: a name is being resolved.
//!
//! Signature: waiting on a datagram socket whose peer is port 53, or on anything inside
//! `getaddrinfo` (Python's or the C library's), or on a peer inside a library that asks resolvers
//! itself (its sockets are often not connected, so that their peer's port is unknown).
//!
//! Quotes: the resolver's address. Sure: the code that resolves was seen, or port 53; unsure: times
//! are estimates.

use analysis::frames::Owner;
use analysis::resource::{is_name_server, Resource};
use analysis::signatures::Stdlib;
use analysis::timeline::{Segment, State};
use capture::read::Frame;
use format::wait::{AwaitKind, WaitKind};

use crate::cause::Cause;
use crate::causes::grounds::Grounds;
use crate::causes::rule::{self, Described, Row, Rule};
use crate::claim::Claim;
use crate::context::Context;
use crate::facts::awaits::{self, Awaited};

pub const RULE: Rule = Rule { id: "dns", grounds: Grounds::Code, claim };
pub const ROW: Row = Row { sentence, advice: |_| ADVICE };

const ADVICE: &str =
    "Check the resolvers in /etc/resolv.conf; cache names, or lower the resolver's time limit.";

fn claim(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let waits = matches!(
        segment.wait(),
        WaitKind::SocketRead | WaitKind::SocketWrite | WaitKind::Poll | WaitKind::Connect
    );
    if segment.state != State::Wait || !waits {
        return None;
    }
    let target = cx.target_of_wait(segment);
    let asked = target.as_deref().is_some_and(is_name_server);
    let resolves = || {
        cx.frames.leaf_at(segment.stack(), Stdlib::Resolve)
            || cx.frames.any(segment.stack(), is_c_librarys)
    };
    let found = asked || resolves() || in_resolver(cx, segment.stack());
    let resource = target.map(Resource::Resolver);
    found.then(|| Claim { resource, ..Claim::of(Cause::Dns, segment) })
}

/// The C library's functions that look names up.
fn is_c_librarys(frame: &Frame<'_>) -> bool {
    const FUNCTIONS: [&str; 4] = ["getaddrinfo", "getnameinfo", "gethostbyname", "gethostbyaddr"];
    let base = frame.file.rsplit('/').next().unwrap_or(frame.file);
    // `__GI_` is what the C library calls its own by; `_r` ends those for threads.
    let name = frame.function.trim_start_matches("__GI_").trim_start_matches("__");
    let (libc, known) = (base.starts_with("libc.so") || base.starts_with("libc-"), &FUNCTIONS);
    libc && known
        .iter()
        .any(|f| name.strip_prefix(f).is_some_and(|end| matches!(end, "" | "_r" | "2" | "2_r")))
}

/// Code that asks a resolver: dnspython, aiodns.
fn in_resolver(cx: &Context<'_>, stack: u32) -> bool {
    const FILES: [&str; 3] = ["/dns/query.py", "/dns/asyncquery.py", "/aiodns/__init__.py"];
    let library = |f: &Frame<'_>| cx.frames.owner(f.file) == Owner::Library;
    cx.frames.any(stack, |f| library(f) && FILES.iter().any(|file| f.file.ends_with(file)))
}

/// Of a suspended task: `getaddrinfo` of the event loop, or a library that asks resolvers.
pub fn awaited(cx: &Context<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let own = Claim::of_await(Cause::Dns, seen.row, segment);
    let resource = awaits::target(cx, seen.row).map(Resource::Resolver);
    let resolves = seen.row.kind == AwaitKind::Resolve || in_resolver(cx, seen.row.stack);
    resolves.then_some(Claim { resource, ..own })
}

fn sentence(d: &Described<'_>) -> String {
    let (place, time) = (rule::at(d.place), d.time());
    format!("{place} waited {time} for a name to be resolved{}", rule::resource_text(d))
}
