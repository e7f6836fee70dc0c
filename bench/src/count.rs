//! One loop a given number of times, for callgrind: the difference of two runs, divided by the
//! difference of turns, is the instructions of one call. Unlike ns it does not vary from run to
//! run.

use crate::calls::{empty, events, spans};
use crate::limits::{bare_events, bare_spans, two_now_ns};
use crate::rivals::dashcam::Dashcam;
use crate::rivals::plain::Plain;
use crate::rivals::tracing_layers::{TracingRecording, TracingTrivial};
use crate::rivals::{Rival, Setup};

/// Names of the loops.
pub const CASES: &[&str] = &[
    "empty loop",
    "two clock reads (dashcam::now_ns)",
    "dashcam span, on",
    "dashcam span + attribute, on",
    "dashcam event, on",
    "dashcam event + attribute, on",
    "dashcam span + attribute, off",
    "dashcam event + attribute, off",
    "two rdtsc + record (limit)",
    "tracing span, trivial layer",
    "tracing span, recording layer",
];

/// Runs one loop. False: no such case.
pub fn run(case: &str, turns: u64, setup: &Setup) -> bool {
    let on = || Dashcam::on(setup);
    match case {
        "empty loop" => empty(&Plain, turns),
        "two clock reads (dashcam::now_ns)" => {
            on();
            two_now_ns(turns);
        }
        "dashcam span, on" => bare_spans(&on(), turns),
        "dashcam span + attribute, on" => spans(&on(), turns),
        "dashcam event, on" => bare_events(&on(), turns),
        "dashcam event + attribute, on" => events(&on(), turns),
        "dashcam span + attribute, off" => spans(&Dashcam::off(), turns),
        "dashcam event + attribute, off" => events(&Dashcam::off(), turns),
        "two rdtsc + record (limit)" => spans(&Plain::on(setup), turns),
        "tracing span, trivial layer" => spans(&TracingTrivial::on(setup), turns),
        "tracing span, recording layer" => spans(&TracingRecording::on(setup), turns),
        _ => return false,
    }
    dashcam::before_exit();
    true
}
