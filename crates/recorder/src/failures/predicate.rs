//! The program's own predicate: which requests it chooses.
//!
//! How it works: it is called on the request's own thread at the request's end; where no code of
//! the program may run, the question is kept in a mailbox until `ask_postponed`.

use std::cell::Cell;

use format::block::{pack_pair, unpack_pair};
use sys::cell::StaticRef;

use crate::recorder::Recorder;

/// A request that has just ended, for a predicate.
#[derive(Clone, Copy, Debug)]
pub struct Ended<'a> {
    /// Its name; "(another)" beyond the first 4,095 distinct ones.
    pub name: &'a str,
    /// How long it took.
    pub took_ns: u64,
    /// It ended with an error.
    pub error: bool,
}

/// Chooses requests to make a capture for; called on the request's own thread.
pub type Predicate = Box<dyn Fn(&Ended<'_>) -> bool + Send + Sync>;

static PREDICATE: StaticRef<Predicate> = StaticRef::empty();

thread_local! {
    /// This thread is inside the predicate, which is not called for a request that ends in there.
    static ASKING: Cell<bool> = const { Cell::new(false) };
}

/// Calls `predicate` for each request that ends from here on; None: no predicate any more. The one
/// before stays in memory, since it may be running: do not set predicates in a loop.
pub fn set_predicate(predicate: Option<Predicate>) {
    PREDICATE.set(predicate.map(|p| &*Box::leak(Box::new(p))));
}

/// What the predicate is called with.
#[derive(Clone, Copy)]
pub(crate) struct Question {
    pub id: u64,
    pub name: ring::Name,
    pub took_ns: u64,
    pub error: bool,
}

/// Calls the predicate, if there is one. Cost without: one load.
#[inline]
pub(crate) fn ask(recorder: &Recorder, question: Question) {
    if let Some(predicate) = PREDICATE.get() {
        ask_now(predicate, recorder, question);
    }
}

#[cold]
fn ask_now(predicate: &Predicate, recorder: &Recorder, question: Question) {
    let Question { id, name, took_ns, error } = question;
    if ASKING.replace(true) {
        return;
    }
    let text = recorder.limits().name_text(name).unwrap_or("(another)");
    if predicate(&Ended { name: text, took_ns, error }) {
        recorder.failures().choose(id, name, took_ns);
    }
    ASKING.set(false);
}

/// Keeps the question for `ask_postponed`: here the predicate cannot be called.
pub(crate) fn postpone(recorder: &Recorder, question: Question) {
    if PREDICATE.get().is_some() {
        let Question { id, name, took_ns, error } = question;
        recorder.failures().postponed.post([id, pack_pair(name, u32::from(error)), took_ns]);
    }
}

/// Calls the predicate for requests that ended in a destructor or in a garbage collection. Called
/// where code of the program may run. Of more than 64 since the last call, the oldest are skipped
/// and counted as failed calls. Cost without any: two loads.
#[inline]
pub fn ask_postponed(recorder: &Recorder) {
    if PREDICATE.get().is_some() && recorder.failures().postponed.posted() != 0 {
        ask_all_postponed(recorder);
    }
}

#[cold]
fn ask_all_postponed(recorder: &Recorder) {
    let failures = recorder.failures();
    // Another thread holds it and asks.
    let Ok(mut asked) = failures.asked.try_lock() else { return };
    let (mut questions, mut torn) = (Vec::new(), 0);
    let now = failures.postponed.take(*asked, |[id, word, took_ns], is_whole| {
        let (name, error) = unpack_pair(word);
        match is_whole {
            true => questions.push(Question { id, name, took_ns, error: error != 0 }),
            false => torn += 1,
        }
    });
    let missed = (now - *asked).saturating_sub(questions.len() as u64 + torn) + torn;
    *asked = now;
    drop(asked);
    if missed > 0 {
        recorder.region().lose(format::region::losses::PREDICATE_FAILED, missed);
    }
    questions.into_iter().for_each(|question| ask(recorder, question));
}
