//! Settings from the environment: dashcam's own variables, and those that other clients read.
//!
//! What it promises: only `DASHCAM_STATSD` turns the sink on; a variable that another agent left in
//! the environment does not. `DASHCAM_STATSD=env` takes the server from those. Of the others,
//! dashcam's own win. A variable that is set but empty counts as unset; `false` is false. A value
//! that is not valid turns the sink off with a message, and never stops a service.

use std::time::Duration;

use crate::config::{parse_switch, Config, Dialect, Target, MOST_PACKET, PORT};
use crate::container;

/// Settings, and what was wrong.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The settings; `Target::Off` when no variable asks for a sink, or one was wrong.
    pub config: Config,
    /// One line each: variable, value found, value wanted.
    pub complaints: Vec<String>,
}

/// The variables `load` reads, in groups; the first of a group that is set wins.
pub const VARIABLES: &[&[&str]] = &[
    &[
        "DASHCAM_STATSD",
        "STATSD_SOCKET_PATH",
        "STATSD_SOCKET",
        "STATSD_ADDR",
        "DD_DOGSTATSD_URL",
        "DD_DOGSTATSD_SOCKET",
        "DD_AGENT_HOST",
    ],
    &["DD_DOGSTATSD_PORT"],
    &["DD_DOGSTATSD_DISABLE"],
    &["DASHCAM_STATSD_DIALECT", "STATSD_IMPLEMENTATION"],
    &["DASHCAM_STATSD_PREFIX", "STATSD_PREFIX"],
    &["DASHCAM_STATSD_TAGS", "STATSD_DEFAULT_TAGS", "DD_TAGS"],
    &["DD_ENV"],
    &["DD_SERVICE"],
    &["DD_VERSION"],
    &["DD_ENTITY_ID"],
    &["DD_ORIGIN_DETECTION_ENABLED"],
    &["DASHCAM_STATSD_PACKET", "STATSD_MAX_PACKET_SIZE"],
    &["DASHCAM_STATSD_QUEUE"],
    &["DASHCAM_STATSD_SELF", "STATSD_BATCH_STATISTICS_INTERVAL"],
    &["DASHCAM_STATSD_PACKED"],
    &["DASHCAM_STATSD_TIMESTAMPS"],
];

/// The value of `DASHCAM_STATSD` that takes the server from the other variables.
const ENV: &str = "env";

/// Variables that name a server and are not used, since `DASHCAM_STATSD` is not set.
pub fn passed_over(environment: impl Fn(&str) -> Option<String>) -> Vec<&'static str> {
    let is_set = |name: &&str| environment(name).is_some_and(|value| !value.trim().is_empty());
    match VARIABLES[0].split_first() {
        Some((own, others)) if !is_set(own) => others.iter().copied().filter(is_set).collect(),
        _ => Vec::new(),
    }
}

/// Settings from the process's environment.
pub fn load() -> Loaded {
    load_from(sys::environment::text)
}

/// As `load`, with the environment passed in.
pub fn load_from(environment: impl Fn(&str) -> Option<String>) -> Loaded {
    let get = |name: &str| {
        environment(name).map(|v| v.trim().to_owned()).filter(|value| !value.is_empty())
    };
    let mut reader = Reader { get: &get, complaints: Vec::new() };
    let config = reader.config();
    let complaints = reader.complaints;
    match complaints.is_empty() {
        true => Loaded { config, complaints },
        false => Loaded { config: Config { target: Target::Off, ..config }, complaints },
    }
}

struct Reader<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
    complaints: Vec<String>,
}

impl Reader<'_> {
    fn wrong(&mut self, name: &str, found: &str, wanted: &str) {
        self.complaints.push(format!(
            "{name}: found {found:?}, wanted {wanted}; no metrics are sent to StatsD"
        ));
    }

    /// The first of these that is set, with its name.
    fn first<'n>(&self, names: &[&'n str]) -> Option<(&'n str, String)> {
        names.iter().find_map(|name| (self.get)(name).map(|value| (*name, value)))
    }

    fn switch(&mut self, name: &str, default: bool) -> bool {
        let Some(text) = (self.get)(name) else { return default };
        parse_switch(&text).unwrap_or_else(|| {
            self.wrong(name, &text, "on or off (1/true/yes/on, 0/false/no/off)");
            default
        })
    }

    fn number(&mut self, names: &[&str], wanted: &str, range: (usize, usize)) -> Option<usize> {
        let (name, text) = self.first(names)?;
        let number = bytes(&text).filter(|n| (range.0..=range.1).contains(n));
        if number.is_none() {
            self.wrong(name, &text, wanted);
        }
        number
    }

    fn config(&mut self) -> Config {
        let target = self.target();
        if target == Target::Off {
            return Config::off();
        }
        let mut config = Config::to(target);
        let dialect = self.first(&["DASHCAM_STATSD_DIALECT", "STATSD_IMPLEMENTATION"]);
        if let Some((name, text)) = dialect {
            match text.to_ascii_lowercase().as_str() {
                "datadog" | "dogstatsd" => config.dialect = Dialect::DogStatsD,
                "statsd" => config.dialect = Dialect::StatsD,
                _ => self.wrong(name, &text, "dogstatsd (or datadog) or statsd"),
            }
        }
        let plain = config.dialect == Dialect::StatsD;
        let prefix = self.first(&["DASHCAM_STATSD_PREFIX", "STATSD_PREFIX"]);
        config.prefix = prefix.map(|(_, text)| text).unwrap_or_default();
        config.tags = self.tags();
        config.packed = self.switch("DASHCAM_STATSD_PACKED", true) && !plain;
        config.timestamps = self.switch("DASHCAM_STATSD_TIMESTAMPS", false) && !plain;
        let origin = self.switch("DD_ORIGIN_DETECTION_ENABLED", true);
        if origin && !plain && (self.get)("DD_ENTITY_ID").is_none() {
            config.container = container::id();
        }
        let packet = ["DASHCAM_STATSD_PACKET", "STATSD_MAX_PACKET_SIZE"];
        let wanted = "a number of bytes from 64 to 65507";
        if let Some(bytes) = self.number(&packet, wanted, (64, MOST_PACKET)) {
            config.packet_bytes = bytes;
        }
        let wanted = "a size from 64KiB to 1GiB";
        let queue = self.number(&["DASHCAM_STATSD_QUEUE"], wanted, (64 << 10, 1 << 30));
        config.queue_bytes = queue.unwrap_or(config.queue_bytes).max(config.packet_bytes);
        self.own_metrics(&mut config);
        config
    }

    fn target(&mut self) -> Target {
        let disabled = self.switch("DD_DOGSTATSD_DISABLE", false);
        let Some((&own, others)) = VARIABLES[0].split_first() else { return Target::Off };
        let found = match self.first(&[own]) {
            Some((_, text)) if text.eq_ignore_ascii_case(ENV) => self.first(others),
            found => found,
        };
        let Some((name, text)) = found else { return Target::Off };
        if disabled && name.starts_with("DD_") {
            return Target::Off;
        }
        let target = match name {
            "STATSD_SOCKET_PATH" | "STATSD_SOCKET" => Target::parse(&format!("unix://{text}")),
            "STATSD_ADDR" => Target::host_port(&text),
            "DD_DOGSTATSD_SOCKET" if !text.contains("://") => {
                Target::parse(&format!("unix://{text}"))
            }
            "DD_AGENT_HOST" => {
                let port = (self.get)("DD_DOGSTATSD_PORT").unwrap_or_else(|| PORT.to_string());
                match (text.contains(':'), port.parse::<u16>().is_ok_and(|p| p > 0)) {
                    (_, false) => {
                        self.wrong("DD_DOGSTATSD_PORT", &port, "a port from 1 to 65535");
                        return Target::Off;
                    }
                    (true, true) => Target::host_port(&format!("[{}]:{port}", bare(&text))),
                    (false, true) => Target::host_port(&format!("{text}:{port}")),
                }
            }
            _ => Target::parse(&text),
        };
        target.unwrap_or_else(|wanted| {
            self.wrong(name, &text, &wanted);
            Target::Off
        })
    }

    fn tags(&mut self) -> Vec<(String, String)> {
        let mut tags = Vec::new();
        let names = ["DASHCAM_STATSD_TAGS", "STATSD_DEFAULT_TAGS", "DD_TAGS"];
        if let Some((_, text)) = self.first(&names) {
            // DD_TAGS come with commas or with spaces between them.
            let comma = text.contains(',');
            let parts = text.split(|c: char| if comma { c == ',' } else { c.is_whitespace() });
            tags.extend(parts.map(str::trim).filter(|t| !t.is_empty()).map(pair));
        }
        let unified = [
            ("DD_ENTITY_ID", "dd.internal.entity_id"),
            ("DD_ENV", "env"),
            ("DD_SERVICE", "service"),
            ("DD_VERSION", "version"),
        ];
        for (name, key) in unified {
            if let Some(value) = (self.get)(name) {
                // The variable of its own wins over the same tag in the list.
                tags.retain(|(k, _)| k != key);
                tags.push((key.to_owned(), value));
            }
        }
        tags
    }

    fn own_metrics(&mut self, config: &mut Config) {
        let names = ["DASHCAM_STATSD_SELF", "STATSD_BATCH_STATISTICS_INTERVAL"];
        let Some((name, text)) = self.first(&names) else { return };
        let digits = text.strip_suffix('s').unwrap_or(&text);
        let seconds = digits.parse::<f64>().ok().filter(|s| (0.0..=86_400.0).contains(s));
        match (name, parse_switch(&text), seconds) {
            (_, Some(false), _) => config.self_every = None,
            ("DASHCAM_STATSD_SELF", Some(true), _) => {}
            (_, _, Some(0.0)) => config.self_every = None,
            (_, _, Some(seconds)) => config.self_every = Some(Duration::from_secs_f64(seconds)),
            _ => self.wrong(name, &text, "off, or every how many seconds, 0 to 86400"),
        }
    }
}

fn bare(host: &str) -> &str {
    host.trim_start_matches('[').trim_end_matches(']')
}

fn pair(tag: &str) -> (String, String) {
    let (key, value) = tag.split_once(':').unwrap_or((tag, ""));
    (key.trim().to_owned(), value.trim().to_owned())
}

/// Plain bytes, or with KiB, MiB, GiB behind the number.
fn bytes(text: &str) -> Option<usize> {
    let units = [("KiB", 10), ("MiB", 20), ("GiB", 30)];
    let found = units.iter().find_map(|(unit, shift)| Some((text.strip_suffix(unit)?, *shift)));
    let (digits, shift) = found.unwrap_or((text, 0));
    digits.trim().parse::<usize>().ok()?.checked_mul(1 << shift)
}

#[cfg(test)]
#[path = "env_tests.rs"]
mod tests;
