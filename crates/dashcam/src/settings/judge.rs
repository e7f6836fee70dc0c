//! The rules of the settings, as the recorder asks them at the end of a request.

use std::sync::Arc;

use recorder::{ErrorJudge, Limit, Recorder};
use trigger::{ErrorRules, Rules};

/// The limit of a name by these rules.
pub(crate) fn limit_of(rules: Rules) -> recorder::LimitOf {
    Box::new(move |name: &str| Limit {
        ns: rules.limit_ns(name),
        group: rules.crowd_of(name).map_or(0, |crowd| crowd + 1),
    })
}

/// Judges requests by these rules from here on.
pub(crate) fn judge_by(recorder: &Recorder, rules: Rules) {
    recorder.set_limits(limit_of(rules));
}

/// `on_error` as the recorder asks it.
struct Judge(ErrorRules);

impl ErrorJudge for Judge {
    fn of_name(&self, name: &str) -> u16 {
        self.0.of_name(name)
    }

    fn of_kind(&self, kind: &str) -> u16 {
        self.0.of_kind(kind)
    }

    fn single(&self) -> u16 {
        self.0.single()
    }
}

/// Judges failed requests by these rules from here on.
pub(crate) fn judge_errors(recorder: &Recorder, rules: ErrorRules) {
    recorder.set_error_rules(Arc::new(Judge(rules)));
}
