//! Records of the calling thread: put together on the stack, and appended to everything that
//! records.
//!
//! How it works: one load has a bit for each consumer. The black box takes the record by the
//! thread's own writer (`thread`), sessions by their queues (`session`).
//!
//! What it promises: as the crate; a record of few words is put together in registers.

use format::record::{
    are_few, flag, header, key_word, Builder, Kind, Value, FEW_WORDS, MAX_WORDS, STILL_OUT,
};

use crate::current::{current, is_on, receivers, BLACK_BOX};
use crate::twice::{LONG_NS, WORDS};
use crate::{session, thread};

/// An attribute: interned key and value.
pub type Attribute<'a> = (ring::Name, Value<'a>);

/// Appends a record of the calling thread, stamped `now_ns` or earlier, to everything that records.
/// Async-signal-safe. Cost: a few ns; see `ring::Writer::append`.
#[inline]
pub fn append(record: &[u64], now_ns: u64) {
    let receivers = receivers();
    if receivers & BLACK_BOX != 0 {
        thread::append(record, now_ns);
    }
    if receivers & !BLACK_BOX != 0 {
        session::offer(receivers, record);
    }
}

/// Records an instant event in `request` (0: none). Cost on: one clock read and one append.
#[inline]
pub fn event(name: ring::Name, request: u64, attributes: &[Attribute<'_>]) {
    if !is_on() {
        return;
    }
    let now = sys::clock::now_ns();
    put_event(Kind::Event, name, [now, request], attributes, now);
}

/// Records a finished span that began at `begin_ns` (from `sys::clock::now_ns`).
#[inline]
pub fn span(
    name: ring::Name,
    begin_ns: u64,
    request: u64,
    error: bool,
    attributes: &[Attribute<'_>],
) {
    finished(if error { flag::ERROR } else { 0 }, name, begin_ns, request, attributes);
}

/// As `span`, for a call to another service.
pub fn call(
    name: ring::Name,
    begin_ns: u64,
    request: u64,
    error: bool,
    attributes: &[Attribute<'_>],
) {
    let flags = if error { flag::CALL | flag::ERROR } else { flag::CALL };
    finished(flags, name, begin_ns, request, attributes);
}

#[inline]
fn finished(
    flags: u16,
    name: ring::Name,
    begin_ns: u64,
    request: u64,
    attributes: &[Attribute<'_>],
) {
    if !is_on() {
        return;
    }
    let now = sys::clock::now_ns();
    put_span(Kind::Span, flags, name, [begin_ns, now, request], attributes, now);
}

/// As `event`, for an instant in the past.
pub fn event_at(name: ring::Name, t_ns: u64, request: u64, attributes: &[Attribute<'_>]) {
    if is_on() {
        let now = sys::clock::now_ns();
        put_event(Kind::Event, name, [t_ns.min(now), request], attributes, now);
    }
}

/// As `span`, for a span that ended before now: its begin and end.
pub fn span_at(
    name: ring::Name,
    [begin_ns, end_ns]: [u64; 2],
    request: u64,
    error: bool,
    attributes: &[Attribute<'_>],
) {
    if is_on() {
        let now = sys::clock::now_ns();
        let flags = if error { flag::ERROR } else { 0 };
        let fixed = [begin_ns, end_ns.min(now), request];
        put_span(Kind::Span, flags, name, fixed, attributes, now);
    }
}

/// Records that this thread begins a task of a request: until it ends, a capture has no other
/// record of it. `task` records the same again, with its end.
pub fn task_begins(name: ring::Name, queued_ns: u64, begin_ns: u64, request: u64) {
    if is_on() {
        help(request, false);
        append(
            &[header(Kind::Task, 5, 0, name), queued_ns, begin_ns, STILL_OUT, request],
            begin_ns,
        );
    }
}

/// Records a task of a request that ran on this thread from `begin_ns` until now, after waiting in
/// a queue since `queued_ns`.
pub fn task(name: ring::Name, queued_ns: u64, begin_ns: u64, request: u64) {
    if is_on() {
        help(request, true);
        let now = sys::clock::now_ns();
        append(&[header(Kind::Task, 5, 0, name), queued_ns, begin_ns, now, request], now);
    }
}

/// The sampler samples the threads that work for a request as closely as the request's own thread.
fn help(request: u64, done: bool) {
    if let Some(recorder) = current() {
        recorder.open_requests().help(request, done);
    }
}

/// Records a garbage collection on this thread that began at `begin_ns` and ends now.
pub fn gc(generation: u16, begin_ns: u64, collected: u64) {
    if is_on() {
        let now = sys::clock::now_ns();
        append_interval([header(Kind::Gc, 4, generation, 0), begin_ns, now, collected], now);
    }
}

/// Appends a record of an interval that many threads may have to wait for (a fork, a collection),
/// and posts it to be written again if it was long.
pub fn append_interval(record: [u64; WORDS], now_ns: u64) {
    append(&record, now_ns);
    let [_, begin_ns, end_ns, _] = record;
    if let (true, Some(recorder)) = (end_ns.saturating_sub(begin_ns) >= LONG_NS, current()) {
        recorder.twice.post(record);
    }
}

/// Appends a record of two fixed words and attributes. With no attribute, or one that is not text,
/// it is put together in registers, with each length spelled out: a slice of an array that was just
/// filled would be loaded in other widths than it was stored in, and the CPU would wait for the
/// stores.
#[inline]
pub(crate) fn put_event(
    kind: Kind,
    name: ring::Name,
    [a, b]: [u64; 2],
    attributes: &[Attribute<'_>],
    now: u64,
) {
    match attributes {
        [] => return append(&[header(kind, 3, 0, name), a, b], now),
        [(key, value)] => {
            if let Some((code, bits)) = value.scalar() {
                let key = key_word(*key, code, 0);
                return append(&[header(kind, 5, 0, name), a, b, key, bits], now);
            }
        }
        _ => (),
    }
    with_attributes(kind, 0, name, &[a, b], attributes, now);
}

/// As `put_event`, for three fixed words.
#[inline]
pub(crate) fn put_span(
    kind: Kind,
    flags: u16,
    name: ring::Name,
    [a, b, c]: [u64; 3],
    attributes: &[Attribute<'_>],
    now: u64,
) {
    match attributes {
        [] => return append(&[header(kind, 4, flags, name), a, b, c], now),
        [(key, value)] => {
            if let Some((code, bits)) = value.scalar() {
                let key = key_word(*key, code, 0);
                return append(&[header(kind, 6, flags, name), a, b, c, key, bits], now);
            }
        }
        _ => (),
    }
    with_attributes(kind, flags, name, &[a, b, c], attributes, now);
}

#[cold]
fn with_attributes(
    kind: Kind,
    flags: u16,
    name: ring::Name,
    fixed: &[u64],
    attributes: &[Attribute<'_>],
    now: u64,
) {
    if are_few(1 + fixed.len(), attributes) {
        finish(Builder::<FEW_WORDS>::new(kind, flags, name, fixed), attributes, now);
    } else {
        finish(Builder::<MAX_WORDS>::new(kind, flags, name, fixed), attributes, now);
    }
}

pub(crate) fn finish<const WORDS: usize>(
    mut made: Builder<WORDS>,
    attributes: &[Attribute<'_>],
    now: u64,
) {
    for (key, value) in attributes {
        made.attribute(*key, *value);
    }
    let (words, cut) = made.finish();
    append(words, now);
    if cut > 0 {
        if let Some(recorder) = current() {
            let loss = format::region::losses::ATTRIBUTES_CUT;
            recorder.region().lose(loss, u64::from(cut));
        }
    }
}
