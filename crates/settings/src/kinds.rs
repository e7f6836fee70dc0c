//! The kinds of values: how each is read, what is refused, how `status` shows it.
//!
//! How it works: a kind is a type without values that implements `Kind`. Kinds with limits take
//! them from the accepted values of the row (`1MiB to 4GiB`), by the function that reads the value.

use std::path::PathBuf;

use format::json::Object;
use trigger::{bytes, duration_ns, fraction, switch, ErrorRules, MetricRules, Rules, Wrong};

use crate::list::Knob;

const S: f64 = 1e9;

/// A kind of values.
pub trait Kind {
    /// The value as `Config` holds it.
    type Value: Clone + Default + std::fmt::Debug;

    /// Reads a value. Errors: what was found and what is wanted.
    fn read(knob: &Knob, text: &str) -> Result<Self::Value, Wrong>;

    /// Adds the value to an object of JSON.
    fn show(object: Object, key: &str, value: &Self::Value) -> Object;
}

/// The error for a value.
fn wanted(knob: &Knob, text: &str, wanted: &str) -> Wrong {
    Wrong { what: knob.name.to_owned(), found: text.to_owned(), wanted: wanted.to_owned() }
}

/// The two values around ` to ` in the accepted values.
fn limits(knob: &Knob) -> (&'static str, &'static str) {
    knob.accepts.split_once(" to ").unwrap_or((knob.accepts, knob.accepts))
}

/// A value between the row's limits, which are read as it is.
fn within(
    knob: &Knob,
    text: &str,
    read: fn(&str, &str) -> Result<u64, Wrong>,
) -> Result<u64, Wrong> {
    let (low, high) = limits(knob);
    let value = read(knob.name, text)?;
    match (read(knob.name, low)?..=read(knob.name, high)?).contains(&value) {
        true => Ok(value),
        false => Err(wanted(knob, text, knob.accepts)),
    }
}

/// A number between the row's limits.
fn number(knob: &Knob, text: &str) -> Result<f64, Wrong> {
    let limit = |text| fraction(knob.name, text, f64::MIN, f64::MAX);
    let (low, high) = limits(knob);
    fraction(knob.name, text, limit(low)?, limit(high)?)
}

/// A duration, or `0`, `0s` for none.
fn time_or_none(name: &str, text: &str) -> Result<u64, Wrong> {
    match text.trim() {
        "0" | "0s" => Ok(0),
        text => duration_ns(name, text),
    }
}

/// Declares kinds: their values, how they are read and by which function of `Object` shown.
macro_rules! kinds {
    ($($(#[$doc:meta])* $kind:ident: $value:ty, $read:expr, $show:expr;)*) => {$(
        $(#[$doc])*
        pub struct $kind;

        impl Kind for $kind {
            type Value = $value;

            fn read(knob: &Knob, text: &str) -> Result<$value, Wrong> {
                let read: fn(&Knob, &str) -> Result<$value, Wrong> = $read;
                read(knob, text)
            }

            fn show(object: Object, key: &str, value: &$value) -> Object {
                let show: fn(Object, &str, &$value) -> Object = $show;
                show(object, key, value)
            }
        }
    )*};
}

kinds! {
    /// On or off.
    Switch: bool, |knob, text| switch(knob.name, text), |o, key, value| o.flag(key, *value);
    /// A name that is valid in a file name; the program's without one.
    Service: String, |_, text| Ok(service(text)), |o, _, _| o;
    /// Labels of the process.
    OfProcess: trigger::Labels, |_, text| trigger::labels(text), |o, _, _| o;
    /// A folder, made absolute.
    Folder: PathBuf, folder, |o, key, value| o.text(key, &value.display().to_string());
    /// Limits of requests.
    Slow: Ruled<Rules>, |_, text| ruled(text, Rules::parse), |o, key, value| o.text(key, &value.text);
    /// Rules for failed requests.
    Errors: Ruled<ErrorRules>, |_, text| ruled(text, ErrorRules::parse),
        |o, key, value| o.text(key, &value.text);
    /// Rules for metrics.
    Metrics: Ruled<MetricRules>, |_, text| ruled(text, MetricRules::parse),
        |o, key, value| o.text(key, &value.text);
    /// Bytes.
    Size: u64, |knob, text| within(knob, text, bytes), |o, key, value| o.int(key, *value);
    /// Bytes, whole pages.
    Pages: u64, |knob, text| Ok(within(knob, text, bytes)? & !4095), |o, key, value| o.int(key, *value);
    /// Nanoseconds.
    Time: u64, |knob, text| within(knob, text, duration_ns), |o, key, value| o.int(key, *value);
    /// Nanoseconds; 0: none.
    TimeOrNone: u64, |knob, text| within(knob, text, time_or_none), |o, key, value| o.int(key, *value);
    /// A whole number.
    Count: u64, |knob, text| Ok(number(knob, text)? as u64), |o, key, value| o.int(key, *value);
    /// A number.
    Number: f64, number, |o, key, value| o.number(key, *value);
    /// Times a second, as nanoseconds between them.
    Rate: u64, |knob, text| Ok((S / number(knob, text)?) as u64), |o, key, value| o.int(key, *value);
    /// 0 to 100, with or without the percent sign.
    Percent: f64, percent, |o, key, value| o.number(key, *value);
    /// Where to listen for scrapers; empty: nowhere.
    Endpoint: String,
        |knob, text| {
            let read = openmetrics::Address::parse(text);
            read.map_err(|want| wanted(knob, text, &want)).map(|_| text.trim().to_owned())
        },
        |o, key, value| o.text(key, value);
    /// Where to send by OTLP; empty: as the environment says.
    Collector: String,
        |knob, text| {
            let read = otlp::env::check(text);
            read.map_err(|want| wanted(knob, text, &want)).map(|()| text.trim().to_owned())
        },
        |o, key, value| o.text(key, value);
    /// Whether SIGUSR2 is asked for.
    Signal: bool, signal, |o, key, value| o.flag(key, *value);
    /// When the end of recording makes a capture.
    End: AtExit, end, |o, key, value| o.text(key, &format!("{value:?}").to_lowercase());
    /// A command line.
    Command: String, |_, text| Ok(text.trim().to_owned()), |o, key, value| o.text(key, value);
}

/// Rules, and the text that they were read from.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Ruled<R> {
    /// As given.
    pub text: String,
    /// What it says.
    pub rules: R,
}

fn ruled<R>(text: &str, read: fn(&str) -> Result<R, Wrong>) -> Result<Ruled<R>, Wrong> {
    Ok(Ruled { text: text.to_owned(), rules: read(text)? })
}

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

fn end(knob: &Knob, text: &str) -> Result<AtExit, Wrong> {
    match text.trim() {
        "slow" => Ok(AtExit::Slow),
        "crash" => Ok(AtExit::Crash),
        "always" => Ok(AtExit::Always),
        "never" => Ok(AtExit::Never),
        _ => Err(wanted(knob, text, knob.accepts)),
    }
}

fn signal(knob: &Knob, text: &str) -> Result<bool, Wrong> {
    match text.trim().to_ascii_uppercase().as_str() {
        "" | "OFF" => Ok(false),
        "USR2" | "SIGUSR2" => Ok(true),
        _ => Err(wanted(knob, text, knob.accepts)),
    }
}

fn percent(knob: &Knob, text: &str) -> Result<f64, Wrong> {
    let plain = text.trim().trim_end_matches('%').trim();
    number(knob, plain).map_err(|wrong| Wrong { found: text.to_owned(), ..wrong })
}

fn folder(knob: &Knob, text: &str) -> Result<PathBuf, Wrong> {
    if text.trim().is_empty() {
        return Err(wanted(knob, text, "a folder"));
    }
    let path = PathBuf::from(text);
    Ok(match std::env::current_dir() {
        Ok(here) if path.is_relative() => here.join(path),
        _ => path,
    })
}

fn service(text: &str) -> String {
    match file_safe(text) {
        name if name.is_empty() => program_name(),
        name => name,
    }
}

/// A name that is valid in a file name: letters, digits, dot, dash, underscore; at most 64 bytes.
fn file_safe(name: &str) -> String {
    let ok = |c: char| {
        if c.is_alphanumeric() || "._-".contains(c) {
            c
        } else {
            '_'
        }
    };
    let mut bytes = 0;
    let fits = |c: &char| {
        bytes += c.len_utf8();
        bytes <= 64
    };
    name.trim().trim_start_matches('.').chars().map(ok).take_while(fits).collect()
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
