//! Settings, made from the environment and what the caller gives. Each is declared once, in
//! `trigger::settings`.
//!
//! A value comes from, in this order: the environment (`DASHCAM_<NAME>`), the caller, the default.
//! A wrong value from the caller is refused; a wrong one from the environment is reported on stderr
//! and the next source is used, since a typing error in a deployment must not stop a service.

use std::path::PathBuf;
use std::time::Duration;

use trigger::{
    bytes, duration_ns, fraction, percent, switch, time_or_none, ErrorRules, Labels, MetricRules,
    Rules, Wrong,
};

pub use trigger::{Knob, KNOBS};

/// Settings that may change while the process records.
pub(crate) const LIVE: &[&str] = &[
    "enabled",
    "slow",
    "window",
    "post",
    "cooldown",
    "keep",
    "keep_bytes",
    "rate_hz",
    "budget_percent",
    "threads",
    "on_error",
    "on_metric",
    "per_day",
    "repeat_after",
    "decay",
    "at_exit",
];

/// When the end of recording makes a capture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtExit {
    /// Of slow requests that are in no capture yet.
    #[default]
    Slow,
    /// As `Slow`, and when an uncaught exception ended the program.
    Crash,
    /// In any case.
    Always,
    /// Not at all.
    Never,
}

/// Effective settings.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Everything on or off.
    pub enabled: bool,
    /// Name of the service.
    pub service: String,
    /// Labels of the process, for captures.
    pub labels: Labels,
    /// Where captures go, absolute.
    pub out: PathBuf,
    /// The text of the rules.
    pub slow: String,
    /// The rules.
    pub rules: Rules,
    /// Bytes of the black box.
    pub memory: usize,
    /// How far back a capture reaches, ns.
    pub window_ns: u64,
    /// Recording after the trigger, ns.
    pub post_ns: u64,
    /// Quiet time, ns.
    pub cooldown_ns: u64,
    /// Most captures kept.
    pub keep: usize,
    /// Most bytes of captures kept.
    pub keep_bytes: u64,
    /// Time between passes.
    pub period: Duration,
    /// Percent of one core.
    pub budget_percent: f64,
    /// Use switch records.
    pub switches: bool,
    /// Read Python stacks.
    pub stacks: bool,
    /// Threads a pass.
    pub threads: usize,
    /// Most series of metrics.
    pub metrics_series: usize,
    /// The text of the rules for errors.
    pub on_error: String,
    /// The rules for errors.
    pub error_rules: ErrorRules,
    /// The text of the rules for metrics.
    pub on_metric: String,
    /// The rules for metrics.
    pub metric_rules: MetricRules,
    /// Where scrapers find the metrics; empty: nowhere.
    pub openmetrics: String,
    /// SIGUSR2 makes a capture.
    pub signal: bool,
    /// Most captures by rules a day.
    pub per_day: u64,
    /// A cause captured within this time is not captured again, ns; 0: it is.
    pub repeat_after_ns: u64,
    /// Time until limits begin to fall, ns; 0: never.
    pub decay_ns: u64,
    /// A capture at the end.
    pub at_exit: AtExit,
    /// A command for each capture; empty: none.
    pub hook: String,
    /// Listen for `dashcam ps` and its kin.
    pub control: bool,
    /// Where to send by OTLP; empty: as the environment says.
    pub otlp: String,
    /// Share of requests neither slow nor failed that is sent, percent.
    pub otlp_share: f64,
    /// Send `traceparent` along.
    pub propagate: bool,
    /// Record what OpenTelemetry reports.
    pub otel: bool,
    /// What was wrong in the environment, for one line on stderr each.
    pub complaints: Vec<String>,
}

impl Config {
    /// Settles the settings from what the caller gives (name, value) and the process's environment.
    /// Errors: a wrong value or an unknown name from the caller.
    pub fn load(given: &[(String, String)]) -> Result<Config, Wrong> {
        let mut config = Config::from(given, |name| std::env::var(name).ok())?;
        let names = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
        config.complaints.extend(names.filter_map(|name| misspelt(&name)));
        Ok(config)
    }

    /// As `load`, with the environment passed in.
    pub fn from(
        given: &[(String, String)],
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Config, Wrong> {
        check_all(given)?;
        let mut values: Vec<(&str, String)> = Vec::new();
        let mut complaints = Vec::new();
        for knob in KNOBS {
            let variable = format!("DASHCAM_{}", knob.name.to_uppercase());
            let from_env = environment(&variable).filter(|v| !v.trim().is_empty());
            let from_caller = given.iter().find(|(n, _)| n == knob.name).map(|(_, v)| v.clone());
            let fallback = from_caller.unwrap_or_else(|| knob.default.to_owned());
            let value = match from_env {
                None => fallback,
                Some(text) => match check(knob.name, &text) {
                    Ok(()) => text,
                    Err(wrong) => {
                        let wrong = Wrong { what: variable, ..wrong };
                        complaints.push(format!("{wrong}; using {fallback:?}"));
                        fallback
                    }
                },
            };
            values.push((knob.name, value));
        }
        let mut config = build(&values, complaints)?;
        let attributes = environment("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
        // Text of another form is the exporter's to report: docs/otlp.md.
        let attributes = ::otlp::env::pairs(&attributes).unwrap_or_default();
        config.labels = trigger::merged(config.labels, attributes);
        Ok(config)
    }
}

/// The warning for a variable that is spelt almost like one of ours. Those that resemble none of
/// the settings are left alone: an orchestrator sets `DASHCAM_PORT` and more for a service that is
/// called dashcam.
fn misspelt(variable: &str) -> Option<String> {
    let name = variable.strip_prefix("DASHCAM_")?.to_ascii_lowercase();
    let is_other = OTHERS.contains(&&*name) || name.starts_with("statsd");
    if is_other || KNOBS.iter().any(|knob| knob.name == name) {
        return None;
    }
    let meant = trigger::nearest(&name)?.to_uppercase();
    Some(format!(
        "{variable}: found a name that no setting has, wanted DASHCAM_{meant}?; passed over"
    ))
}

/// Variables of ours that are no settings, and one that is not ours.
const OTHERS: &[&str] =
    &["run", "root", "root_name", "package_dir", "children", "clock", "port", "shm"];

/// Refuses names that no setting has, and values that do not fit theirs.
pub(crate) fn check_all(given: &[(String, String)]) -> Result<(), Wrong> {
    if let Some((name, value)) = given.iter().find(|(n, _)| !KNOBS.iter().any(|k| k.name == n)) {
        let known: Vec<&str> = KNOBS.iter().map(|k| k.name).collect();
        return Err(Wrong {
            what: name.clone(),
            found: value.clone(),
            wanted: format!("one of the settings {}", known.join(", ")),
        });
    }
    given.iter().try_for_each(|(name, value)| check(name, value))
}

/// Refuses a value that does not fit its knob.
fn check(name: &str, text: &str) -> Result<(), Wrong> {
    let wrong = |wanted| Wrong { what: name.to_owned(), found: text.to_owned(), wanted };
    match name {
        "openmetrics" => openmetrics::Address::parse(text).map(drop).map_err(wrong),
        "otlp" => ::otlp::env::check(text).map_err(wrong),
        _ => trigger::check(name, text),
    }
}

/// Whether SIGUSR2 is asked for.
fn usr2(text: &str) -> bool {
    // Checked before: nothing else is left.
    !matches!(text.trim().to_ascii_uppercase().as_str(), "" | "OFF")
}

fn at_exit(text: &str) -> AtExit {
    match text.trim() {
        "crash" => AtExit::Crash,
        "always" => AtExit::Always,
        "never" => AtExit::Never,
        _ => AtExit::Slow,
    }
}

fn build(values: &[(&str, String)], complaints: Vec<String>) -> Result<Config, Wrong> {
    let text = |name: &str| -> &str {
        values.iter().find(|(n, _)| *n == name).map_or("", |(_, v)| v.as_str())
    };
    let out = PathBuf::from(text("out"));
    let out = match std::env::current_dir() {
        Ok(here) if out.is_relative() => here.join(out),
        _ => out,
    };
    let service = match file_safe(text("service")) {
        name if name.is_empty() => program_name(),
        name => name,
    };
    let mut config = Config {
        service,
        labels: trigger::labels(text("labels"))?,
        out,
        memory: bytes("memory", text("memory"))? as usize & !4095,
        switches: switch("switches", text("switches"))?,
        stacks: switch("stacks", text("stacks"))?,
        metrics_series: fraction("metrics_series", text("metrics_series"), 1.0, 8192.0)? as usize,
        control: switch("control", text("control"))?,
        propagate: switch("propagate", text("propagate"))?,
        otel: switch("otel", text("otel"))?,
        openmetrics: text("openmetrics").trim().to_owned(),
        signal: usr2(text("signal")),
        hook: text("hook").trim().to_owned(),
        otlp: text("otlp").trim().to_owned(),
        otlp_share: percent("otlp_share", text("otlp_share"))?,
        complaints,
        ..Config::default()
    };
    for name in LIVE {
        config.set(name, text(name))?;
    }
    Ok(config)
}

impl Config {
    /// Changes one of the settings in `LIVE`. Errors: a wrong value.
    pub(crate) fn set(&mut self, name: &str, text: &str) -> Result<(), Wrong> {
        check(name, text)?;
        let number = || fraction(name, text, 0.0, f64::MAX);
        match name {
            "enabled" => self.enabled = switch(name, text)?,
            "slow" => (self.slow, self.rules) = (text.to_owned(), Rules::parse(text)?),
            "on_error" => {
                (self.on_error, self.error_rules) = (text.to_owned(), ErrorRules::parse(text)?);
            }
            "on_metric" => {
                (self.on_metric, self.metric_rules) = (text.to_owned(), MetricRules::parse(text)?);
            }
            "per_day" => self.per_day = number()? as u64,
            "repeat_after" => self.repeat_after_ns = time_or_none(name, text)?,
            "decay" => self.decay_ns = time_or_none(name, text)?,
            "at_exit" => self.at_exit = at_exit(text),
            "window" => self.window_ns = duration_ns(name, text)?,
            "post" => self.post_ns = duration_ns(name, text)?,
            "cooldown" => self.cooldown_ns = duration_ns(name, text)?,
            "keep" => self.keep = number()? as usize,
            "keep_bytes" => self.keep_bytes = bytes(name, text)?,
            "rate_hz" => self.period = Duration::from_secs_f64(1.0 / number()?),
            "budget_percent" => self.budget_percent = number()?,
            "threads" => self.threads = number()? as usize,
            _ => (),
        }
        Ok(())
    }
}

/// A name that is valid in a file name: letters, digits, dot, dash, underscore; at most 64.
fn file_safe(name: &str) -> String {
    let ok = |c: char| {
        if c.is_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '_'
        }
    };
    name.trim().trim_start_matches('.').chars().take(64).map(ok).collect()
}

/// The script's or program's name without folder and ending.
fn program_name() -> String {
    let line = std::fs::read("/proc/self/cmdline").unwrap_or_default();
    let words: Vec<String> =
        line.split(|b| *b == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect();
    let base = |word: &str| word.rsplit('/').next().unwrap_or_default().to_owned();
    let interpreter = words.first().is_some_and(|w| base(w).starts_with("python"));
    // Python's options with a word of their own.
    let takes_word = |at: usize| matches!(words[at].as_str(), "-W" | "-X");
    let is_script = |at: &usize| {
        let word = &words[*at];
        !word.starts_with('-') && !word.is_empty() && !takes_word(*at - 1)
    };
    let script = (1..words.len()).find(is_script).map(|at| &words[at]);
    let word = match (interpreter, script) {
        (true, Some(script)) => base(script),
        _ => words.first().map(|w| base(w)).unwrap_or_default(),
    };
    let name = file_safe(word.strip_suffix(".py").unwrap_or(&word));
    if name.is_empty() {
        "service".to_owned()
    } else {
        name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn given(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect()
    }

    #[test]
    fn the_environment_wins_over_the_caller_and_the_caller_over_the_default() {
        let env = |name: &str| (name == "DASHCAM_SLOW").then(|| "250ms".to_owned());
        let config = Config::from(&given(&[("slow", "1s"), ("keep", "3")]), env).expect("valid");
        assert_eq!((config.slow.as_str(), config.keep, config.memory), ("250ms", 3, 64 << 20));
    }

    #[test]
    fn a_wrong_value_is_refused_from_the_caller_and_passed_over_from_the_environment() {
        let none = |_: &str| None;
        let refused = Config::from(&given(&[("memory", "9TiB")]), none).expect_err("too large");
        assert_eq!(refused.to_string(), r#"memory: found "9TiB", wanted 1MiB to 4GiB"#);
        assert!(Config::from(&given(&[("colour", "red")]), none).is_err());
        let env = |name: &str| (name == "DASHCAM_MEMORY").then(|| "lots".to_owned());
        let config = Config::from(&[], env).expect("valid");
        assert_eq!(config.memory, 64 << 20);
        assert!(config.complaints[0].starts_with("DASHCAM_MEMORY: found \"lots\""));
    }

    #[test]
    fn every_default_is_in_its_own_range() {
        assert!(KNOBS.iter().all(|k| check(k.name, k.default).is_ok()));
    }

    #[test]
    fn a_misspelt_variable_is_reported_and_others_are_left_alone() {
        let told = misspelt("DASHCAM_SLO").expect("near");
        assert!(told.contains("wanted DASHCAM_SLOW?"), "{told}");
        for name in ["DASHCAM_SLOW", "DASHCAM_PORT", "DASHCAM_STATSD_TAGS", "DASHCAM_RUN"] {
            assert_eq!(misspelt(name), None);
        }
        assert_eq!(misspelt("DASHCAM_SERVICE_HOST"), None);
        assert_eq!(misspelt("SLOW"), None);
    }

    #[test]
    fn labels_are_ours_and_then_those_of_opentelemetry() {
        let env = |name: &str| match name {
            "DASHCAM_LABELS" => Some("version=4.2".to_owned()),
            "OTEL_RESOURCE_ATTRIBUTES" => Some("version=4.1,host.name=a%2Cb".to_owned()),
            _ => None,
        };
        let config = Config::from(&[], env).expect("valid");
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(config.labels, [pair("version", "4.2"), pair("host.name", "a,b")]);
        let broken = |name: &str| (name == "OTEL_RESOURCE_ATTRIBUTES").then(|| "x".to_owned());
        assert!(Config::from(&[], broken).expect("valid").labels.is_empty());
        let wrong = Config::from(&given(&[("labels", "4.2")]), |_| None).expect_err("no key");
        assert!(wrong.to_string().starts_with("labels: found \"4.2\""), "{wrong}");
    }

    #[test]
    fn a_service_name_cannot_leave_its_folder() {
        let config = Config::from(&given(&[("service", "../a b/c")]), |_| None).expect("valid");
        assert_eq!(config.service, "_a_b_c");
    }
}
