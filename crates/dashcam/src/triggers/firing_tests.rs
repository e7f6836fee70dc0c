//! The trigger's loop, by itself: times are passed in, jobs are taken from the queue by the test.

use std::time::Duration;

use ring::Region;
use trigger::Excess;

use super::*;
use crate::captures::queue::Next;
use crate::recording::runtime::Runtime;
use crate::settings::judge::limit_of;

/// A trigger that nothing but these tests asks, and what it works with.
struct Loop {
    recording: Arc<Recording>,
    queue: Arc<Queue>,
    alarms: Arc<Alarms>,
    triggers: Triggers,
}

impl Loop {
    fn new(settings: &[(&str, &str)]) -> Loop {
        let given: Vec<(String, String)> = settings
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
            .collect();
        let config = ::settings::load_from(&given, |_| None).expect("valid").config;
        let region = Region::in_process(1 << 20, 4711, "a test").expect("1 MiB");
        let recorder = Recorder::new(region, limit_of(config.slow.rules.clone()));
        let alarms = Arc::new(Alarms::new(recorder, config.repeat_after_ns));
        let recording = Arc::new(Recording::new(recorder, config, Runtime::default()));
        let queue = Arc::new(Queue::default());
        let (r, q, a) = (recording.clone(), queue.clone(), alarms.clone());
        let triggers = Triggers::new(r, q, a, recording.config(), 0);
        Loop { recording, queue, alarms, triggers }
    }

    /// A pass at `ms`, in which a rule of `on_metric` is over its limit if `over`; the capture that
    /// is wanted then.
    fn pass(&mut self, ms: u64, over: Option<(usize, bool)>) -> Option<Job> {
        if let Some((rule, is_new)) = over {
            let text = format!("rule {rule} at {ms} ms");
            self.alarms.excesses.post(vec![Excess { rule, is_new, text }]);
        }
        self.triggers.check((1_000_000 + ms) * 1_000_000, &[]);
        match self.queue.next(Duration::ZERO, || true, || false) {
            Next::Job(job) => Some(job),
            Next::Idle | Next::End => None,
        }
    }

    /// The capture that is wanted a post time behind that pass.
    fn capture(&mut self, ms: u64, over: Option<(usize, bool)>) -> Option<Job> {
        self.pass(ms, over).or_else(|| self.pass(ms + 1, None))
    }

    fn lost(&self, loss: usize) -> u64 {
        self.recording.recorder.region().losses()[loss]
    }
}

const RULES: (&str, &str) = ("on_metric", "depth>100, errors>5");
const NO_REPEATS: (&str, &str) = ("repeat_after", "0");

/// Reports how a capture ended, in place of `dashcam-capture`.
fn end(job: Job, result: Result<PathBuf, String>) {
    let _ = job.done.map(|done| done.send(result));
}

#[test]
fn a_capture_is_wanted_behind_the_post_time_and_none_in_the_cooldown() {
    let times = [("post", "100ms"), ("cooldown", "10s")];
    let mut trigger = Loop::new(&[RULES, NO_REPEATS, times[0], times[1]]);
    assert!(trigger.pass(0, Some((0, true))).is_none());
    assert!(trigger.pass(99, None).is_none(), "what follows is recorded first");
    let job = trigger.pass(100, None).expect("it is due");
    assert_eq!(job.reason, "metric: rule 0 at 0 ms");
    end(job, Ok(PathBuf::from("x")));
    // Another rule, all through the cooldown: counted once, and made behind it.
    for ms in (1_000..10_100).step_by(1_000) {
        assert!(trigger.pass(ms, Some((1, ms == 1_000))).is_none(), "{ms}");
    }
    assert_eq!(trigger.lost(losses::FIRINGS_SUPPRESSED), 1);
    assert!(trigger.pass(10_100, Some((1, false))).is_none());
    let job = trigger.pass(10_200, None).expect("the cooldown is over");
    assert_eq!(job.reason, "metric: rule 1 at 10100 ms");
}

#[test]
fn a_capture_that_could_not_be_written_is_tried_again_and_costs_no_quota() {
    let times = [("post", "1ms"), ("cooldown", "1s"), ("per_day", "1")];
    let mut trigger = Loop::new(&[RULES, NO_REPEATS, times[0], times[1], times[2]]);
    let job = trigger.capture(0, Some((0, true))).expect("it is due");
    end(job, Err("the disk is full".to_owned()));
    let mut again = None;
    for ms in (100..5_000).step_by(100) {
        again = again.or_else(|| trigger.capture(ms, Some((0, false))));
    }
    end(again.expect("it is over its limit still"), Ok(PathBuf::from("x")));
    // That was the one of this day.
    for ms in (5_000..20_000).step_by(100) {
        assert!(trigger.capture(ms, Some((1, ms == 5_000))).is_none(), "{ms}");
    }
    assert!(trigger.lost(losses::CAPTURES_OVER_QUOTA) > 0);
}

#[test]
fn a_cause_that_was_captured_lately_is_counted_and_not_captured_again() {
    let times = [("post", "1ms"), ("cooldown", "100ms"), ("repeat_after", "1h")];
    let mut trigger = Loop::new(&[RULES, times[0], times[1], times[2]]);
    let job = trigger.capture(0, Some((0, true))).expect("it is due");
    end(job, Ok(PathBuf::from("x")));
    assert!(trigger.capture(60_000, Some((0, true))).is_none());
    assert_eq!(trigger.lost(losses::FIRINGS_REPEATED), 1);
    let job = trigger.capture(61_000, Some((1, true))).expect("another cause");
    end(job, Ok(PathBuf::from("y")));
    assert!(trigger.capture(3_700_000, Some((0, true))).is_some(), "an hour later");
    assert!(trigger.alarms.repeated().contains("metric: depth>100"));
}

#[test]
fn the_last_capture_reaches_back_to_the_slow_requests_that_are_in_none() {
    let mut trigger = Loop::new(&[("slow", "100ms"), ("window", "5s"), ("cooldown", "10s")]);
    let slow = |request, at_s: u64| {
        let (took_ns, at_ns) = (2 * SECOND_NS, at_s * SECOND_NS);
        Firing { request, name: 0, took_ns, why: Why::Ended, at_ns }
    };
    trigger.triggers.gate.slow(slow(1, 1_000));
    assert!(trigger.pass(2_000, None).is_some());
    trigger.triggers.gate.slow(slow(2, 1_004));
    trigger.triggers.last_words();
    let Next::Job(job) = trigger.queue.next(Duration::ZERO, || true, || false) else {
        panic!("no capture at the end");
    };
    assert_eq!(job.reason, "exit: 1 slow request since the last capture");
    assert_eq!(job.reaches_ns, Some(992 * SECOND_NS), "10 s before it began, not the window");
}
