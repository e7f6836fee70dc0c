//! The rules of `on_error`, and the shares of failed requests that are over.
//!
//! What it promises: a share that is over fires with each further failure, and not without one.

use recorder::Recorder;
use settings::Config;
use trigger::{Crowd, Firing, Why};

/// A rule of `on_error`.
struct ErrorRule {
    text: String,
    /// Of a rule that judges by share.
    crowd: Option<Crowd>,
    /// Failed requests at the last reading.
    failed: u64,
}

/// All of them.
pub(crate) struct ErrorRules {
    rules: Vec<ErrorRule>,
}

impl ErrorRules {
    pub(crate) fn new(config: &Config) -> ErrorRules {
        let rules = config.on_error.rules.crowds().into_iter();
        let rules = rules.map(|(text, crowd)| ErrorRule { text, crowd, failed: 0 }).collect();
        ErrorRules { rules }
    }

    /// The text of a rule.
    pub(crate) fn text(&self, rule: u32) -> &str {
        self.rules.get(rule as usize).map_or("", |rule| rule.text.as_str())
    }

    /// Adds a firing for each share that is over and has failed requests more than at the last
    /// call. `no_request`: the bits of an id that no request has.
    pub(crate) fn shares(
        &mut self,
        recorder: &Recorder,
        (now, no_request): (u64, u64),
        firings: &mut Vec<Firing>,
    ) {
        let failures = recorder.failures();
        for (number, rule) in self.rules.iter_mut().enumerate() {
            let Some(crowd) = &mut rule.crowd else { continue };
            let (total, failed) = failures.counts(number);
            crowd.note(now, total, failed);
            let more = failed > rule.failed;
            rule.failed = failed;
            if let (true, Some(counts)) = (more, crowd.is_over()) {
                let why = Why::Share { rule: number as u32, counts };
                let request = no_request | failed;
                firings.push(Firing { request, name: 0, took_ns: 0, why, at_ns: now });
            }
        }
    }
}
