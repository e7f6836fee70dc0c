//! The settings: each declared once, with what it accepts.
//!
//! How it works: `settings!` passes the list to a macro: here it becomes `KNOBS`, in the host's
//! facade the methods of its `Config`. `check` refuses a value outside its range. Both the host
//! (environment, callers) and the command (`dashcam run`'s flags) call it, so a flag that the host
//! would ignore is refused before the program starts.
//!
//! What is missing on purpose: addresses (`openmetrics`, `otlp`) are checked by the crates that use
//! them.

use crate::{bytes, duration_ns, fraction, labels, switch, ErrorRules, MetricRules, Rules, Wrong};

/// One setting.
pub struct Knob {
    /// Name; the environment variable is `DASHCAM_` and the name in capitals.
    pub name: &'static str,
    /// Value when nothing is given.
    pub default: &'static str,
    /// Accepted values.
    pub range: &'static str,
    /// What it does.
    pub sentence: &'static str,
}

/// Calls the given macro with all settings: `name, default, accepted values, what it does;` each.
#[macro_export]
macro_rules! settings {
    ($take:ident) => {
        $take! {
            enabled, "on", "on, off", "Turns everything on or off.";
            service, "", "text", "Name of the service; the program's name when empty.";
            labels, "", "version=4.2,environment=prod", "Labels of the process, in each capture; with those of OTEL_RESOURCE_ATTRIBUTES.";
            out, "captures", "folder", "Where captures are written.";
            slow, "500ms", "500ms; checkout>250ms; p99(checkout)>50ms/30s; several with commas", "What is slow: a limit for any request, or by name.";
            memory, "64MiB", "1MiB to 4GiB", "Size of the black box.";
            window, "60s", "1s to 24h", "How far back a capture reaches.";
            post, "1s", "1ms to 10m", "How long to go on recording after the trigger before saving.";
            cooldown, "10s", "100ms to 24h", "Quiet time after a capture; doubles while slow requests go on.";
            keep, "50", "1 to 100000", "Most captures kept; the oldest are removed first.";
            keep_bytes, "1GiB", "1MiB to 1TiB", "Most bytes of captures kept.";
            rate_hz, "100", "1 to 1000", "Passes of the sampler a second.";
            budget_percent, "1", "0.01 to 100", "CPU time the sampler may use, percent of one core.";
            switches, "on", "on, off", "Exact context switches from the kernel (off: estimates from /proc).";
            stacks, "on", "on, off", "Python stacks.";
            metrics_series, "2000", "1 to 8192", "Most series of metrics (name, kind, tags); calls beyond are refused and counted.";
            threads, "16", "1 to 1024", "Most threads sampled in one pass.";
            on_error, "", "error; TimeoutError; *Timeout*(checkout); errors(checkout)>5%/30s; several with commas", "Which failed requests make a capture.";
            on_metric, "", "queue.depth>100; errors{route=*}>5/s/10s; p99(db.query)>50ms/30s; several with commas", "Which numbers of metrics make a capture.";
            openmetrics, "", "127.0.0.1:9464; 127.0.0.1:9464-9479; unix:/run/billy-{pid}.sock", "Where a Prometheus or OpenMetrics scraper finds the metrics; none when empty.";
            signal, "", "USR2", "The signal that makes a capture, if the program has no handler of its own for it.";
            per_day, "100", "1 to 100000", "Most captures that rules make in a day; the others are counted.";
            repeat_after, "0s", "0s to 168h", "A cause (request name and rule) captured less than this long ago is counted, not captured again.";
            decay, "0s", "0s to 168h", "After this long without a capture limits begin to fall, by half in each further such time; 0s: never.";
            at_exit, "slow", "slow, crash, always, never", "A capture at the end: of slow requests that are in none yet, of an uncaught exception too, always, never.";
            hook, "", "a command", "Run for each capture, with its path as the last argument.";
            control, "on", "on, off", "The control socket: dashcam ps, status, snap and set.";
            otlp, "", "http://HOST:4318, off", "Where slow and failed requests, a share of the others, and metrics are sent by OTLP; empty: as OTEL_EXPORTER_OTLP_ENDPOINT says.";
            otlp_share, "1", "0 to 100", "Share of the other requests that is sent, percent.";
            propagate, "off", "on, off", "Sends traceparent along with HTTP requests and Celery tasks that the program sends (Python).";
            otel, "off", "on, off", "Records the spans of OpenTelemetry instrumentations (Python, with opentelemetry-sdk).";
        }
    };
}

macro_rules! knobs {
    ($($name:ident, $default:literal, $range:literal, $sentence:literal;)*) => {
        /// All settings.
        pub const KNOBS: &[Knob] = &[$(Knob {
            name: stringify!($name), default: $default, range: $range, sentence: $sentence,
        },)*];
    };
}

settings!(knobs);

/// Refuses a value that does not fit its setting; names that are no setting are not checked.
pub fn check(name: &str, text: &str) -> Result<(), Wrong> {
    const S: u64 = 1_000_000_000;
    let one_of = |words: &[&str]| match words.contains(&text.trim()) {
        true => Ok(()),
        false => Err(wanted(name, text)),
    };
    match name {
        "enabled" | "switches" | "stacks" | "control" | "propagate" | "otel" => {
            switch(name, text).map(drop)
        }
        "labels" => labels(text).map(drop),
        "slow" => Rules::parse(text).map(drop),
        "on_error" => ErrorRules::parse(text).map(drop),
        "on_metric" => MetricRules::parse(text).map(drop),
        "signal" => match text.trim().to_ascii_uppercase().as_str() {
            "" | "OFF" | "USR2" | "SIGUSR2" => Ok(()),
            _ => Err(wanted(name, text)),
        },
        "at_exit" => one_of(&["slow", "crash", "always", "never"]),
        "per_day" => fraction(name, text, 1.0, 100_000.0).map(drop),
        "repeat_after" | "decay" => within(name, text, time_or_none(name, text)?, 0, 604_800 * S),
        "memory" => within(name, text, bytes(name, text)?, 1 << 20, 4 << 30),
        "keep_bytes" => within(name, text, bytes(name, text)?, 1 << 20, 1 << 40),
        "window" => within(name, text, duration_ns(name, text)?, S, 86_400 * S),
        "post" => within(name, text, duration_ns(name, text)?, 1_000_000, 600 * S),
        "cooldown" => within(name, text, duration_ns(name, text)?, S / 10, 86_400 * S),
        "keep" => fraction(name, text, 1.0, 100_000.0).map(drop),
        "rate_hz" => fraction(name, text, 1.0, 1000.0).map(drop),
        "budget_percent" => fraction(name, text, 0.01, 100.0).map(drop),
        "metrics_series" => fraction(name, text, 1.0, 8192.0).map(drop),
        "threads" => fraction(name, text, 1.0, 1024.0).map(drop),
        "otlp_share" => percent(name, text).map(drop),
        _ => Ok(()),
    }
}

/// 0 to 100, with or without the percent sign.
pub fn percent(name: &str, text: &str) -> Result<f64, Wrong> {
    match text.trim().trim_end_matches('%').trim() {
        "0" => Ok(0.0),
        number => fraction(name, number, 0.0, 100.0),
    }
}

/// A duration, or `0`, `0s` for none. In nanoseconds.
pub fn time_or_none(name: &str, text: &str) -> Result<u64, Wrong> {
    match text.trim() {
        "0" | "0s" => Ok(0),
        text => duration_ns(name, text),
    }
}

/// The error for a value: what was found, and the setting's range.
fn wanted(name: &str, text: &str) -> Wrong {
    let wanted = KNOBS.iter().find(|k| k.name == name).map_or("", |k| k.range).to_owned();
    Wrong { what: name.to_owned(), found: text.to_owned(), wanted }
}

fn within(name: &str, text: &str, value: u64, low: u64, high: u64) -> Result<(), Wrong> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(wanted(name, text))
}

/// The setting that a misspelt name was probably meant to be: the nearest, if one is near.
pub fn nearest(name: &str) -> Option<&'static str> {
    let near = |knob: &&Knob| (distance(name, knob.name), knob.name);
    let (far, found) = KNOBS.iter().map(|k| near(&k)).min()?;
    (far <= 1 + name.len() / 5).then_some(found)
}

/// Edit distance: letters to insert, delete or change to turn one text into the other.
fn distance(a: &str, b: &str) -> usize {
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, of_a) in a.bytes().enumerate() {
        let mut corner = row[0];
        row[0] = i + 1;
        for (j, of_b) in b.bytes().enumerate() {
            let change = corner + usize::from(of_a != of_b);
            corner = row[j + 1];
            row[j + 1] = change.min(row[j] + 1).min(corner + 1);
        }
    }
    row[b.len()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_is_in_its_own_range() {
        assert!(KNOBS.iter().all(|k| check(k.name, k.default).is_ok()));
    }

    #[test]
    fn misspelt_names_find_the_one_that_was_meant() {
        assert_eq!(nearest("slwo"), None, "two letters of four are another word");
        assert_eq!(nearest("slo"), Some("slow"));
        assert_eq!(nearest("memmory"), Some("memory"));
        assert_eq!(nearest("open_metrics"), Some("openmetrics"));
        assert_eq!(nearest("truth"), None);
    }
}
