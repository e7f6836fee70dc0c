//! Spans as an `ExportTraceServiceRequest`, which is a `TracesData` as well.

use std::borrow::Cow;

use crate::value::{attributes, Attribute, Resource, Scope};
use crate::wire::Message;

/// The side of a call that a span is on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Kind {
    /// Not set.
    #[default]
    Unset,
    /// Inside of a process.
    Internal,
    /// Answers a request.
    Server,
    /// Asks another.
    Client,
    /// Puts a message into a queue.
    Producer,
    /// Takes a message from a queue.
    Consumer,
}

impl Kind {
    /// From its number in OTLP; what is unknown is `Unset`.
    pub fn from_number(number: u64) -> Kind {
        let all = [Kind::Internal, Kind::Server, Kind::Client, Kind::Producer, Kind::Consumer];
        let index = usize::try_from(number).ok().and_then(|n| n.checked_sub(1));
        index.and_then(|i| all.get(i)).copied().unwrap_or_default()
    }
}

/// The outcome.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Status {
    /// Not set.
    #[default]
    Unset,
    /// The program said that it went well.
    Ok,
    /// It failed.
    Error,
}

impl Status {
    /// From its number in OTLP; what is unknown is `Unset`.
    pub fn from_number(number: u64) -> Status {
        [Status::Unset, Status::Ok, Status::Error]
            .get(usize::try_from(number).unwrap_or(usize::MAX))
            .copied()
            .unwrap_or_default()
    }
}

/// Bit of `flags`: the trace is sampled.
pub const SAMPLED: u32 = 1;
/// Bit of `flags`: it is known whether the parent is in another process.
pub const KNOWN_REMOTE: u32 = 0x100;
/// Bit of `flags`: the parent is in another process.
pub const REMOTE: u32 = 0x200;

/// Stands for a request that never exists, where an id of the process itself is derived.
pub const INSTANCE: u64 = u64::MAX;

/// Something that happened within a span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Moment<'a> {
    /// When, Unix epoch ns.
    pub t_ns: u64,
    /// Name.
    pub name: Cow<'a, str>,
    /// Attributes.
    pub attributes: Vec<Attribute<'a>>,
}

/// A link to another span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Link<'a> {
    /// Its trace.
    pub trace: u128,
    /// Its id.
    pub span: u64,
    /// Attributes.
    pub attributes: Vec<Attribute<'a>>,
}

/// A span.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Span<'a> {
    /// Trace id; not 0.
    pub trace: u128,
    /// Its id; not 0.
    pub id: u64,
    /// Id of its parent, 0 none.
    pub parent: u64,
    /// W3C tracestate.
    pub state: Cow<'a, str>,
    /// `SAMPLED`, `KNOWN_REMOTE`, `REMOTE`.
    pub flags: u32,
    /// Name.
    pub name: Cow<'a, str>,
    /// What it is.
    pub kind: Kind,
    /// Begin, Unix epoch ns.
    pub begin_ns: u64,
    /// End, Unix epoch ns.
    pub end_ns: u64,
    /// Attributes.
    pub attributes: Vec<Attribute<'a>>,
    /// What happened in it.
    pub moments: Vec<Moment<'a>>,
    /// Moments that were left out.
    pub dropped_moments: u32,
    /// Links.
    pub links: Vec<Link<'a>>,
    /// The outcome.
    pub status: Status,
    /// Why it failed.
    pub message: Cow<'a, str>,
}

/// The request for these spans, recorded by one or more scopes of one process. Cost: one pass.
pub fn request(resource: &Resource<'_>, scopes: &[(Scope<'_>, &[Span<'_>])]) -> Vec<u8> {
    let mut out = Message::new();
    out.message(1, |all| {
        resource.put(all, 1);
        for (scope, spans) in scopes.iter().filter(|(_, spans)| !spans.is_empty()) {
            all.message(2, |group| {
                scope.put(group, 1);
                spans.iter().for_each(|span| group.message(2, |out| put(out, span)));
            });
        }
    });
    out.finish()
}

fn put(out: &mut Message, span: &Span<'_>) {
    // Zeros are invalid ids, and a receiver may refuse a whole request for one.
    out.text(1, span.trace.max(1).to_be_bytes());
    out.text(2, span.id.max(1).to_be_bytes());
    out.text(3, span.state.as_bytes());
    if span.parent != 0 {
        out.text(4, span.parent.to_be_bytes());
    }
    out.text(5, span.name.as_bytes());
    out.varint(6, span.kind as u64);
    out.fixed64(7, span.begin_ns);
    out.fixed64(8, span.end_ns.max(span.begin_ns));
    let left_out = attributes(out, 9, &span.attributes);
    out.varint(10, u64::from(left_out));
    for moment in &span.moments {
        out.message(11, |out| {
            out.fixed64(1, moment.t_ns);
            out.text(2, moment.name.as_bytes());
            let left_out = attributes(out, 3, &moment.attributes);
            out.varint(4, u64::from(left_out));
        });
    }
    out.varint(12, u64::from(span.dropped_moments));
    for link in &span.links {
        out.message(13, |out| {
            out.text(1, link.trace.max(1).to_be_bytes());
            out.text(2, link.span.max(1).to_be_bytes());
            let left_out = attributes(out, 4, &link.attributes);
            out.varint(5, u64::from(left_out));
        });
    }
    if span.status != Status::Unset || !span.message.is_empty() {
        out.message(15, |status| {
            status.text(2, span.message.as_bytes());
            status.varint(3, span.status as u64);
        });
    }
    out.fixed32(16, span.flags);
}
