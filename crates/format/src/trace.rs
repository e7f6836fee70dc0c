//! What a trace has beyond what can be derived (`ids`): ids that came from outside, kinds,
//! statuses, links.
//!
//! ```text
//!  Trace   t | request | trace high | trace low | span | parent | attributes
//!          name: the status's message, 0 none
//!          flags: whose (REQUEST or SPAN), SAMPLED, REMOTE, kind (bits 4-6), status (bits 7-8)
//!  Link    t | request | span | trace high | trace low | linked span | attributes
//!          flags: REMOTE
//! ```
//! A `Trace` with REQUEST describes the request; with SPAN, the span that began at `t` on the
//! thread that wrote the record. A field that is 0 (ids, kind, status, message) changes nothing:
//! the derived id, or the value of an earlier record of the same request or span, remains. Of
//! several records the last one in its thread's order wins. `parent` 0: the parent follows from the
//! nesting in time. The attribute `tracestate` is W3C's, as text; `begin_thread` of a span is the
//! thread on which it began, if it ended on another one. `span` of a `Link` is the id of the span
//! (or of the request's root span) that has the link.

use crate::words::Attributes;

/// The key of the attribute that holds the header `tracestate`.
pub const TRACESTATE: &str = "tracestate";
/// The key of the attribute that names the thread (kernel id) on which a span began that ended on
/// another thread.
pub const BEGIN_THREAD: &str = "begin_thread";
/// The name of an event that describes an exception, with the attributes below.
pub const EXCEPTION: &str = "exception";
/// Its attribute: the exception's type.
pub const EXCEPTION_TYPE: &str = "exception.type";
/// Its attribute: the exception's message, cut as any text.
pub const EXCEPTION_MESSAGE: &str = "exception.message";

/// Flags of the header word.
pub mod flag {
    /// It describes the request.
    pub const REQUEST: u16 = 1;
    /// It describes the span of this thread that began at `t`.
    pub const SPAN: u16 = 2;
    /// The process that began the trace samples it.
    pub const SAMPLED: u16 = 4;
    /// The parent (of a link: the linked span) is another process's.
    pub const REMOTE: u16 = 8;
    /// First bit of the span's kind.
    pub const KIND: u32 = 4;
    /// First bit of the status.
    pub const STATUS: u32 = 7;
}

macro_rules! numbered {
    ($(#[$doc:meta])* $name:ident: $($(#[$each:meta])* $item:ident = $number:literal, $text:literal;)*) => {
        $(#[$doc])*
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum $name {
            /// Nothing was set.
            #[default]
            Unset = 0,
            $($(#[$each])* $item = $number,)*
        }

        impl $name {
            /// By number; one of a later version reads as `Unset`.
            pub fn from_u8(number: u8) -> $name {
                match number { $($number => $name::$item,)* _ => $name::Unset }
            }

            /// By its word, as OpenTelemetry has it, in any case.
            pub fn from_text(text: &str) -> Option<$name> {
                match () { $(() if text.eq_ignore_ascii_case($text) => Some($name::$item),)* _ => None }
            }

            /// The word; empty when unset.
            pub fn text(self) -> &'static str {
                match self { $name::Unset => "", $($name::$item => $text,)* }
            }
        }
    };
}

numbered! {
    /// The side of a call that a span is on.
    SpanKind:
    /// Inside the process.
    Internal = 1, "internal";
    /// Serves a call from outside.
    Server = 2, "server";
    /// Makes a call and waits for its reply.
    Client = 3, "client";
    /// Hands a message over, to be worked on later.
    Producer = 4, "producer";
    /// Works on a message.
    Consumer = 5, "consumer";
}

numbered! {
    /// The outcome, if the program set one.
    Status:
    /// Well.
    Ok = 1, "ok";
    /// Not well.
    Error = 2, "error";
}

/// A record of kind `Trace`, without its attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Trace {
    /// Of a request: when it was recorded. Of a span: when the span began.
    pub t_ns: u64,
    /// The request; of a span: the one it works for, 0 none.
    pub request: u64,
    /// It describes a span, not the request.
    pub of_span: bool,
    /// Trace id, 0: the derived one.
    pub trace: u128,
    /// Span id, 0: the derived one.
    pub span: u64,
    /// The parent's span id, 0: not known.
    pub parent: u64,
    /// The process that began the trace samples it.
    pub sampled: bool,
    /// The parent is another process's.
    pub remote: bool,
    /// Kind of span.
    pub kind: SpanKind,
    /// Status.
    pub status: Status,
    /// Name id of the status's message, 0 none.
    pub message: u32,
}

/// Fixed words of both kinds behind the header.
pub const FIXED: usize = 6;

impl Trace {
    /// The header's flags.
    pub fn flags(&self) -> u16 {
        let owner = if self.of_span { flag::SPAN } else { flag::REQUEST };
        owner
            | (u16::from(self.sampled) * flag::SAMPLED)
            | (u16::from(self.remote) * flag::REMOTE)
            | (u16::from(self.kind as u8) << flag::KIND)
            | (u16::from(self.status as u8) << flag::STATUS)
    }

    /// The fixed words; the header's name is `message`.
    pub fn words(&self) -> [u64; FIXED] {
        let (high, low) = halves(self.trace);
        [self.t_ns, self.request, high, low, self.span, self.parent]
    }

    pub(crate) fn decode(name: u32, flags: u16, body: &[u64]) -> Option<(Trace, Attributes<'_>)> {
        let (&[t_ns, request, high, low, span, parent], rest) = body.split_first_chunk()?;
        let trace = Trace {
            t_ns,
            request,
            of_span: flags & flag::SPAN != 0,
            trace: whole(high, low),
            span,
            parent,
            sampled: flags & flag::SAMPLED != 0,
            remote: flags & flag::REMOTE != 0,
            kind: SpanKind::from_u8((flags >> flag::KIND) as u8 & 7),
            status: Status::from_u8((flags >> flag::STATUS) as u8 & 3),
            message: name,
        };
        Some((trace, Attributes(rest)))
    }
}

/// A record of kind `Link`, without its attributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Link {
    /// When it was recorded.
    pub t_ns: u64,
    /// The request, 0 none.
    pub request: u64,
    /// Id of the span whose link it is.
    pub span: u64,
    /// Trace id of the linked span.
    pub to_trace: u128,
    /// Id of the linked span.
    pub to_span: u64,
    /// The linked span is another process's.
    pub remote: bool,
}

impl Link {
    /// The header's flags.
    pub fn flags(&self) -> u16 {
        u16::from(self.remote) * flag::REMOTE
    }

    /// The fixed words.
    pub fn words(&self) -> [u64; FIXED] {
        let (high, low) = halves(self.to_trace);
        [self.t_ns, self.request, self.span, high, low, self.to_span]
    }

    pub(crate) fn decode(flags: u16, body: &[u64]) -> Option<(Link, Attributes<'_>)> {
        let (&[t_ns, request, span, high, low, to_span], rest) = body.split_first_chunk()?;
        let (to_trace, remote) = (whole(high, low), flags & flag::REMOTE != 0);
        Some((Link { t_ns, request, span, to_trace, to_span, remote }, Attributes(rest)))
    }
}

fn halves(id: u128) -> (u64, u64) {
    ((id >> 64) as u64, id as u64)
}

fn whole(high: u64, low: u64) -> u128 {
    (u128::from(high) << 64) | u128::from(low)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{decode, Builder, Kind, Record, Value, MAX_WORDS};

    #[test]
    fn a_trace_and_a_link_survive_encoding() {
        let trace = Trace {
            t_ns: 1,
            request: 2,
            of_span: true,
            trace: 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c,
            span: 4,
            parent: 5,
            sampled: true,
            remote: true,
            kind: SpanKind::Consumer,
            status: Status::Error,
            message: 6,
        };
        for trace in [trace, Trace::default(), Trace { kind: SpanKind::Client, ..Trace::default() }]
        {
            let mut made = Builder::<MAX_WORDS>::new(
                Kind::Trace,
                trace.flags(),
                trace.message,
                &trace.words(),
            );
            made.attribute(1, Value::Text("vendor=1"));
            let Some((_, Record::Trace(found, attributes))) = decode(made.finish().0) else {
                panic!("no trace");
            };
            assert_eq!(found, trace);
            let mut seen = Vec::new();
            attributes.each(|key, value| seen.push(format!("{key}={value:?}")));
            assert_eq!(seen, ["1=Text(\"vendor=1\")"]);
        }
        let link =
            Link { t_ns: 1, request: 2, span: 3, to_trace: 4 << 64 | 5, to_span: 6, remote: true };
        let mut made = Builder::<MAX_WORDS>::new(Kind::Link, link.flags(), 0, &link.words());
        let Some((_, Record::Link(found, _))) = decode(made.finish().0) else { panic!("no link") };
        assert_eq!(found, link);
        for short in 0..FIXED {
            assert_eq!(Trace::decode(0, 0, &trace.words()[..short]), None);
            assert_eq!(Link::decode(0, &link.words()[..short]), None);
        }
    }

    #[test]
    fn words_of_kinds_and_statuses_are_opentelemetrys() {
        assert_eq!(SpanKind::from_text("SERVER"), Some(SpanKind::Server));
        assert_eq!(SpanKind::from_text("sideways"), None);
        assert_eq!(SpanKind::from_u8(7), SpanKind::Unset, "of a later version");
        assert_eq!((Status::Error.text(), Status::Unset.text()), ("error", ""));
    }
}
