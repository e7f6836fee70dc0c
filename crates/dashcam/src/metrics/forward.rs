//! Metrics to a StatsD or Dogstatsd server, when the environment names one (docs/statsd.md).
//!
//! The sink is made once a process, at the first start that finds a target, and lives as long as
//! it: its dispatcher thread starts with the first line. A forked child goes on with the same
//! settings and a dispatcher of its own.

use std::time::Duration;

use format::json::Object;
use metrics::window::Window;
use statsd::{Config, Sink, REASONS};
use sys::cell::StaticRef;

use crate::say::say;

static SINK: StaticRef<Sink> = StaticRef::empty();
/// What the end of a process waits for the network, at most.
const LAST: Duration = Duration::from_secs(2);

/// At each start: finds a target unless there is one already. Wrong settings are reported once a
/// start, and nothing is sent.
pub(crate) fn start() {
    if SINK.get().is_some() {
        return;
    }
    let loaded = statsd::load();
    loaded.complaints.iter().for_each(|complaint| say(complaint));
    let sink = Sink::start(Config { say: Some(say), ..loaded.config });
    if sink.is_on() {
        SINK.get_or_make(|| sink);
    }
}

/// In a forked child: what waits is the parent's. Two stores.
pub(crate) fn forget() {
    if let Some(sink) = SINK.get() {
        sink.after_fork();
    }
}

/// Takes a window, on `dashcam-capture`.
pub(crate) fn window(window: &Window) {
    if let Some(sink) = SINK.get() {
        sink.window(window);
    }
}

/// Waits until what was given to the sink is sent or lost. False: something still waits.
pub(crate) fn flush(timeout: Duration) -> bool {
    SINK.get().is_none_or(|sink| sink.flush(timeout))
}

/// The same for callers that cannot wait: also false as soon as it is known that nobody listens.
pub(crate) fn flush_if_heard(timeout: Duration) -> bool {
    SINK.get().is_none_or(|sink| sink.flush_if_heard(timeout))
}

/// The process ends: the last lines go out, for two seconds at most.
pub(crate) fn close() {
    if let Some(sink) = SINK.get() {
        sink.close(LAST);
    }
}

/// For `status`; "off" when no target is named.
pub(crate) fn json() -> String {
    let Some(sink) = SINK.get() else { return "\"off\"".to_owned() };
    let stats = sink.stats();
    let (lost, mut dropped) = (stats.lost(), Object::new());
    for reason in REASONS {
        dropped = dropped.int(reason.name(), stats.lost_by(reason).lines);
    }
    Object::new()
        .text("target", &stats.target)
        .int("lines", stats.produced.lines)
        .int("sent_lines", stats.sent.lines)
        .int("sent_packets", stats.sent.packets)
        .int("sent_bytes", stats.sent.bytes)
        .int("waiting_lines", stats.waiting.lines)
        .int("dropped_packets", lost.packets)
        .int("dropped_bytes", lost.bytes)
        .raw("dropped_lines", &dropped.finish())
        .int("connects", stats.connects)
        .int("without_tags", stats.without_tags)
        .text("down", stats.down.map_or("", |reason| reason.name()))
        .text("last_error", &stats.last_error)
        .finish()
}

/// Sends an event to the server. None: there is no target. False: not taken, and counted. Never
/// waits.
pub fn event(event: &statsd::Event) -> Option<bool> {
    SINK.get().map(|sink| sink.event(event))
}

/// Sends the outcome of a check. As `event`.
pub fn service_check(check: &statsd::ServiceCheck) -> Option<bool> {
    SINK.get().map(|sink| sink.service_check(check))
}
