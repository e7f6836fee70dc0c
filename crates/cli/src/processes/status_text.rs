//! The text of `dashcam status`: the state of a process on a screen.
//!
//! How it works: it is made from the JSON that the process answers with, a fact a line; settings
//! are written as `dashcam set` takes them, and only those that are not at their default.
//!
//! What it promises: what is at zero or not used is not there, and no control characters of another
//! process are. What is missing on purpose: the rest of the JSON, which `--json` prints.

use report::wrapped;
use serde_json::{Map, Value};
use settings::{Knob, KNOBS};
use trigger::show_ns;

use crate::output::columns::{bytes_text, plain};

/// In front of a fact.
const LABEL: usize = 13;
/// Captures that are listed; the newest, with their verdicts.
const MOST_CAPTURES: usize = 5;

/// The state of one process.
pub fn of(status: &Value) -> String {
    let mut text = Text { out: String::new() };
    let state = if status["on"] == true { "recording" } else { "off" };
    text.out = format!("{}, process {}: {state}\n", word(&status["service"]), status["pid"]);
    text.requests(status);
    text.captures(status);
    text.sources(status);
    text.facts("losses", &counts(&status["losses"]));
    text.facts("repeated", &counts(&status["repeated"]));
    text.facts("recognised", &list(&status["integrations_in_place"]).join(", "));
    text.facts("sends", &sends(status));
    text.cost(status);
    text.facts("last error", &word(&status["last_error"]));
    text.facts("settings", &changed(&status["settings"]));
    text.out
}

/// For a terminal of this width: what does not fit is wrapped beside its label.
pub fn within(text: &str, width: usize) -> String {
    let mut out = String::new();
    for line in text.lines() {
        let fact =
            line.strip_prefix("  ").and_then(|line| Some((line.get(..LABEL)?, line.get(LABEL..)?)));
        match fact {
            Some((label, fact)) if width > 2 * LABEL => {
                let indent = fact.len() - fact.trim_start().len();
                let lines = wrapped(fact.trim_start(), width - 2 - LABEL - indent);
                for (i, fact) in lines.into_iter().enumerate() {
                    let label = if i == 0 { label } else { "" };
                    out += &format!("  {label:LABEL$}{:indent$}{fact}\n", "");
                }
            }
            _ => out += &format!("{line}\n"),
        }
    }
    out
}

struct Text {
    out: String,
}

impl Text {
    /// A fact; nothing if there is none.
    fn facts(&mut self, label: &str, text: &str) {
        if !text.is_empty() {
            self.out += &format!("  {label:LABEL$}{text}\n");
        }
    }

    fn requests(&mut self, status: &Value) {
        let count = |name: &str| analysis::readable::thousands(number(&status[name]));
        let (begun, open, slow) =
            (count("requests"), count("open_requests"), count("slow_requests"));
        let limit = word(&status["settings"]["slow"]);
        self.facts("requests", &format!("{begun}, {open} of them open, {slow} slow ({limit})"));
        self.facts("", &word(&status["no_requests_because"]));
    }

    fn captures(&mut self, status: &Value) {
        let files = list(&status["captures"]);
        let folder = word(&status["settings"]["out"]);
        self.facts("captures", &format!("{} in {folder}", files.len()));
        let verdicts = status["verdicts"]["last"].as_array();
        let verdict = |file: &str| {
            let found = verdicts.into_iter().flatten().find(|one| one["file"] == file);
            found.map(|one| word(&one["line"])).unwrap_or_default()
        };
        for file in files.iter().rev().take(MOST_CAPTURES) {
            let name = file.rsplit('/').next().unwrap_or(file);
            self.facts("", name);
            let line = verdict(file);
            if !line.is_empty() {
                self.facts("", &format!("  {line}"));
            }
        }
        if files.len() > MOST_CAPTURES {
            self.facts("", &format!("and {} more: dashcam ls", files.len() - MOST_CAPTURES));
        }
        self.facts("not judged", &word(&status["verdicts"]["refused"]));
    }

    fn sources(&mut self, status: &Value) {
        let all = status["sources"].as_object().cloned().unwrap_or_default();
        let (on, off): (Vec<_>, Vec<_>) = all.iter().partition(|(_, state)| *state == "on");
        let on: Vec<String> = on.into_iter().map(|(name, _)| plain(name)).collect();
        self.facts("sources on", &on.join(", "));
        for (name, state) in off {
            let state = word(state);
            let why = state.strip_prefix("off: ").unwrap_or(&state);
            self.facts("source off", &format!("{}: {why}", plain(name)));
        }
    }

    fn cost(&mut self, status: &Value) {
        let sampler = &status["sampler"];
        let percent = sampler["cpu_percent"].as_f64().unwrap_or(0.0);
        let budget = sampler["budget_used"].as_f64().unwrap_or(0.0) * 100.0;
        let cpu_s = number(&sampler["cpu_ns"]) as f64 / 1e9;
        let text = format!("{percent:.2} % of a core, {budget:.0} % of its budget; {cpu_s:.1} s");
        self.facts("sampler", &text);
        let (used, all) = (number(&status["box_present_bytes"]), number(&status["box_bytes"]));
        let place = match word(&status["box"]) {
            place if place.is_empty() => {
                format!("in the process: {}", word(&status["box_not_in_a_file_because"]))
            }
            place => place,
        };
        self.facts("black box", &format!("{} of {}, {place}", bytes_text(used), bytes_text(all)));
        self.facts("", &word(&status["box_does_not_grow_because"]));
    }
}

/// `passes cut 2, spans 3` of counters that are not at zero.
fn counts(value: &Value) -> String {
    let all = value.as_object().into_iter().flatten();
    let counted = all.filter_map(|(name, value)| match value {
        Value::Number(n) if n.as_f64() == Some(0.0) => None,
        value => Some(format!("{} {}", plain(name).replace('_', " "), one(value))),
    });
    counted.collect::<Vec<String>>().join(", ")
}

/// What is sent to other programs.
fn sends(status: &Value) -> String {
    let names = ["otlp", "openmetrics", "statsd"].into_iter();
    let used = names.filter(|name| {
        let value = &status[*name];
        !(value.is_null() || *value == "off" || *value == "")
    });
    let mut all: Vec<String> = used.map(|name| format!("{name} {}", one(&status[name]))).collect();
    match number(&status["streams"]) {
        0 => (),
        n => all.push(format!("streams {n}")),
    }
    all.join("; ")
}

/// `slow=300ms window=120s`: the settings that are not at their default, as `set` takes them.
fn changed(settings: &Value) -> String {
    let none = Map::new();
    let settings = settings.as_object().unwrap_or(&none);
    let pairs = KNOBS.iter().filter_map(|knob| {
        let text = setting(knob, settings.get(knob.field)?);
        (!is_default(knob, &text)).then(|| format!("{}={}", knob.name, plain(&text)))
    });
    let pairs: Vec<String> = pairs.collect();
    match pairs.is_empty() {
        true => "all at their defaults".to_owned(),
        false => format!("{} (the others are at their defaults)", pairs.join(" ")),
    }
}

/// The value of a setting as it is given.
fn setting(knob: &Knob, value: &Value) -> String {
    match (value, value.as_u64()) {
        (Value::Bool(on), _) => if *on { "on" } else { "off" }.to_owned(),
        (_, Some(period_ns @ 1..)) if knob.field == "period_ns" => {
            (1_000_000_000 / period_ns).to_string()
        }
        (_, Some(ns)) if knob.field.ends_with("_ns") => show_ns(ns),
        (_, Some(bytes)) if knob.field.ends_with("_bytes") => bytes_text(bytes).replace(' ', ""),
        (Value::String(text), _) => text.clone(),
        (other, _) => other.to_string(),
    }
}

fn is_default(knob: &Knob, text: &str) -> bool {
    let same = |a: Option<u64>, b: Option<u64>| a.is_some() && a == b;
    let ns = |text: &str| trigger::duration_ns("", text).ok();
    let bytes = |text: &str| trigger::bytes("", text).ok();
    // The time 0 is written in several ways, and what is not used is off.
    text == knob.default
        || (knob.default.is_empty() && text == "off")
        || same(ns(text), ns(knob.default))
        || same(bytes(text), bytes(knob.default))
        || (knob.default == "0s" && text.starts_with('0'))
}

fn list(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(word).collect()
}

fn number(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn word(value: &Value) -> String {
    plain(value.as_str().unwrap_or_default())
}

fn one(value: &Value) -> String {
    match value {
        Value::String(text) => plain(text),
        Value::Object(parts) => {
            let parts = parts.iter().map(|(name, value)| format!("{}={}", plain(name), one(value)));
            parts.collect::<Vec<String>>().join(" ")
        }
        other => plain(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_state_is_a_fact_a_line_in_the_units_of_set() {
        let status = json!({
            "service": "bil\u{1b}ly", "pid": 4711, "on": true, "requests": 4812, "open_requests": 1,
            "slow_requests": 10, "no_requests_because": "", "captures": ["/srv/c/b-1.dashcam"],
            "verdicts": {"last": [{"file": "/srv/c/b-1.dashcam", "line": "sleep at a.py:1 f()"}]},
            "sources": {"stacks": "on", "switches": "off: refused", "vitals": "on"},
            "losses": {"spans": 0, "firings_suppressed": 2}, "repeated": {},
            "integrations_in_place": ["Flask"], "otlp": "off", "statsd": "off", "streams": 0,
            "sampler": {"cpu_percent": 0.531_08, "budget_used": 0.531_08, "cpu_ns": 1_880_592_939u64},
            "box": "/dev/shm/x.box", "box_bytes": 67_108_864, "box_present_bytes": 1_380_352,
            "last_error": "",
            "settings": {"out": "/srv/c", "slow": "300ms", "window_ns": 120_000_000_000u64,
                "cooldown_ns": 10_000_000_000u64, "memory_bytes": 67_108_864,
                "keep_bytes": 1 << 30, "period_ns": 10_000_000, "decay_ns": 0, "explain": false,
                "stacks": true, "keep": 50, "hook": ""},
        });
        let wanted = "\
bil?ly, process 4711: recording
  requests     4,812, 1 of them open, 10 slow (300ms)
  captures     1 in /srv/c
               b-1.dashcam
                 sleep at a.py:1 f()
  sources on   stacks, vitals
  source off   switches: refused
  losses       firings suppressed 2
  recognised   Flask
  sampler      0.53 % of a core, 53 % of its budget; 1.9 s
  black box    1.3 MiB of 64 MiB, /dev/shm/x.box
  settings     out=/srv/c slow=300ms window=120s explain=off (the others are at their defaults)
";
        assert_eq!(of(&status), wanted);
    }

    #[test]
    fn at_a_terminal_facts_are_wrapped_beside_their_labels() {
        let text = "x, process 1: off\n  sources on   ab cd ef\n               gh\n";
        let wanted = "x, process 1: off\n  sources on   ab cd ef\n               gh\n";
        assert_eq!(within(text, 40), wanted);
        let text = "  source off   switches: refused by the kernel\n";
        let wanted =
            "  source off   switches:\n               refused by\n               the kernel\n";
        assert_eq!(within(text, 27), wanted);
    }

    #[test]
    fn a_setting_at_its_default_is_not_listed() {
        let all = json!({"slow": "500ms", "window_ns": 60_000_000_000u64, "stacks": true,
            "signal": false, "otlp": "off"});
        assert_eq!(changed(&all), "all at their defaults");
    }
}
