//! Records: the meaning of their words.
//!
//! ```text
//!  word 0: kind (8) | words in all (8) | flags (16) | name or id (32)
//!  Event         t | request | attributes
//!  Span          begin | end | request | attributes
//!  RequestBegin  t | request | started        (started > t: it waited before its handler ran)
//!                flags: ASYNC, AGAIN (recorded again at a snapshot: | thread; its present name)
//!  RequestEnd    begin | end | request | attributes          flags: ERROR, ASYNC
//!  Sample        t | tid, gil holder | wall | cpu | run delay | wait, how, nr, lock holder
//!                | target | timeout [ | running task [ | lock object ]]   name: stack id
//!                flags: REUSED, TRUNCATED, TIMES, USAGE (the last two words are `usage::Usage`),
//!                from SLICES_SHIFT on how often it was given a CPU
//!  OffCpu        out | in (u64::MAX: still out)              name: tid, flags: see `off_cpu`
//!  Gc            begin | end | collected                     flags: generation
//!  Vital         t | f64 bits
//!  Task          queued | begin | end | request              end: STILL_OUT when it begins
//!  Thread        tid, serial | sequence number               the records behind are that thread's
//!  Metric        from | to | numbers | attributes            see `metric`
//!  Await         t | request | task | kind, how | holder | target | timeout   name: stack id
//!  Trace, Link   ids that came from outside, kinds, statuses, links: see `trace`
//!  NativeStack   t | tid | offset | words                    name: file, flags: OF_WAKING, see
//!                                                            `native`
//!  Wake          t | id of the waker                         name: tid, flags: see `wake`
//!  Again         tid | a Span, RequestBegin, RequestEnd or Gc of that thread, without attributes:
//!                the sampler's second copy of the record of a long event
//! ```
//! All times are nanoseconds of CLOCK_MONOTONIC. An attribute is a key word (name id | type << 32 |
//! bytes << 40) and one value word, or, for text, as many words as its bytes need (at most 64
//! bytes). Decoding accepts any words: a record that makes no sense ends the block it is in.

use crate::block::unpack_pair;
use crate::metric::Metric;
use crate::native::NativeStack;
use crate::off_cpu;
use crate::trace::{Link, Trace};
use crate::wake::Wake;

pub use crate::sample::{Sample, MOST_SLICES, TARGET_IS_NAME};
pub use crate::wait::Await;

/// Most words a record may have.
pub const MAX_WORDS: usize = 120;
/// Most attributes of one record.
pub const MAX_ATTRIBUTES: usize = 8;
/// Most bytes of a text attribute.
pub const MAX_TEXT: usize = 64;
/// Name of the vital that marks times without switch records. Its value is how long, in ns, there
/// had been none at its time; 0: from now on there are some. Recorded when such a time begins, once
/// a second and before a capture while it lasts, and when it ends.
pub const SWITCHES_PAUSED: &str = "switches_paused_ns";
/// `OffCpu.in_ns` of a thread that is still off the CPU, `Task.end_ns` of a task that still runs.
pub const STILL_OUT: u64 = u64::MAX;

/// Kinds of records. The numbers are part of the format.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[allow(missing_docs)]
pub enum Kind {
    Event = 1,
    Span = 2,
    RequestBegin = 3,
    RequestEnd = 4,
    Sample = 5,
    OffCpu = 6,
    Gc = 7,
    Vital = 8,
    Task = 9,
    Thread = 10,
    Await = 11,
    Metric = 12,
    Trace = 13,
    Link = 14,
    NativeStack = 15,
    Wake = 16,
    Again = 17,
}

/// Flags of the header word, per kind.
pub mod flag {
    /// RequestEnd, Span: ended by an exception.
    pub const ERROR: u16 = 1;
    /// RequestBegin, RequestEnd: runs on an event loop, so its thread also serves others.
    pub const ASYNC: u16 = 2;
    /// RequestBegin: recorded again by the sampler for a request that still runs, with its present
    /// name and one more word, its thread.
    pub const AGAIN: u16 = 4;
    /// Sample: the thread did not run since its last sample; stack and wait are carried over.
    pub const REUSED: u16 = 1;
    /// Sample: the stack was cut at the frame limit.
    pub const TRUNCATED: u16 = 2;
    /// Sample: cpu and run delay were measured for this sample.
    pub const TIMES: u16 = 4;
    /// Sample of a running thread: target and timeout hold what it has used so far (`Usage`).
    pub const USAGE: u16 = 8;
    /// Sample: the bits from here up say how often the thread was given a CPU since its last
    /// sample; if all are set, that often or more. Two bits below are free.
    pub const SLICES_SHIFT: u32 = 6;
}

/// The header word.
#[inline]
pub fn header(kind: Kind, words: usize, flags: u16, name: u32) -> u64 {
    kind as u64 | ((words as u64) << 8) | (u64::from(flags) << 16) | (u64::from(name) << 32)
}

/// One attribute's value.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Value<'a> {
    Int(i64),
    Float(f64),
    Bool(bool),
    Text(&'a str),
}

impl Value<'_> {
    /// Type code and bits of a value that takes one word; None for a text.
    #[inline]
    pub fn scalar(self) -> Option<(u64, u64)> {
        match self {
            Value::Int(v) => Some((0, v as u64)),
            Value::Float(v) => Some((1, v.to_bits())),
            Value::Bool(v) => Some((2, u64::from(v))),
            Value::Text(_) => None,
        }
    }
}

/// The key word of an attribute: its name, type code and bytes of text.
#[inline]
pub fn key_word(key: u32, code: u64, bytes: usize) -> u64 {
    u64::from(key) | (code << 32) | ((bytes as u64) << 40)
}

/// Words that suffice for most records with attributes; see `Builder`.
pub const FEW_WORDS: usize = 20;

/// Whether a record of `fixed` words and these attributes fits into `FEW_WORDS`.
#[inline]
pub fn are_few(fixed: usize, attributes: &[(u32, Value<'_>)]) -> bool {
    let words = |(_, value): &(u32, Value<'_>)| match value {
        Value::Text(text) => 1 + text.len().div_ceil(8),
        _ => 2,
    };
    fixed + attributes.iter().map(words).sum::<usize>() <= FEW_WORDS
}

/// A record under construction, on the stack: no allocation. Its room is cleared first, so a small
/// one (`Builder<FEW_WORDS>`) is cheaper.
pub struct Builder<const WORDS: usize = MAX_WORDS> {
    words: [u64; WORDS],
    len: usize,
    attributes: usize,
    cut: u32,
}

impl<const WORDS: usize> Builder<WORDS> {
    /// Starts a record: its header and the fixed words behind it.
    #[inline]
    pub fn new(kind: Kind, flags: u16, name: u32, fixed: &[u64]) -> Builder<WORDS> {
        let mut words = [0; WORDS];
        words[0] = header(kind, 0, flags, name);
        words[1..=fixed.len()].copy_from_slice(fixed);
        Builder { words, len: 1 + fixed.len(), attributes: 0, cut: 0 }
    }

    /// Appends an attribute; beyond the limits it is cut or left out, and counted in `cut`.
    pub fn attribute(&mut self, key: u32, value: Value<'_>) {
        let text = match value {
            Value::Text(text) => cut_text(text),
            _ => "",
        };
        let words = 1 + value_words(&value, text);
        if self.attributes == MAX_ATTRIBUTES || self.len + words > WORDS {
            self.cut += 1;
            return;
        }
        self.attributes += 1;
        if let Value::Text(full) = value {
            self.cut += u32::from(full.len() != text.len());
        }
        if let Some((code, bits)) = value.scalar() {
            self.push(key_word(key, code, 0));
            self.push(bits);
            return;
        }
        self.push(key_word(key, 3, text.len()));
        for piece in text.as_bytes().chunks(8) {
            let mut bytes = [0; 8];
            bytes[..piece.len()].copy_from_slice(piece);
            self.push(u64::from_le_bytes(bytes));
        }
    }

    fn push(&mut self, word: u64) {
        self.words[self.len] = word;
        self.len += 1;
    }

    /// The finished words, and how many attributes were cut or left out.
    #[inline]
    pub fn finish(&mut self) -> (&[u64], u32) {
        self.words[0] = (self.words[0] & !0xff00) | ((self.len as u64) << 8);
        (&self.words[..self.len], self.cut)
    }
}

fn value_words(value: &Value<'_>, text: &str) -> usize {
    match value {
        Value::Text(_) => text.len().div_ceil(8),
        _ => 1,
    }
}

fn cut_text(text: &str) -> &str {
    let mut end = text.len().min(MAX_TEXT);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// A decoded record.
#[derive(Clone, Copy, Debug, PartialEq)]
#[allow(missing_docs)]
pub enum Record<'a> {
    Event {
        name: u32,
        t_ns: u64,
        request: u64,
        attributes: Attributes<'a>,
    },
    Span {
        name: u32,
        flags: u16,
        begin_ns: u64,
        end_ns: u64,
        request: u64,
        attributes: Attributes<'a>,
    },
    RequestBegin {
        name: u32,
        flags: u16,
        t_ns: u64,
        request: u64,
        started_ns: u64,
        again_tid: u32,
    },
    RequestEnd {
        name: u32,
        flags: u16,
        begin_ns: u64,
        end_ns: u64,
        request: u64,
        attributes: Attributes<'a>,
    },
    Sample(Sample),
    Await(Await),
    Metric(Metric<'a>),
    Trace(Trace, Attributes<'a>),
    Link(Link, Attributes<'a>),
    NativeStack(NativeStack<'a>),
    Wake(Wake),
    OffCpu {
        tid: u32,
        preempted: bool,
        out_ns: u64,
        in_ns: u64,
        cpu: Option<u16>,
    },
    Gc {
        generation: u16,
        begin_ns: u64,
        end_ns: u64,
        collected: u64,
    },
    Vital {
        name: u32,
        t_ns: u64,
        value: f64,
    },
    Task {
        name: u32,
        queued_ns: u64,
        begin_ns: u64,
        end_ns: u64,
        request: u64,
    },
    Thread {
        tid: u32,
        serial: u32,
        seq: u64,
    },
    /// The second copy of another thread's record: the words of that record.
    Again {
        tid: u32,
        record: &'a [u64],
    },
    /// A kind this version does not know.
    Foreign {
        kind: u8,
    },
}

/// The attributes of a record, decoded one at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Attributes<'a>(pub(crate) &'a [u64]);

impl Attributes<'_> {
    /// Calls `each` with every attribute's key and value; stops at the first that makes no sense.
    pub fn each(&self, mut each: impl FnMut(u32, Value<'_>)) {
        let mut rest = self.0;
        while let [head, tail @ ..] = rest {
            let key = *head as u32;
            let bytes = (head >> 40) as usize;
            let words = if (head >> 32) & 0xff == 3 { bytes.div_ceil(8) } else { 1 };
            let Some((value, next)) = tail.split_at_checked(words) else {
                return;
            };
            let mut buffer = [0u8; MAX_TEXT];
            match (head >> 32) & 0xff {
                0 => each(key, Value::Int(value[0] as i64)),
                1 => each(key, Value::Float(f64::from_bits(value[0]))),
                2 => each(key, Value::Bool(value[0] != 0)),
                3 if bytes <= MAX_TEXT => {
                    for (slot, word) in buffer.chunks_mut(8).zip(value) {
                        slot.copy_from_slice(&word.to_le_bytes());
                    }
                    each(key, Value::Text(std::str::from_utf8(&buffer[..bytes]).unwrap_or("?")));
                }
                _ => return,
            }
            rest = next;
        }
    }
}

/// Decodes the record at the start of `words`: its length and its value. `None` where the words are
/// not valid (length 0 or past the end, a fixed kind of the wrong size).
pub fn decode(words: &[u64]) -> Option<(usize, Record<'_>)> {
    let head = *words.first()?;
    let len = ((head >> 8) & 0xff) as usize;
    let flags = (head >> 16) as u16;
    let name = (head >> 32) as u32;
    let body = words.get(1..len)?;
    let record = match head as u8 {
        1 => {
            let [t_ns, request, rest @ ..] = body else {
                return None;
            };
            Record::Event { name, t_ns: *t_ns, request: *request, attributes: Attributes(rest) }
        }
        2 => {
            let (begin_ns, end_ns, request, attributes) = interval(body)?;
            Record::Span { name, flags, begin_ns, end_ns, request, attributes }
        }
        3 => {
            let &[t_ns, request, started_ns, ref rest @ ..] = body else { return None };
            let again_tid = rest.first().map_or(0, |tid| *tid as u32);
            Record::RequestBegin { name, flags, t_ns, request, started_ns, again_tid }
        }
        4 => {
            let (begin_ns, end_ns, request, attributes) = interval(body)?;
            Record::RequestEnd { name, flags, begin_ns, end_ns, request, attributes }
        }
        5 => Record::Sample(Sample::decode(name, flags, body)?),
        6 => {
            let &[out_ns, in_ns] = body else { return None };
            let (preempted, cpu) = off_cpu::flags(flags);
            Record::OffCpu { tid: name, preempted, out_ns, in_ns, cpu }
        }
        7 => {
            let &[begin_ns, end_ns, collected] = body else {
                return None;
            };
            Record::Gc { generation: flags, begin_ns, end_ns, collected }
        }
        8 => {
            let &[t_ns, bits] = body else { return None };
            Record::Vital { name, t_ns, value: f64::from_bits(bits) }
        }
        9 => {
            let &[queued_ns, begin_ns, end_ns, request] = body else {
                return None;
            };
            Record::Task { name, queued_ns, begin_ns, end_ns, request }
        }
        10 => {
            let &[who, seq] = body else { return None };
            let (tid, serial) = unpack_pair(who);
            Record::Thread { tid, serial, seq }
        }
        11 => Record::Await(Await::decode(name, body)?),
        12 => Record::Metric(Metric::decode(name, flags, body)?),
        13 => {
            let (trace, attributes) = Trace::decode(name, flags, body)?;
            Record::Trace(trace, attributes)
        }
        14 => {
            let (link, attributes) = Link::decode(flags, body)?;
            Record::Link(link, attributes)
        }
        15 => Record::NativeStack(NativeStack::decode(name, flags, body)?),
        16 => Record::Wake(Wake::decode(name, flags, body)?),
        17 => {
            let (tid, record) = body.split_first()?;
            Record::Again { tid: *tid as u32, record }
        }
        kind => Record::Foreign { kind },
    };
    Some((len, record))
}

/// The words of a record with a begin and an end: begin, end, request and attributes.
fn interval(body: &[u64]) -> Option<(u64, u64, u64, Attributes<'_>)> {
    match body {
        [begin_ns, end_ns, request, rest @ ..] => {
            Some((*begin_ns, *end_ns, *request, Attributes(rest)))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn attributes_survive_encoding_and_cut_ones_are_counted() {
        let mut made = Builder::<MAX_WORDS>::new(Kind::Event, 0, 9, &[55, 77]);
        made.attribute(1, Value::Int(-3));
        made.attribute(2, Value::Float(2.5));
        made.attribute(3, Value::Bool(true));
        made.attribute(4, Value::Text("päris"));
        made.attribute(5, Value::Text(&"x".repeat(100)));
        for key in 6..12 {
            made.attribute(key, Value::Int(0));
        }
        let (words, cut) = made.finish();
        assert_eq!(cut, 1 + 3, "one text cut, three attributes past the limit of eight");
        let Some((len, Record::Event { name: 9, t_ns: 55, request: 77, attributes })) =
            decode(words)
        else {
            panic!("not an event: {words:?}");
        };
        assert_eq!(len, words.len());
        let mut seen = Vec::new();
        attributes.each(|key, value| seen.push(format!("{key}={value:?}")));
        assert_eq!(seen[..4], ["1=Int(-3)", "2=Float(2.5)", "3=Bool(true)", "4=Text(\"päris\")"]);
        assert_eq!(seen.len(), MAX_ATTRIBUTES);
    }

    #[test]
    fn any_words_decode_without_a_panic() {
        let mut word = 0x9e37_79b9_7f4a_7c15u64;
        for _ in 0..200_000 {
            let mut words = [0u64; 12];
            for slot in &mut words {
                word ^= word << 13;
                word ^= word >> 7;
                word ^= word << 17;
                *slot = word;
            }
            words[0] = (words[0] & !0xffff) | (word % 19) | ((word >> 20) % 14) << 8;
            match decode(&words) {
                Some((_, Record::Event { attributes, .. }))
                | Some((_, Record::Span { attributes, .. })) => attributes.each(|_, _| ()),
                _ => (),
            }
        }
    }
}
