//! When a capture is made: asks the rules each pass, and posts jobs to `dashcam-capture`.
//!
//! How it works: what the recorder's mailboxes and counters report, and the requests that are open,
//! become firings. Firings of a cause captured a short while ago are counted and dropped; the gate
//! decides when the capture of the first is due; the quota of the day has the last word. SIGUSR2,
//! `snap` and the end of the process bypass the gate: a person or the settings want these.
//!
//! All policy is in crate `trigger`; here it is connected.

use std::path::PathBuf;
use std::sync::mpsc::{sync_channel, Receiver, TryRecvError};
use std::sync::Arc;

use format::region::losses;
use recorder::{Fate, OpenRequest, Recorder};
use settings::{AtExit, Config};
use sys::signal::usr2_came;
use trigger::{decayed, took_text, Crowd, Firing, Gate, Quota, Timing, Why};

use crate::captures::queue::{Fired, Job, Queue};
use crate::lock::lock;
use crate::recording::Recording;
use crate::settings::judge::judge_by;
use crate::triggers::alarms::{Alarms, Cause};
use crate::triggers::asked::{self, Asked};
use crate::triggers::error_rules::ErrorRules;
use crate::triggers::signal::signal_source;

/// Waiting for the request that fired to end, at most.
const PATIENCE_NS: u64 = 10_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;
/// The last capture begins this long before the requests that it is made for, so that there are
/// normal ones to compare with.
const BEFORE_OWED_NS: u64 = 10 * SECOND_NS;
/// Ids of firings that no request made; a request's never reach so far.
const NO_REQUEST: u64 = 1 << 63;
const NO_METRIC_REQUEST: u64 = NO_REQUEST | 1 << 62;
/// The rule of an excess whose rule was taken away.
const NO_RULE: u32 = u32::MAX;

/// A rule of `on_metric` that is over its limit.
struct MetricExcess {
    rule: u32,
    /// Which time that is, over all rules.
    number: u64,
    /// Metric, value and limit.
    text: String,
    /// A capture will hold it, or it is counted as one of too many.
    reported: bool,
    /// Number of the capture.
    capture: u64,
    /// Counted as suppressed.
    suppressed: bool,
}

/// What `dashcam-capture` will say of a capture.
type Said = Receiver<Result<PathBuf, String>>;

/// A capture on its way to the disk.
struct Making {
    number: u64,
    cause: Cause,
    due_ns: u64,
    said: Said,
}

/// The trigger's memory.
pub(crate) struct Triggers {
    recording: Arc<Recording>,
    queue: Arc<Queue>,
    alarms: Arc<Alarms>,
    config: &'static Config,
    gate: Gate,
    /// One a percentile rule, in their order.
    crowds: Vec<Crowd>,
    errors: ErrorRules,
    /// Those that were over lately, one a rule.
    excesses: Vec<MetricExcess>,
    excess_number: u64,
    quota: Quota,
    slow_seen: u64,
    failed_seen: u64,
    chosen_seen: u64,
    /// What was said to requests that still run.
    asked: Asked,
    /// Number of the next capture.
    number: u64,
    /// Those that rules wanted and `dashcam-capture` has not reported yet.
    making: Vec<Making>,
    /// The capture of the last SIGUSR2.
    signalled: Option<Said>,
    /// The last capture of ours, or the start.
    captured_ns: u64,
    /// What limits are multiplied by.
    factor: f64,
    /// The last check of what need not be checked in each pass.
    slow_checked_ns: u64,
}

impl Triggers {
    pub(crate) fn new(
        recording: Arc<Recording>,
        queue: Arc<Queue>,
        alarms: Arc<Alarms>,
        config: &'static Config,
        now: u64,
    ) -> Triggers {
        let [slow_seen, failed_seen, chosen_seen] = alarms.seen;
        Triggers {
            recording,
            queue,
            alarms,
            config,
            gate: Gate::new(timing(config)),
            crowds: config.slow.rules.crowds(),
            errors: ErrorRules::new(config),
            excesses: Vec::new(),
            excess_number: 0,
            quota: Quota::new(config.per_day),
            slow_seen,
            failed_seen,
            chosen_seen,
            asked: Asked::default(),
            number: asked::NONE + 1,
            making: Vec::new(),
            signalled: None,
            captured_ns: now,
            factor: 1.0,
            slow_checked_ns: 0,
        }
    }

    /// Takes over settings that were changed meanwhile.
    pub(crate) fn follow(&mut self, config: &'static Config) {
        if config.slow.rules != self.config.slow.rules || config.decay_ns != self.config.decay_ns {
            self.crowds = config.slow.rules.crowds();
            self.captured_ns = sys::clock::now_ns();
            self.factor = 1.0;
            judge_by(self.recording.recorder, config.slow.rules.clone());
        }
        if config.on_error.rules != self.config.on_error.rules {
            self.errors = ErrorRules::new(config);
        }
        if config.on_metric.rules != self.config.on_metric.rules {
            // Of no rule any more; those that a capture will hold are still to be reported by it.
            self.excesses.retain(|excess| excess.reported && excess.rule != NO_RULE);
            self.excesses.iter_mut().for_each(|excess| excess.rule = NO_RULE);
        }
        self.gate.set_timing(timing(config));
        self.quota.set_most(config.per_day);
        lock(&self.alarms.repeats).set_within(config.repeat_after_ns);
        self.config = config;
    }

    /// Asks all rules. `open` are the requests that run.
    pub(crate) fn check(&mut self, now: u64, open: &[OpenRequest]) {
        self.wishes();
        self.hear(now);
        if now.saturating_sub(self.slow_checked_ns) >= SECOND_NS {
            self.slow_checked_ns = now;
            self.decay(now);
            signal_source(&self.recording, &self.alarms);
        }
        let mut firings: Vec<Firing> = Vec::new();
        self.of_times(now, open, &mut firings);
        self.of_errors(now, &mut firings);
        let failures = self.recording.recorder.failures();
        self.chosen_seen = failures.take_chosen(self.chosen_seen, |slow| {
            let took_ns = u64::from(slow.detail) * 1000;
            let (request, name) = (slow.id, slow.name);
            firings.push(Firing { request, name, took_ns, why: Why::Chosen, at_ns: now });
        });
        firings.into_iter().for_each(|firing| self.offer(firing, now));
        self.of_metrics(now);
        let open_requests = self.recording.recorder.open_requests();
        self.asked.tidy(open.len(), |id| open_requests.is_open(id));
        if let Some(firing) = self.gate.due(now, |id| open_requests.is_open(id)) {
            self.due(firing, now);
        }
    }

    /// Asks the gate, and remembers what it said to a request that still runs.
    fn offer(&mut self, firing: Firing, now: u64) {
        let runs = firing.why == Why::Running;
        let (request, region) = (firing.request, self.recording.recorder.region());
        if self.is_repeat(&firing, now) {
            // Counted while it ran, or in a capture as it ran: its end is no second one.
            if runs || !self.asked.is_settled(request) {
                self.repeated(&firing);
            }
            if runs {
                self.asked.settle(request, asked::NONE);
            }
        } else if self.gate.is_cooling(now) && self.asked.is_suppressed(request) {
            // Counted while it ran: its end is no second one.
        } else if self.gate.slow(firing) {
            if runs {
                self.asked.settle(request, self.number);
            }
        } else {
            if runs {
                self.asked.suppress(request);
            }
            region.lose(losses::FIRINGS_SUPPRESSED, 1);
            self.note(&firing, Fate::Suppressed);
        }
    }

    /// Counts by name what became of a firing of a request.
    fn note(&self, firing: &Firing, fate: Fate) {
        if firing.request & NO_REQUEST == 0 {
            self.recording.recorder.rollups().note(firing.name, fate);
        }
    }

    /// Makes the captures that were asked for by a signal; also while nothing is recorded.
    pub(crate) fn wishes(&mut self) {
        // While the capture of the one before is on its way, another one wants the same.
        let waits = |said: &Said| matches!(said.try_recv(), Err(TryRecvError::Empty));
        if usr2_came() && !self.signalled.as_ref().is_some_and(waits) {
            self.signalled = Some(self.send("signal: SIGUSR2".to_owned(), None, None));
        }
    }

    fn is_repeat(&self, firing: &Firing, now: u64) -> bool {
        lock(&self.alarms.repeats).is_repeat(&cause(firing), now)
    }

    fn repeated(&self, firing: &Firing) {
        lock(&self.alarms.repeats).count(&cause(firing));
        self.note(firing, Fate::Suppressed);
        self.recording.recorder.region().lose(losses::FIRINGS_REPEATED, 1);
    }

    /// Takes back what captures stood for that could not be written.
    fn hear(&mut self, now: u64) {
        let Triggers { alarms, making, gate, quota, asked, excesses, .. } = self;
        making.retain(|one| {
            match one.said.try_recv() {
                Err(TryRecvError::Empty) => return true,
                Ok(Ok(_)) => gate.made(),
                Ok(Err(_)) | Err(TryRecvError::Disconnected) => {
                    gate.failed(one.due_ns, now);
                    quota.give_back();
                    lock(&alarms.repeats).forget(&one.cause);
                    asked.failed(one.number);
                    let lost = excesses.iter_mut().filter(|e| e.capture == one.number);
                    lost.for_each(|excess| excess.reported = false);
                }
            }
            false
        });
    }

    /// Requests past their limit, ended or running.
    fn of_times(&mut self, now: u64, open: &[OpenRequest], firings: &mut Vec<Firing>) {
        let recorder = self.recording.recorder;
        let limits = recorder.limits();
        for (crowd, group) in self.crowds.iter_mut().zip(1..) {
            let (total, over) = limits.counts(group);
            crowd.note(now, total, over);
        }
        self.slow_seen = limits.take_slow(self.slow_seen, |slow| {
            let took_ns = u64::from(slow.took_us) * 1000;
            let (request, name) = (slow.id, slow.name);
            firings.push(Firing { request, name, took_ns, why: Why::Ended, at_ns: now });
        });
        let cooling = self.gate.is_cooling(now);
        for request in open {
            let age = now.saturating_sub(request.begin_ns);
            let is_over = age >= limits.limit_ns(request.name);
            // One that ended since the list was made is reported by its end.
            if is_over
                && self.asked.wants(request.id, cooling)
                && recorder.open_requests().is_open(request.id)
            {
                let (request, name) = (request.id, request.name);
                firings.push(Firing { request, name, took_ns: age, why: Why::Running, at_ns: now });
            }
        }
        // A request judged by a percentile fires when that is over its limit.
        firings.retain(|firing| match limits.group_of(firing.name) {
            0 => true,
            group => self.crowds.get(group - 1).is_some_and(|crowd| crowd.is_over().is_some()),
        });
    }

    /// Failed requests that a rule wants, and shares of failed ones that are over.
    fn of_errors(&mut self, now: u64, firings: &mut Vec<Firing>) {
        let failures = self.recording.recorder.failures();
        self.failed_seen = failures.take_failed(self.failed_seen, |failed| {
            let (request, name) = (failed.id, failed.name);
            let why = Why::Failed { kind: failed.detail };
            firings.push(Firing { request, name, took_ns: 0, why, at_ns: now });
        });
        self.errors.shares(self.recording.recorder, (now, NO_REQUEST), firings);
    }

    /// Metrics that are over a limit: asked again at each window until a capture is to be made.
    fn of_metrics(&mut self, now: u64) {
        for excess in self.alarms.excesses.take() {
            let rule = excess.rule as u32;
            let known = self.excesses.iter().position(|old| old.rule == rule);
            if excess.is_new || known.is_none() {
                known.map(|at| self.excesses.swap_remove(at));
                self.excess_number += 1;
                let (number, text) = (self.excess_number, excess.text);
                let new = MetricExcess {
                    rule,
                    number,
                    text,
                    reported: false,
                    capture: asked::NONE,
                    suppressed: false,
                };
                self.excesses.push(new);
            } else if let Some(old) = known.and_then(|at| self.excesses.get_mut(at)) {
                if !old.reported {
                    old.text = excess.text;
                }
            }
            self.ask(rule, now);
        }
    }

    fn ask(&mut self, rule: u32, now: u64) {
        let Some(excess) = self.excesses.iter_mut().find(|e| e.rule == rule && !e.reported) else {
            return;
        };
        let request = NO_METRIC_REQUEST | excess.number;
        let firing = Firing { request, name: 0, took_ns: 0, why: Why::Metric { rule }, at_ns: now };
        let region = self.recording.recorder.region();
        if lock(&self.alarms.repeats).is_repeat(&cause(&firing), now) {
            excess.reported = true;
            self.repeated(&firing);
        } else if self.gate.is_cooling(now) {
            // Asked again after the cooldown, if it is over its limit still; counted once.
            region.lose(losses::FIRINGS_SUPPRESSED, u64::from(!excess.suppressed));
            excess.suppressed = true;
        } else {
            excess.reported = self.gate.slow(firing);
            excess.capture = self.number;
        }
    }

    fn due(&mut self, firing: Firing, now: u64) {
        if !self.quota.take(now) {
            self.recording.recorder.region().lose(losses::CAPTURES_OVER_QUOTA, 1);
            self.note(&firing, Fate::OverQuota);
            return;
        }
        let cause = cause(&firing);
        let text = self.cause_text(&firing);
        lock(&self.alarms.repeats).captured(cause, &text, now);
        let said = self.send(self.reason(&firing), self.fired(&firing), None);
        self.making.push(Making { number: self.number, cause, due_ns: now, said });
        self.number += 1;
        self.captured_ns = now;
    }

    fn send(&self, reason: String, fired: Option<Fired>, reaches_ns: Option<u64>) -> Said {
        // A capture is judged by the rules it was made under.
        let slow =
            (self.factor < 1.0).then(|| self.config.slow.rules.scaled(self.factor).to_string());
        let (done, said) = sync_channel(1);
        self.queue.post(Job { reason, slow, fired, reaches_ns, done: Some(done) });
        said
    }

    /// The request behind a firing; shares and metrics have none.
    fn fired(&self, firing: &Firing) -> Option<Fired> {
        let is_of_request = !matches!(firing.why, Why::Share { .. } | Why::Metric { .. });
        is_of_request.then(|| {
            let name = self.recording.recorder.limits().name_text(firing.name).unwrap_or_default();
            Fired { id: firing.name, name: name.to_owned(), took_ns: firing.took_ns }
        })
    }

    fn reason(&self, firing: &Firing) -> String {
        let recorder = self.recording.recorder;
        let name = |id| recorder.limits().name_text(id).unwrap_or("a request");
        let took = took_text(firing.took_ns);
        let fallen = match self.factor < 1.0 {
            true => format!(" (limits fell to {:.1} % in a quiet time)", self.factor * 100.0),
            false => String::new(),
        };
        match firing.why {
            Why::Ended => format!("slow: a request took {took}: {}{fallen}", name(firing.name)),
            Why::Running => {
                let name = name(firing.name);
                format!("slow: a request was still running after {took}: {name}{fallen}")
            }
            Why::Failed { kind } => {
                let kind = match kind {
                    0 => "an error".to_owned(),
                    kind => kind_text(self.recording.recorder, kind),
                };
                format!("error: {kind} in {}", name(firing.name))
            }
            Why::Share { rule, counts: (total, failed) } => {
                let text = self.errors.text(rule);
                format!("errors: {failed} of {total} requests failed: {text}")
            }
            Why::Metric { rule } => {
                let number = firing.request & !NO_METRIC_REQUEST;
                // A newer excess of the same rule takes its place.
                let this = self.excesses.iter().find(|excess| excess.number == number);
                let excess = this.or_else(|| self.excesses.iter().find(|e| e.rule == rule));
                format!("metric: {}", excess.map_or("", |excess| excess.text.as_str()))
            }
            Why::Chosen => {
                format!("when: chosen by the program after {took}: {}", name(firing.name))
            }
        }
    }

    /// What a firing has in common with others of its cause.
    fn cause_text(&self, firing: &Firing) -> String {
        let name = self.recording.recorder.limits().name_text(firing.name).unwrap_or("a request");
        match firing.why {
            Why::Ended | Why::Running => format!("slow: {name}"),
            Why::Share { rule, .. } => format!("errors: {}", self.errors.text(rule)),
            Why::Metric { rule } => {
                format!("metric: {}", self.config.on_metric.rules.text(rule as usize).unwrap_or(""))
            }
            Why::Chosen => format!("when: {name}"),
            Why::Failed { .. } => self.reason(firing),
        }
    }

    /// Lets limits fall while nothing fires, and sets them back when something did.
    fn decay(&mut self, now: u64) {
        let quiet_ns = now.saturating_sub(self.captured_ns);
        let factor = decayed(quiet_ns, self.config.decay_ns);
        if factor != self.factor {
            self.factor = factor;
            let rules = &self.config.slow.rules;
            let rules = if factor < 1.0 { rules.scaled(factor) } else { rules.clone() };
            judge_by(self.recording.recorder, rules);
        }
    }

    /// The end: a capture that was waiting for its post-trigger time is made now, or the one that
    /// `at_exit` asks for.
    pub(crate) fn last_words(&mut self) {
        let crash = lock(&self.alarms.crash).take();
        if let Some(firing) = self.gate.due(u64::MAX, |_| false) {
            return self.due(firing, sys::clock::now_ns());
        }
        let owed = self.gate.owed();
        let reason = match (self.config.at_exit, crash) {
            (AtExit::Never, _) => return,
            (AtExit::Crash | AtExit::Always, Some(kind)) => {
                format!("crash: ended by an uncaught {kind}")
            }
            (AtExit::Always, None) => "exit: recording ends".to_owned(),
            _ if owed.count > 0 => {
                let (count, s) = (owed.count, if owed.count == 1 { "" } else { "s" });
                format!("exit: {count} slow request{s} since the last capture")
            }
            _ => return,
        };
        // They may have been longer ago than the window, while their records are still in the box.
        let reaches_ns = owed.from_ns.map(|from_ns| from_ns.saturating_sub(BEFORE_OWED_NS));
        // Nobody is left to hear of it.
        self.send(reason, None, reaches_ns);
    }
}

fn cause(firing: &Firing) -> Cause {
    match firing.why {
        Why::Ended | Why::Running => (firing.name, 0, 0),
        Why::Failed { kind } => (firing.name, 1, kind),
        Why::Share { rule, .. } => (0, 2, rule),
        Why::Chosen => (firing.name, 3, 0),
        Why::Metric { rule } => (0, 4, rule),
    }
}

/// The text of an error's type: a walk over all names, once a capture.
fn kind_text(recorder: &Recorder, kind: u32) -> String {
    let mut found = String::new();
    recorder.tables().each_name(|id, text| {
        if id == kind {
            found = text.to_owned();
        }
    });
    found
}

fn timing(config: &Config) -> Timing {
    Timing { post_ns: config.post_ns, patience_ns: PATIENCE_NS, cooldown_ns: config.cooldown_ns }
}

#[cfg(test)]
#[allow(clippy::expect_used)]
#[path = "firing_tests.rs"]
mod tests;
