//! Settings: each declared once, here.
//!
//! A value comes from, in this order: the environment (`DASHCAM_<NAME>`), the caller, the default.
//! A wrong value from the caller is refused; a wrong one from the environment is told on stderr and
//! the next source is used, since a typing error in a deployment must not stop a service.

use std::path::PathBuf;
use std::time::Duration;

use trigger::{bytes, duration_ns, fraction, switch, ErrorRules, Rules, Wrong};

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

macro_rules! knobs {
    ($($name:ident, $default:literal, $range:literal, $sentence:literal;)*) => {
        /// All settings.
        pub const KNOBS: &[Knob] = &[$(Knob {
            name: stringify!($name), default: $default, range: $range, sentence: $sentence,
        },)*];

        impl crate::Config {
            $(
                #[doc = concat!($sentence, "\n\nAccepted: ", $range, ". Default: `", $default, "`.")]
                #[must_use]
                pub fn $name(self, value: impl ToString) -> Self {
                    self.with(stringify!($name), value)
                }
            )*
        }
    };
}

knobs! {
    enabled, "on", "on, off", "Turns everything on or off.";
    service, "", "text", "Name of the service; the program's name when empty.";
    out, "captures", "folder", "Where captures are written.";
    slow, "500ms", "500ms; checkout>250ms; p99(checkout)>50ms/30s; several with commas", "What is slow: a limit for any request, or by name.";
    memory, "64MiB", "1MiB to 4GiB", "Size of the black box.";
    window, "60s", "1s to 24h", "How far back a capture reaches.";
    post, "1s", "1ms to 10m", "How long to go on recording after the trigger before saving.";
    cooldown, "10s", "100ms to 24h", "Quiet time after a capture; doubles while slow requests go on.";
    keep, "50", "1 to 100000", "Most captures kept; the oldest go first.";
    keep_bytes, "1GiB", "1MiB to 1TiB", "Most bytes of captures kept.";
    rate_hz, "100", "1 to 1000", "Passes of the sampler a second.";
    budget_percent, "1", "0.01 to 100", "CPU time the sampler may use, percent of one core.";
    switches, "on", "on, off", "Exact context switches from the kernel (off: estimates from /proc).";
    stacks, "on", "on, off", "Python stacks.";
    metrics_series, "2000", "1 to 8192", "Most series of metrics (name, kind, tags); calls beyond are refused and counted.";
    threads, "16", "1 to 1024", "Most threads looked at in one pass.";
    on_error, "", "error; TimeoutError; *Timeout*(checkout); errors(checkout)>5%/30s; several with commas", "Which failed requests make a capture.";
    signal, "", "USR2", "The signal that makes a capture, if the program has no handler of its own for it.";
    per_day, "100", "1 to 100000", "Most captures that rules make in a day; the others are counted.";
    repeat_after, "0s", "0s to 168h", "A cause (request name and rule) captured so short ago is counted and not captured again.";
    decay, "0s", "0s to 168h", "After so long without a capture limits begin to fall, by half in each further such time; 0s: never.";
    at_exit, "slow", "slow, crash, always, never", "A capture at the end: of slow requests that are in none yet, of an uncaught exception too, always, never.";
    hook, "", "a command", "Run with the path of each capture behind its words.";
    control, "on", "on, off", "The control socket: dashcam ps, status, snap and set.";
}

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
    /// SIGUSR2 makes a capture.
    pub signal: bool,
    /// Most captures by rules a day.
    pub per_day: u64,
    /// A cause captured so short ago is not captured again, ns; 0: it is.
    pub repeat_after_ns: u64,
    /// Time until limits begin to fall, ns; 0: never.
    pub decay_ns: u64,
    /// A capture at the end.
    pub at_exit: AtExit,
    /// A command for each capture; empty: none.
    pub hook: String,
    /// Listen for `dashcam ps` and its kin.
    pub control: bool,
    /// What was wrong in the environment, for one line on stderr each.
    pub complaints: Vec<String>,
}

impl Config {
    /// Settles the settings from what the caller gives (name, value) and the process's environment.
    /// Errors: a wrong value or an unknown name from the caller.
    pub fn load(given: &[(String, String)]) -> Result<Config, Wrong> {
        Config::from(given, |name| std::env::var(name).ok())
    }

    /// As `load`, with the environment passed in.
    pub fn from(
        given: &[(String, String)],
        environment: impl Fn(&str) -> Option<String>,
    ) -> Result<Config, Wrong> {
        if let Some((name, value)) = given.iter().find(|(n, _)| !KNOBS.iter().any(|k| k.name == n))
        {
            let known: Vec<&str> = KNOBS.iter().map(|k| k.name).collect();
            return Err(Wrong {
                what: name.clone(),
                found: value.clone(),
                wanted: format!("one of the settings {}", known.join(", ")),
            });
        }
        let mut values: Vec<(&str, String)> = Vec::new();
        let mut complaints = Vec::new();
        for knob in KNOBS {
            let variable = format!("DASHCAM_{}", knob.name.to_uppercase());
            let from_env = environment(&variable).filter(|v| !v.trim().is_empty());
            let from_caller = given.iter().find(|(n, _)| n == knob.name).map(|(_, v)| v.clone());
            if let Some(text) = &from_caller {
                check(knob.name, text)?;
            }
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
        build(&values, complaints)
    }
}

/// Refuses a value that does not fit its knob.
fn check(name: &str, text: &str) -> Result<(), Wrong> {
    const S: u64 = 1_000_000_000;
    match name {
        "enabled" | "switches" | "stacks" | "control" => switch(name, text).map(drop),
        "slow" => Rules::parse(text).map(drop),
        "on_error" => ErrorRules::parse(text).map(drop),
        "signal" => usr2(text).map(drop),
        "at_exit" => at_exit(text).map(drop),
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
        _ => Ok(()),
    }
}

/// A duration, or `0`, `0s` for none.
fn time_or_none(name: &str, text: &str) -> Result<u64, Wrong> {
    match text.trim() {
        "0" | "0s" => Ok(0),
        text => duration_ns(name, text),
    }
}

/// Whether SIGUSR2 is asked for.
fn usr2(text: &str) -> Result<bool, Wrong> {
    match text.trim().to_ascii_uppercase().as_str() {
        "" | "OFF" => Ok(false),
        "USR2" | "SIGUSR2" => Ok(true),
        _ => Err(wanted("signal", text)),
    }
}

fn at_exit(text: &str) -> Result<AtExit, Wrong> {
    match text.trim() {
        "slow" => Ok(AtExit::Slow),
        "crash" => Ok(AtExit::Crash),
        "always" => Ok(AtExit::Always),
        "never" => Ok(AtExit::Never),
        _ => Err(wanted("at_exit", text)),
    }
}

/// The value found, and the knob's range.
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
        out,
        memory: bytes("memory", text("memory"))? as usize & !4095,
        switches: switch("switches", text("switches"))?,
        stacks: switch("stacks", text("stacks"))?,
        metrics_series: fraction("metrics_series", text("metrics_series"), 1.0, 8192.0)? as usize,
        control: switch("control", text("control"))?,
        signal: usr2(text("signal"))?,
        hook: text("hook").trim().to_owned(),
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
            "per_day" => self.per_day = number()? as u64,
            "repeat_after" => self.repeat_after_ns = time_or_none(name, text)?,
            "decay" => self.decay_ns = time_or_none(name, text)?,
            "at_exit" => self.at_exit = at_exit(text)?,
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

/// A name that can stand in a file name: letters, digits, dot, dash, underscore; at most 64.
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
    let script = words.iter().skip(1).find(|w| !w.starts_with('-') && !w.is_empty());
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
    fn a_service_name_cannot_leave_its_folder() {
        let config = Config::from(&given(&[("service", "../a b/c")]), |_| None).expect("valid");
        assert_eq!(config.service, "_a_b_c");
    }
}
