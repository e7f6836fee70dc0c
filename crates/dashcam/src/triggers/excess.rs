//! Rules about metrics: `dashcam-capture` gives them every window, the sampler makes captures of
//! what they say.
//!
//! How it works: windows are taken by `dashcam-capture`, firings are the sampler's; between them
//! lies a list with a flag beside it. A rule that is over says so at every window until a capture
//! is to be made for it; then it is quiet until it was under its limit once.

use ::metrics::window::{Kind, Reading, Value};
use format::region::losses;
use trigger::{Came, MetricRules, MetricWatch};

use crate::recording::Recording;
use crate::triggers::alarms::Excesses;

/// The side of `dashcam-capture`.
pub(crate) struct Judging {
    rules: MetricRules,
    watch: MetricWatch,
}

impl Judging {
    pub(crate) fn new(rules: &MetricRules) -> Judging {
        Judging { rules: rules.clone(), watch: MetricWatch::new(rules) }
    }

    /// Judges a window by the rules.
    pub(crate) fn window(
        &mut self,
        recording: &Recording,
        excesses: &Excesses,
        (from_ns, to_ns): (u64, u64),
        all: &[Reading],
    ) {
        let rules = &recording.config().on_metric.rules;
        if *rules != self.rules {
            *self = Judging::new(rules);
        }
        if self.watch.is_empty() {
            return;
        }
        for Reading { id, value } in all {
            self.watch.note(&id.name, &id.tags, came(id.kind, value));
        }
        excesses.post(self.watch.end(from_ns, to_ns));
        let refused = self.watch.take_refused();
        recording.recorder.region().lose(losses::RULE_SERIES_REFUSED, refused);
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
