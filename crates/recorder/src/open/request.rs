//! A request from its begin to its end, as the program calls it.
//!
//! How it works: its begin enters the table and writes a record; its end leaves the table, writes a
//! record, and gives what is known of it to the limits, rollups, latencies and failures.

use format::record::{flag, header, Kind};
use format::region::losses;

use super::table::Request;
use crate::current::{current, is_on};
use crate::failures::{self, Failed, Question};
use crate::latency::Slow;
use crate::recorder::Recorder;
use crate::records::{append, put_span, Attribute};
use crate::rollups::Done;
use crate::twice;

impl Request {
    /// No request: what `begin` gives while recording is off.
    pub const NONE: Request = Request { id: 0, begin_ns: 0 };

    /// Begins a request on the calling thread. `name` comes from `Recorder::request_name`;
    /// `waited_ns` is how long ago it arrived, when it had to wait for its handler.
    pub fn begin(name: ring::Name, on_loop: bool, waited_ns: u64) -> Request {
        let (true, Some(recorder)) = (is_on(), current()) else {
            return Request::NONE;
        };
        let now = sys::clock::now_ns();
        let begin_ns = now.saturating_sub(waited_ns);
        let open = recorder.open_requests();
        let id =
            open.enter(begin_ns, name, sys::thread::cached_tid(), on_loop).unwrap_or_else(|| {
                recorder.region().lose(losses::REQUESTS_UNTRACKED, 1);
                open.untracked()
            });
        recorder.nap().wake();
        let flags = if on_loop { flag::ASYNC } else { 0 };
        let record = [header(Kind::RequestBegin, 4, flags, name), begin_ns, id, now];
        append(&record, now);
        if waited_ns >= twice::LONG_NS {
            recorder.twice.post(record);
        }
        Request { id, begin_ns }
    }

    /// Gives it another name (a route known only later).
    pub fn rename(self, name: ring::Name) {
        if let Some(recorder) = current() {
            recorder.open_requests().rename(self.id, name);
        }
    }

    /// Stores the address of the task that works for it; only for a request on an event loop. Cost:
    /// two loads, one store.
    pub fn set_task(self, task: u64) {
        if let (true, Some(recorder)) = (self.id != 0, current()) {
            recorder.open_requests().set_task(self.id, task);
        }
    }

    /// Stores that it failed, with the name of the error's type ("": none). Its end is an error
    /// then, whatever `end` is called with. A lookup under a lock.
    pub fn fail(self, kind: &str) {
        let (true, Some(recorder)) = (self.id != 0, current()) else {
            return;
        };
        let bits = recorder.failures().bits_of(kind);
        let name = match kind {
            "" => 0,
            _ => recorder.tables().classed(ring::Class::Target, kind),
        };
        recorder.open_requests().set_failed(self.id, Failed::new(name, bits));
    }

    /// Ends it under its present name; `fallback` names a request that the table had no room for.
    /// Posts it to the trigger if it took too long, and calls the program's predicate.
    pub fn end(self, fallback: ring::Name, error: bool, attributes: &[Attribute<'_>]) {
        if let Some((recorder, question)) = self.finish(fallback, error, attributes) {
            failures::ask(recorder, question);
        }
    }

    /// As `end`, for a place where no code of the program may run (a destructor, a garbage
    /// collection): the predicate is called by the next `ask_postponed`.
    pub fn end_unasked(self, fallback: ring::Name, error: bool, attributes: &[Attribute<'_>]) {
        if let Some((recorder, question)) = self.finish(fallback, error, attributes) {
            failures::postpone(recorder, question);
        }
    }

    fn finish(
        self,
        fallback: ring::Name,
        error: bool,
        attributes: &[Attribute<'_>],
    ) -> Option<(&'static Recorder, Question)> {
        let recorder = current().filter(|_| self.id != 0)?;
        // Before its slot is freed, and only if exemplars are shown.
        let ids = match recorder.latencies().is_on() {
            true => recorder.open_requests().trace(self.id),
            false => None,
        };
        let left = recorder.open_requests().leave(self.id);
        let (name, on_loop, failed) = left.unwrap_or((fallback, false, Failed::default()));
        let error = error || failed.is();
        let now = sys::clock::now_ns();
        let flags = (u16::from(error) * flag::ERROR) | (u16::from(on_loop) * flag::ASYNC);
        let fixed @ [begin_ns, end_ns, id] = [self.begin_ns, now, self.id];
        if is_on() {
            put_span(Kind::RequestEnd, flags, name, fixed, attributes, now);
        }
        let took_ns = now.saturating_sub(self.begin_ns);
        let (slow, typical_ns) = recorder.limits().ended(self.id, name, took_ns);
        if is_on() {
            let done = Done { took_ns, typical_ns, slow, failed: error };
            recorder.rollups().ended(name, done);
        }
        if slow && is_on() {
            let head = header(Kind::RequestEnd, 4, flags, name);
            recorder.twice.post([head, begin_ns, end_ns, id]);
        }
        let trace = ids.map_or(0, |ids| ids.trace);
        recorder.latencies().ended(name, Slow { id: self.id, took_ns, at_ns: now, trace });
        recorder.failures().ended(self.id, name, error, failed);
        Some((recorder, Question { id: self.id, name, took_ns, error }))
    }
}
