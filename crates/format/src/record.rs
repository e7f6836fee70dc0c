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
//!  Suspension    out | in | request
//! ```
//! All times are nanoseconds of CLOCK_MONOTONIC. An attribute is a key word (name id | type << 32 |
//! bytes << 40) and one value word, or, for text, as many words as its bytes need (at most 64
//! bytes, 512 in an event). Decoding accepts any words: a record that makes no sense ends the block
//! it is in.

use crate::block::unpack_pair;
use crate::metric::Metric;
use crate::native::NativeStack;
use crate::off_cpu;
use crate::suspension::Suspension;
use crate::trace::{Link, Trace};
use crate::wake::Wake;

pub use crate::sample::{Sample, MOST_SLICES, TARGET_IS_NAME};
pub use crate::wait::Await;
pub use crate::words::{
    are_few, flag, header, key_word, Attributes, Builder, Kind, Value, FEW_WORDS, MAX_ATTRIBUTES,
    MAX_EVENT_TEXT, MAX_TEXT, MAX_WORDS, STILL_OUT, SWITCHES_PAUSED,
};

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
    Suspension(Suspension),
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
            let &[t_ns, request, ref rest @ ..] = body else { return None };
            Record::Event { name, t_ns, request, attributes: Attributes(rest) }
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
            let &[pair, seq] = body else { return None };
            let (tid, serial) = unpack_pair(pair);
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
        18 => Record::Suspension(Suspension::decode(body)?),
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
    #![allow(clippy::expect_used)]

    use super::*;

    #[test]
    fn attributes_survive_encoding_and_cut_ones_are_counted() {
        let mut made = Builder::<MAX_WORDS>::new(Kind::Event, 0, 9, &[55, 77]);
        made.attribute(1, Value::Int(-3));
        made.attribute(2, Value::Float(2.5));
        made.attribute(3, Value::Bool(true));
        made.attribute(4, Value::Text("päris"));
        made.attribute(5, Value::Text(&"x".repeat(MAX_EVENT_TEXT + 1)));
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
        assert_eq!(seen[4], format!("5=Text({:?})", "x".repeat(MAX_EVENT_TEXT)));
        assert_eq!(seen.len(), MAX_ATTRIBUTES);
    }

    #[test]
    fn of_long_texts_an_event_keeps_what_its_record_has_room_for() {
        let kept = |kind, fixed: &[u64], texts: &[usize]| {
            let mut made = Builder::<MAX_WORDS>::new(kind, 0, 9, fixed);
            for (key, bytes) in (1..).zip(texts) {
                made.attribute(key, Value::Text(&"x".repeat(*bytes)));
            }
            let (words, cut) = made.finish();
            let (_, Record::Event { attributes, .. } | Record::Span { attributes, .. }) =
                decode(words).expect("a record")
            else {
                panic!("{words:?}");
            };
            let mut kept = Vec::new();
            attributes.each(|_, value| match value {
                Value::Text(text) => kept.push(text.len()),
                _ => panic!("{value:?}"),
            });
            (kept, cut)
        };
        assert_eq!(kept(Kind::Event, &[1, 2], &[65, 300]), (vec![65, 300], 0));
        assert_eq!(kept(Kind::Event, &[1, 2], &[512, 512]), (vec![512, 408], 1));
        assert_eq!(kept(Kind::Event, &[1, 2], &[512, 400, 9]), (vec![512, 400], 1));
        assert_eq!(kept(Kind::Span, &[1, 2, 3], &[65, 300]), (vec![64, 64], 2));
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
            words[0] = (words[0] & !0xffff) | (word % 20) | ((word >> 20) % 14) << 8;
            match decode(&words) {
                Some((_, Record::Event { attributes, .. }))
                | Some((_, Record::Span { attributes, .. })) => attributes.each(|_, _| ()),
                _ => (),
            }
        }
    }
}
