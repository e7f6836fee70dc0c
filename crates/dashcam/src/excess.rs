//! Rules about metrics: the keeper tells them every window, the sampler makes captures of what they
//! say.
//!
//! How it works: windows are taken by the keeper, firings are the sampler's; between them lies a
//! list with a flag beside it. A rule that is over says so at every window until a capture is to be
//! made for it; then it is quiet until it was under its limit once.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::Mutex;

use ::metrics::window::{Kind, Reading, Value};
use format::region::losses;
use trigger::{Came, Excess, MetricRules, MetricWatch};

use crate::control::{lock, Shared};

/// What the sampler has not seen yet, at most.
const MOST: usize = 64;

/// From the keeper to the sampler.
#[derive(Default)]
pub(crate) struct Excesses {
    /// Something lies in the list. Release and acquire are the list's lock's; here it only spares it.
    came: AtomicBool,
    list: Mutex<Vec<Excess>>,
}

impl Excesses {
    fn post(&self, new: Vec<Excess>) {
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

/// The keeper's side.
pub(crate) struct Judging {
    rules: MetricRules,
    watch: MetricWatch,
}

impl Judging {
    pub(crate) fn new(rules: &MetricRules) -> Judging {
        Judging { rules: rules.clone(), watch: MetricWatch::new(rules) }
    }

    /// Tells the rules of a window.
    pub(crate) fn window(&mut self, shared: &Shared, from_ns: u64, to_ns: u64, all: &[Reading]) {
        let rules = &shared.config().metric_rules;
        if *rules != self.rules {
            *self = Judging::new(rules);
        }
        if self.watch.is_empty() {
            return;
        }
        for Reading { id, value } in all {
            self.watch.note(&id.name, &id.tags, came(id.kind, value));
        }
        shared.excesses.post(self.watch.end(from_ns, to_ns));
        let refused = self.watch.take_refused();
        shared.recorder.region().lose(losses::RULE_SERIES_REFUSED, refused);
    }
}

fn came(kind: Kind, value: &Value) -> Came<'_> {
    match value {
        Value::Count(n) => Came::Count(*n),
        Value::Gauge { value, set } => Came::Gauge { value: *value, set: *set },
        Value::Members { members, .. } => Came::Members(members.len() as f64),
        Value::Values { kept, count, sum, min, max } => {
            let (count, sum, min, max) = (*count, *sum, *min, *max);
            Came::Values { kept, count, sum, min, max, is_time: kind == Kind::Timing }
        }
    }
}
