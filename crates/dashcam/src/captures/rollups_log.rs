//! The log of all requests: how many there were, by name and hour, in a file beside the captures.
//! Readers of many captures need it to say what these are a sample of.
//!
//! How it works: `dashcam-capture` takes the recorder's counts (`recorder::Rollups`) and appends
//! them as one line of JSON to OUT/SERVICE.rollups.log (`sys::shared_log`). A line has what was
//! counted since the line before: at each full hour of the wall clock, with each capture, at the
//! end, and in a process's first hour after 10 s, 20 s, 40 s and so on. docs/rollups.md has the
//! fields.
//!
//! What it promises: the lines of a process add up to all of its requests that ended while it
//! recorded, each once. A line is at most half a second of the next hour too long. A line that
//! could not be written is counted (`requests_unlisted`) and said once. A killed process loses what
//! came since its last line: half of its life, or an hour at most; it has no line with `"last":
//! true`. A process without requests writes nothing.
//!
//! What is missing on purpose: bounds by time. Two files of about 16 MiB at most hold the lines of
//! a hundred processes for some days; `dashcam fleet index` takes them over.

use std::fmt::Write;
use std::sync::atomic::Ordering;
use std::sync::Mutex;

use format::json::{push_text, Object};
use format::region::{losses, word};
use recorder::Rollup;

use crate::lock::lock;
use crate::recording::{meta, Recording};
use crate::say::say;

/// The file is put away when it has this many bytes.
const MOST_BYTES: u64 = 16 << 20;
const HOUR_NS: u64 = 3_600_000_000_000;
/// A process's first line comes after so long, the next after twice as long, up to an hour.
const FIRST_NS: u64 = 10_000_000_000;

/// When lines are due.
struct Due {
    /// By the wall clock: begin of the next line.
    from_epoch_ns: u64,
    /// Until the next line that no full hour asks for.
    pause_ns: u64,
    /// A capture was made.
    wanted: bool,
}

impl Due {
    fn new(epoch_ns: u64) -> Due {
        Due { from_epoch_ns: epoch_ns, pause_ns: FIRST_NS, wanted: false }
    }

    fn is_now(&self, epoch_ns: u64) -> bool {
        // A clock that was set back: the interval so far is a line.
        let Some(since_ns) = epoch_ns.checked_sub(self.from_epoch_ns) else { return true };
        self.wanted
            || epoch_ns / HOUR_NS != self.from_epoch_ns / HOUR_NS
            || since_ns >= self.pause_ns
    }

    fn written(&mut self, epoch_ns: u64) {
        self.pause_ns = (2 * self.pause_ns).min(HOUR_NS);
        self.from_epoch_ns = epoch_ns;
        self.wanted = false;
    }
}

struct State {
    due: Due,
    /// Since when counts wait for the folder; None: they wait for nothing.
    unwritten_since_ns: Option<u64>,
    /// Lines so far.
    lines: u64,
    /// The last line was the end's.
    ended: bool,
    last_error: String,
}

/// The log of one start.
pub(crate) struct RollupsLog(Mutex<State>);

impl RollupsLog {
    pub(crate) fn new() -> RollupsLog {
        let due = Due::new(sys::clock::epoch_ns());
        let (unwritten_since_ns, lines, ended, last_error) = (None, 0, false, String::new());
        RollupsLog(Mutex::new(State { due, unwritten_since_ns, lines, ended, last_error }))
    }

    /// A capture was made: the counts that it belongs to are written soon.
    pub(crate) fn captured(&self) {
        lock(&self.0).due.wanted = true;
    }

    /// Appends a line if one is due.
    pub(crate) fn tick(&self, recording: &Recording) {
        let epoch_ns = sys::clock::epoch_ns();
        let mut state = lock(&self.0);
        if state.due.is_now(epoch_ns) {
            state.write(recording, epoch_ns, false);
        }
    }

    /// Appends the last line. Again behind the end of recording, for requests that ended meanwhile.
    pub(crate) fn end(&self, recording: &Recording) {
        lock(&self.0).write(recording, sys::clock::epoch_ns(), true);
    }
}

impl State {
    fn write(&mut self, recording: &Recording, to_epoch_ns: u64, last: bool) {
        let from_epoch_ns = self.unwritten_since_ns.take().unwrap_or(self.due.from_epoch_ns);
        self.due.written(to_epoch_ns);
        let config = recording.config();
        if !config.rollups {
            return;
        }
        // No folder in the program's working directory for a program that is never slow.
        if !config.out.is_dir() {
            self.unwritten_since_ns = Some(from_epoch_ns);
            return;
        }
        let mut requests = Vec::new();
        recording.recorder.rollups().take(|rollup| requests.push(rollup));
        // Without requests only to say that this was the end.
        if requests.is_empty() && (!last || self.lines == 0 || self.ended) {
            return;
        }
        self.ended = last;
        self.lines += 1;
        let times = [from_epoch_ns.min(to_epoch_ns), to_epoch_ns];
        let line = line(recording, self.lines, times, last, &requests);
        let log = config.out.join(format!("{}.rollups.log", config.service));
        let Err(error) = sys::shared_log::append(&log, &line, MOST_BYTES) else { return };
        let lost = requests.iter().map(Rollup::total).sum();
        recording.recorder.region().lose(losses::REQUESTS_UNLISTED, lost);
        let error = format!("requests are not counted in {}: {error}", log.display());
        // A failure that repeats is reported once.
        if self.last_error != error {
            say(&error);
            self.last_error = error;
        }
    }
}

fn line(
    recording: &Recording,
    number: u64,
    [from_epoch_ns, to_epoch_ns]: [u64; 2],
    last: bool,
    requests: &[Rollup],
) -> String {
    let (config, region) = (recording.config(), recording.recorder.region());
    let each: Vec<String> = requests.iter().map(|rollup| of_name(recording, rollup)).collect();
    Object::new()
        .int("schema", 1)
        .text("service", &config.service)
        .text("host", &meta::host())
        .int("pid", u64::from(std::process::id()))
        .int("started_epoch_ns", region.header(word::START_EPOCH_NS).load(Ordering::Relaxed))
        .text("run", &format!("{:016x}", recording.recorder.ids_seed()))
        .int("number", number)
        .flag("last", last)
        .int("from_epoch_ns", from_epoch_ns)
        .int("to_epoch_ns", to_epoch_ns)
        .text("version", env!("CARGO_PKG_VERSION"))
        .raw("labels", &meta::labels(config))
        .raw("requests", &format!("[{}]", each.join(",")))
        .finish()
}

fn of_name(recording: &Recording, rollup: &Rollup) -> String {
    let limits = recording.recorder.limits();
    let mut name = String::from("null");
    if let Some(text) = rollup.name.and_then(|name| limits.name_text(name)) {
        name.clear();
        push_text(&mut name, text);
    }
    let or_null = |ns: Option<u64>| ns.map_or("null".to_owned(), |ns| ns.to_string());
    let typical_ns = rollup.name.map(|name| limits.typical_ns(name));
    let limit_ns = rollup.name.map(|name| limits.limit_ns(name)).filter(|ns| *ns < u64::MAX);
    let [captured, suppressed, over_quota] = rollup.fates;
    Object::new()
        .raw("name", &name)
        .int("total", rollup.total())
        .int("slow", rollup.slow)
        .int("failed", rollup.failed)
        .int("sum_ns", rollup.sum_ns)
        .int("excess_ns", rollup.excess_ns)
        .raw("typical_ns", &or_null(typical_ns))
        .raw("limit_ns", &or_null(limit_ns))
        .int("captured", captured)
        .int("suppressed", suppressed)
        .int("over_quota", over_quota)
        .raw("histogram", &histogram(&rollup.buckets))
        .finish()
}

/// Bucket and count of the buckets that are not empty.
fn histogram(buckets: &[u64]) -> String {
    let mut text = String::from("[");
    for (bucket, count) in buckets.iter().enumerate().filter(|(_, count)| **count > 0) {
        let comma = if text.len() > 1 { "," } else { "" };
        let _ = write!(text, "{comma}[{bucket},{count}]");
    }
    text + "]"
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    #[test]
    fn lines_come_at_full_hours_with_captures_and_often_at_first() {
        let begin = 100 * HOUR_NS + 60 * S;
        let mut due = Due::new(begin);
        let mut written = Vec::new();
        for second in 0..2 * 3600 {
            let now = begin + second * S;
            if second == 4000 {
                due.wanted = true;
            }
            if due.is_now(now) {
                due.written(now);
                written.push(second);
            }
        }
        assert_eq!(written, [10, 30, 70, 150, 310, 630, 1270, 2550, 3540, 4000, 7140]);
        assert!(due.is_now(begin), "the clock was set back");
    }

    #[test]
    fn a_histogram_has_the_buckets_that_are_not_empty() {
        assert_eq!(histogram(&[0, 3, 0, 1]), "[[1,3],[3,1]]");
        assert_eq!(histogram(&[0]), "[]");
    }
}
