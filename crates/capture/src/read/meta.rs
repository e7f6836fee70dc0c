//! The META chunk: what the recorder wrote about itself and this capture.

use format::ids;
use format::source::SourceState;
use serde_json::Value;

/// What made the recorder save a capture, as far as readers report it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SavedFor<'a> {
    /// Requests that failed.
    Errors,
    /// A metric over its limit: what its value was, and the rule.
    Metric(&'a str),
    /// A slow request, a signal, a call of the program's.
    Other,
}

/// The content of META.
#[derive(Debug, Default, Clone)]
pub struct Meta {
    /// Name of the service.
    pub service: String,
    /// Host name.
    pub host: String,
    /// Process id.
    pub pid: u32,
    /// Why the capture was made, for people.
    pub reason: String,
    /// Recording began, CLOCK_MONOTONIC ns.
    pub start_ns: u64,
    /// The same instant, Unix epoch ns.
    pub start_epoch_ns: u64,
    /// Seed of the ids of traces and spans (`format::ids`). For a capture without one, a seed made
    /// from its process id and start.
    pub ids_seed: u64,
    /// First instant of the capture.
    pub from_ns: u64,
    /// When the copy was made.
    pub to_ns: u64,
    /// The rules of `slow=`, as text.
    pub slow: String,
    /// Sources by name: "on", "on; and what is missing", or "off: why".
    pub sources: Vec<(String, String)>,
    /// Losses by name.
    pub losses: Vec<(String, u64)>,
    /// Folders of the interpreter's own library.
    pub stdlib: Vec<String>,
    /// Folders of installed packages.
    pub site: Vec<String>,
    /// Folders (of a module of one file: its path without `.py`) of those installed packages that
    /// are the service itself.
    pub application: Vec<String>,
    /// Interpreter, as `Python 3.11.7`; empty without one.
    pub runtime: String,
    /// All fields, as written.
    pub all: Value,
}

impl Meta {
    /// Reads the JSON. Missing fields stay empty; text that is not JSON is reported in `damage`.
    pub fn parse(bytes: &[u8], damage: &mut Vec<String>) -> Meta {
        let all: Value = serde_json::from_slice(bytes).unwrap_or_else(|error| {
            damage.push(format!("META is not JSON: {error}"));
            Value::Null
        });
        let text = |key: &str| all[key].as_str().unwrap_or_default().to_owned();
        let int = |key: &str| all[key].as_u64().unwrap_or_default();
        let list = |key: &str| -> Vec<String> {
            let items = all[key].as_array().map(Vec::as_slice).unwrap_or_default();
            items.iter().filter_map(|v| v.as_str().map(str::to_owned)).collect()
        };
        let seed = all["ids_seed"].as_str().and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let made = || ids::seed_of(int("start_epoch_ns"), int("pid") as u32);
        let ids_seed = seed.filter(|seed| *seed != 0).unwrap_or_else(made);
        Meta {
            ids_seed,
            service: text("service"),
            host: text("host"),
            pid: int("pid") as u32,
            reason: text("reason"),
            start_ns: int("start_ns"),
            start_epoch_ns: int("start_epoch_ns"),
            from_ns: int("from_ns"),
            to_ns: int("to_ns"),
            slow: all["settings"]["slow"].as_str().unwrap_or_default().to_owned(),
            sources: pairs(&all["sources"], |v| v.as_str().map(str::to_owned)),
            losses: pairs(&all["losses"], Value::as_u64),
            stdlib: list("stdlib"),
            site: list("site"),
            application: list("application"),
            runtime: text("runtime"),
            all,
        }
    }

    /// Each source with its state, and that as it was written.
    pub fn source_states(&self) -> impl Iterator<Item = (&str, SourceState<&str>, &str)> {
        self.sources.iter().map(|(name, text)| (name.as_str(), SourceState::parse(text), &**text))
    }

    /// Whether a source was on, also in part.
    pub fn source_on(&self, name: &str) -> bool {
        self.source_states().any(|(n, state, _)| n == name && state.is_on())
    }

    /// What the capture was saved for. The recorder writes `error: ` of one request, `errors: ` of
    /// a share of them.
    pub fn saved_for(&self) -> SavedFor<'_> {
        match self.reason.split_once(": ") {
            Some(("error" | "errors", _)) => SavedFor::Errors,
            Some(("metric", what)) => SavedFor::Metric(what),
            _ => SavedFor::Other,
        }
    }

    /// A time of the capture as Unix epoch nanoseconds.
    pub fn epoch_ns(&self, t_ns: u64) -> u64 {
        self.start_epoch_ns.wrapping_add(t_ns).wrapping_sub(self.start_ns)
    }
}

fn pairs<T>(object: &Value, value: impl Fn(&Value) -> Option<T>) -> Vec<(String, T)> {
    let Some(map) = object.as_object() else {
        return Vec::new();
    };
    map.iter().filter_map(|(k, v)| Some((k.clone(), value(v)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_on_off_or_on_in_part() {
        let meta = Meta {
            sources: [
                ("a", "on"),
                ("b", "on; missing: sockets (none)"),
                ("c", "on: under the GIL"),
                ("d", "off: refused: perf"),
                ("e", "off"),
                ("f", "once"),
            ]
            .map(|(name, state)| (name.to_owned(), state.to_owned()))
            .to_vec(),
            ..Meta::default()
        };
        let states: Vec<_> = meta.source_states().map(|(_, state, _)| state).collect();
        use SourceState::{Off, On, Partly};
        let wanted = [
            On,
            Partly("missing: sockets (none)"),
            Partly("under the GIL"),
            Off("refused: perf"),
            Off(""),
            Off("once"),
        ];
        assert_eq!(states, wanted);
        assert!(meta.source_on("b") && !meta.source_on("e") && !meta.source_on("missing"));
    }

    #[test]
    fn errors_and_metrics_are_known_by_the_word_before_the_colon() {
        let saved = |reason: &str| {
            let meta = Meta { reason: reason.to_owned(), ..Meta::default() };
            match meta.saved_for() {
                SavedFor::Metric(what) => what.to_owned(),
                other => format!("{other:?}"),
            }
        };
        assert_eq!(saved("error: Timeout in GET /"), "Errors");
        assert_eq!(saved("errors: 5 of 10 requests failed: 50%"), "Errors");
        assert_eq!(saved("metric: queue was 12: queue>10"), "queue was 12: queue>10");
        assert_eq!(saved("errors of mine"), "Other");
        assert_eq!(saved("slow: a request took 1 s: error: x"), "Other");
    }
}
