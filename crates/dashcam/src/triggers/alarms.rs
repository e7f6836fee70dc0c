//! What the trigger shares with others: causes captured lately, metrics over a limit, the exception
//! that ends the program, whether SIGUSR2 is ours.

use std::sync::atomic::{AtomicBool, AtomicU8, Ordering};
use std::sync::Mutex;

use format::json::Object;
use recorder::Recorder;
use trigger::{Excess, Repeats};

use crate::lock::lock;

/// What the sampler has not seen yet, at most.
const MOST: usize = 64;
/// Causes whose number of repeats is reported.
const REPEATED: usize = 20;

/// A cause as far as a trigger knows it: the request's name, the sort of rule, the error's type.
pub(crate) type Cause = (u32, u8, u32);

/// All of it.
pub(crate) struct Alarms {
    /// What was in the trigger's mailboxes before this start: slow, failed, chosen.
    pub seen: [u64; 3],
    /// Causes that were captured lately, for `repeat_after`.
    pub repeats: Mutex<Repeats<Cause>>,
    /// Metrics over a limit, on their way to the sampler.
    pub excesses: Excesses,
    /// Type of the uncaught exception that ends the program.
    pub crash: Mutex<Option<String>>,
    /// Whether SIGUSR2 was ours when it was checked last; 2: not yet.
    signal_is_ours: AtomicU8,
}

impl Alarms {
    pub(crate) fn new(recorder: &Recorder, repeat_after_ns: u64) -> Alarms {
        let failures = recorder.failures();
        let failed = failures.take_failed(u64::MAX, |_| ());
        let chosen = failures.take_chosen(u64::MAX, |_| ());
        Alarms {
            seen: [recorder.limits().slow_count(), failed, chosen],
            repeats: Mutex::new(Repeats::new(repeat_after_ns)),
            excesses: Excesses::default(),
            crash: Mutex::default(),
            signal_is_ours: AtomicU8::new(2),
        }
    }

    /// How often causes came again and were not captured, as JSON: those that did most often.
    pub(crate) fn repeated(&self) -> String {
        let repeats = lock(&self.repeats);
        let counts = repeats.counts(REPEATED).into_iter();
        counts.fold(Object::new(), |object, (cause, again)| object.int(cause, again)).finish()
    }

    /// Notes whether SIGUSR2 is ours; whether that is new.
    pub(crate) fn signal_changed(&self, ours: bool) -> bool {
        self.signal_is_ours.swap(u8::from(ours), Ordering::Relaxed) != u8::from(ours)
    }
}

/// From `dashcam-capture` to the sampler.
#[derive(Default)]
pub(crate) struct Excesses {
    /// Something lies in the list. Release and acquire are the list's lock's; here it only spares
    /// it.
    came: AtomicBool,
    list: Mutex<Vec<Excess>>,
}

impl Excesses {
    pub(crate) fn post(&self, new: Vec<Excess>) {
        if new.is_empty() {
            return;
        }
        let mut list = lock(&self.list);
        for excess in new {
            // One a rule: the newer number, and whether either was the first.
            let before = list.iter().position(|old| old.rule == excess.rule);
            let was_new = before.map(|at| list.remove(at).is_new);
            if list.len() < MOST {
                list.push(Excess { is_new: excess.is_new || was_new == Some(true), ..excess });
            }
        }
        self.came.store(true, Ordering::Relaxed);
    }

    /// What came since the last call. One load when nothing did.
    pub(crate) fn take(&self) -> Vec<Excess> {
        match self.came.swap(false, Ordering::Relaxed) {
            true => std::mem::take(&mut *lock(&self.list)),
            false => Vec::new(),
        }
    }
}
