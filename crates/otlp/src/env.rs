//! Settings from `DASHCAM_OTLP`, and from the variables that OpenTelemetry's own SDKs read.
//!
//! What it promises: only `DASHCAM_OTLP` (the setting `otlp`) turns the exporter on; variables that
//! another agent left in the environment do not. `env` takes the collector from those. A variable
//! that is set but empty counts as unset. A value that is not valid turns the exporter off with a
//! message, and never stops a service.

use std::time::Duration;

use crate::endpoint::Endpoint;
use crate::metrics::Temporality;

/// Settings of an exporter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Where spans go; None: nowhere.
    pub traces: Option<Endpoint>,
    /// Where metrics go; None: nowhere.
    pub metrics: Option<Endpoint>,
    /// Headers of requests with spans, and with metrics: keys, tenants.
    pub headers: [Vec<(String, String)>; 2],
    /// How long one request may take.
    pub timeout: Duration,
    /// How often metrics go.
    pub interval: Duration,
    /// What sums start from.
    pub temporality: Temporality,
    /// Attributes of the resource, from `OTEL_RESOURCE_ATTRIBUTES` and `OTEL_SERVICE_NAME`.
    pub resource: Vec<(String, String)>,
    /// One line each: variable, value found, value wanted. Not empty: nothing is sent.
    pub complaints: Vec<String>,
}

/// The word for "nowhere": also 0, false, no.
fn is_off(text: &str) -> bool {
    ["off", "0", "false", "no", "none"].iter().any(|word| text.eq_ignore_ascii_case(word))
}

/// The value of `otlp` that takes the collector from OpenTelemetry's variables.
fn is_env(text: &str) -> bool {
    text.eq_ignore_ascii_case("env")
}

/// Where OpenTelemetry's SDKs send.
const ENDPOINTS: [&str; 3] = [
    "OTEL_EXPORTER_OTLP_ENDPOINT",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT",
    "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
];

/// Variables that name a collector and are not used, since the setting `otlp` is empty.
pub fn passed_over(given: &str, environment: impl Fn(&str) -> Option<String>) -> Vec<&'static str> {
    let is_set = |name: &&str| environment(name).is_some_and(|value| !value.trim().is_empty());
    match given.trim() {
        "" => ENDPOINTS.into_iter().filter(is_set).collect(),
        _ => Vec::new(),
    }
}

/// Checks a value of the setting `otlp`: an address, `env`, `off`, or nothing.
pub fn check(text: &str) -> Result<(), String> {
    match text.trim() {
        "" => Ok(()),
        text if is_off(text) || is_env(text) => Ok(()),
        text => Endpoint::parse(text).map(drop),
    }
}

/// Settings; `given` is the setting `otlp`; empty: nothing is sent.
pub fn load(given: &str, environment: impl Fn(&str) -> Option<String>) -> Settings {
    load_by(given, Endpoint::parse, environment)
}

/// The same for callers that speak TLS.
pub fn load_with_tls(given: &str, environment: impl Fn(&str) -> Option<String>) -> Settings {
    load_by(given, Endpoint::parse_with_tls, environment)
}

/// Reads an address.
type Parse = fn(&str) -> Result<Endpoint, String>;

fn load_by(given: &str, parse: Parse, environment: impl Fn(&str) -> Option<String>) -> Settings {
    let get = |name: &str| {
        environment(name).map(|v| v.trim().to_owned()).filter(|value| !value.is_empty())
    };
    let mut reader = Reader { get: &get, parse, complaints: Vec::new() };
    let mut settings = match given.trim() {
        "" => reader.settings("off"),
        given if is_env(given) => reader.settings(""),
        given => reader.settings(given),
    };
    if !reader.complaints.is_empty() {
        (settings.traces, settings.metrics) = (None, None);
    }
    // One value may be wrong for both signals.
    reader.complaints.dedup();
    settings.complaints = reader.complaints;
    settings
}

struct Reader<'a> {
    get: &'a dyn Fn(&str) -> Option<String>,
    parse: Parse,
    complaints: Vec<String>,
}

impl Reader<'_> {
    fn wrong(&mut self, name: &str, found: &str, wanted: &str) {
        let line = format!("{name}: found {found:?}, wanted {wanted}; nothing is sent by OTLP");
        self.complaints.push(line);
    }

    fn endpoint(&mut self, name: &str, text: &str) -> Option<Endpoint> {
        match (self.parse)(text) {
            Ok(endpoint) => Some(endpoint),
            Err(wanted) => {
                self.wrong(name, text, &wanted);
                None
            }
        }
    }

    /// `given`: an address, `off`, or empty: as the environment says.
    fn settings(&mut self, given: &str) -> Settings {
        let mut settings = Settings {
            traces: None,
            metrics: None,
            headers: [Vec::new(), Vec::new()],
            timeout: Duration::from_secs(10),
            interval: Duration::from_secs(10),
            temporality: Temporality::Cumulative,
            resource: Vec::new(),
            complaints: Vec::new(),
        };
        let is_disabled =
            (self.get)("OTEL_SDK_DISABLED").is_some_and(|text| text.eq_ignore_ascii_case("true"));
        if is_off(given) || given.is_empty() && is_disabled {
            return settings;
        }
        settings.traces = self.target(given, "TRACES", "v1/traces");
        settings.metrics = self.target(given, "METRICS", "v1/metrics");
        if settings.traces.is_none() && settings.metrics.is_none() {
            return settings;
        }
        let signals = [("TRACES", &settings.traces), ("METRICS", &settings.metrics)];
        for (signal, to) in signals {
            if given.is_empty() && to.is_some() {
                self.protocol(signal);
            }
        }
        settings.headers = ["TRACES", "METRICS"].map(|signal| self.headers(signal));
        let timeout = self.milliseconds("OTEL_EXPORTER_OTLP_TIMEOUT", 1);
        let interval = self.milliseconds("OTEL_METRIC_EXPORT_INTERVAL", 100);
        settings.timeout = timeout.unwrap_or(settings.timeout);
        settings.interval = interval.unwrap_or(settings.interval);
        let name = "OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE";
        if let Some(text) = (self.get)(name) {
            match text.to_ascii_lowercase().as_str() {
                "cumulative" => (),
                "delta" | "lowmemory" => settings.temporality = Temporality::Delta,
                _ => self.wrong(name, &text, "cumulative, delta or lowmemory"),
            }
        }
        settings.resource = self.resource();
        settings
    }

    /// A time, from `least` ms to ten minutes; None: not given, or refused.
    fn milliseconds(&mut self, name: &str, least: u64) -> Option<Duration> {
        let text = (self.get)(name)?;
        match text.parse() {
            Ok(ms) if (least..=600_000).contains(&ms) => Some(Duration::from_millis(ms)),
            _ => {
                self.wrong(name, &text, &format!("ms, {least} to 600000"));
                None
            }
        }
    }

    /// Attributes of the resource; `OTEL_SERVICE_NAME` wins over a name among them.
    fn resource(&mut self) -> Vec<(String, String)> {
        let mut resource = Vec::new();
        if let Some(text) = (self.get)("OTEL_RESOURCE_ATTRIBUTES") {
            match pairs(&text) {
                Some(pairs) => resource = pairs,
                None => self.wrong("OTEL_RESOURCE_ATTRIBUTES", &text, "key=value,key=value"),
            }
        }
        if let Some(name) = (self.get)("OTEL_SERVICE_NAME") {
            resource.retain(|(key, _)| key != "service.name");
            resource.push(("service.name".to_owned(), name));
        }
        resource
    }

    /// Where a signal goes: by a setting of ours, by the signal's own variable, which is a whole
    /// address, or by the general one, below which each signal has its path.
    fn target(&mut self, given: &str, signal: &str, path: &str) -> Option<Endpoint> {
        let none = (self.get)(&format!("OTEL_{signal}_EXPORTER"));
        if given.is_empty() && none.is_some_and(|text| text.eq_ignore_ascii_case("none")) {
            return None;
        }
        if !given.is_empty() {
            return self.endpoint("otlp", given).map(|base| base.join(path));
        }
        let own = format!("OTEL_EXPORTER_OTLP_{signal}_ENDPOINT");
        if let Some(text) = (self.get)(&own) {
            return self.endpoint(&own, &text);
        }
        let general = "OTEL_EXPORTER_OTLP_ENDPOINT";
        let text = (self.get)(general)?;
        self.endpoint(general, &text).map(|base| base.join(path))
    }

    fn protocol(&mut self, signal: &str) {
        let own = format!("OTEL_EXPORTER_OTLP_{signal}_PROTOCOL");
        let names = [own.as_str(), "OTEL_EXPORTER_OTLP_PROTOCOL"];
        let found = names.into_iter().find_map(|name| (self.get)(name).map(|text| (name, text)));
        if let Some((name, text)) = found.filter(|(_, text)| text != "http/protobuf") {
            self.wrong(name, &text, "http/protobuf (set DASHCAM_OTLP to where that is spoken)");
        }
    }

    fn headers(&mut self, signal: &str) -> Vec<(String, String)> {
        let own = format!("OTEL_EXPORTER_OTLP_{signal}_HEADERS");
        let names = [own.as_str(), "OTEL_EXPORTER_OTLP_HEADERS"];
        let Some((name, text)) = names.into_iter().find_map(|n| (self.get)(n).map(|t| (n, t)))
        else {
            return Vec::new();
        };
        let fits = |(key, value): &(String, String)| {
            let token = |c: char| c.is_ascii_alphanumeric() || "!#$%&'*+-.^_`|~".contains(c);
            key.chars().all(token) && !value.contains(|c: char| c.is_control())
        };
        match pairs(&text).filter(|pairs| pairs.iter().all(fits)) {
            Some(pairs) => pairs,
            // It may contain a key: the value is not shown.
            None => {
                self.wrong(name, "(a value not shown)", "key=value,key=value");
                Vec::new()
            }
        }
    }
}

/// `key=value,key=value`, values percent-encoded, as W3C Baggage has them; None: another form.
pub fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let pair = |part: &str| {
        let (key, value) = part.split_once('=')?;
        let (key, value) = (decoded(key.trim())?, decoded(value.trim())?);
        (!key.is_empty()).then_some((key, value))
    };
    text.split(',').filter(|part| !part.trim().is_empty()).map(pair).collect()
}

fn decoded(text: &str) -> Option<String> {
    let mut out = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        if byte != b'%' {
            out.push(byte);
            continue;
        }
        let mut digit = || (bytes.next()? as char).to_digit(16);
        out.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(out).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loaded(given: &str, pairs: &[(&str, &str)]) -> Settings {
        let found = |name: &str| pairs.iter().find(|(n, _)| *n == name).map(|(_, v)| v.to_string());
        load(given, found)
    }

    fn urls(settings: &Settings) -> (String, String) {
        let shown = |e: &Option<Endpoint>| e.as_ref().map_or("-".to_owned(), |e| e.to_string());
        (shown(&settings.traces), shown(&settings.metrics))
    }

    #[test]
    fn ours_wins_then_the_signals_own_then_the_general_one() {
        let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://g:1/x");
        let own = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://t:2/y");
        let is = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(urls(&loaded("", &[])), is("-", "-"));
        let both = is("http://g:1/x/v1/traces", "http://g:1/x/v1/metrics");
        assert_eq!(urls(&loaded("env", &[general])), both);
        let mixed = is("http://t:2/y", "http://g:1/x/v1/metrics");
        assert_eq!(urls(&loaded("env", &[general, own])), mixed);
        let ours = is("http://h:3/v1/traces", "http://h:3/v1/metrics");
        let elsewhere = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
        let disabled = ("OTEL_SDK_DISABLED", "true");
        assert_eq!(urls(&loaded("http://h:3", &[general, own, elsewhere, disabled])), ours);
        // Another agent's variable switches nothing on.
        assert_eq!(urls(&loaded("", &[general, own])), is("-", "-"));
        let set = |name: &str| (name == own.0).then(|| own.1.to_owned());
        assert_eq!(passed_over(" ", set), [own.0]);
        assert!(passed_over("off", set).is_empty() && check("ENV").is_ok());
        for off in ["off", "False", "0", "none"] {
            assert_eq!(urls(&loaded(off, &[general])), is("-", "-"));
        }
        assert_eq!(urls(&loaded("env", &[general, disabled])), is("-", "-"));
        let none = ("OTEL_METRICS_EXPORTER", "none");
        assert_eq!(urls(&loaded("env", &[general, none])), is("http://g:1/x/v1/traces", "-"));
    }

    #[test]
    fn tls_needs_a_caller_that_speaks_it_and_an_error_is_reported_once() {
        let spoken = load_with_tls("https://otlp.example.com", |_| None);
        let both = [spoken.traces, spoken.metrics].map(|e| e.is_some_and(|e| e.tls));
        assert_eq!((both, spoken.complaints.len()), ([true, true], 0));
        let refused = loaded("https://otlp.example.com", &[]);
        assert_eq!((urls(&refused).0, refused.complaints.len()), ("-".to_owned(), 1));
    }

    #[test]
    fn headers_and_resources_are_decoded() {
        let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://g:1");
        let headers = ("OTEL_EXPORTER_OTLP_HEADERS", "api-key=a%20b, x=1,");
        let own = ("OTEL_EXPORTER_OTLP_METRICS_HEADERS", "m=2");
        let resource =
            ("OTEL_RESOURCE_ATTRIBUTES", "service.name=a,deployment.environment=p%C3%A4");
        let name = ("OTEL_SERVICE_NAME", "billy");
        let got = loaded("env", &[general, headers, own, resource, name]);
        let pair = |a: &str, b: &str| (a.to_owned(), b.to_owned());
        assert_eq!(got.headers[0], [pair("api-key", "a b"), pair("x", "1")]);
        assert_eq!(got.headers[1], [pair("m", "2")]);
        let wanted = [pair("deployment.environment", "pä"), pair("service.name", "billy")];
        assert_eq!(got.resource, wanted);
        assert_eq!(got.complaints, [""; 0]);
    }

    #[test]
    fn an_invalid_value_turns_it_off_and_is_reported() {
        let general = ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://g:1");
        for (name, value) in [
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://g:1"),
            ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "g:1"),
            ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "grpc"),
            ("OTEL_EXPORTER_OTLP_TIMEOUT", "10s"),
            ("OTEL_EXPORTER_OTLP_METRICS_TEMPORALITY_PREFERENCE", "both"),
            ("OTEL_RESOURCE_ATTRIBUTES", "x"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "secret: word"),
            ("OTEL_EXPORTER_OTLP_HEADERS", "a=b%0d%0aX: secret"),
        ] {
            let got = loaded("env", &[(name, value), general]);
            assert_eq!(urls(&got), ("-".to_owned(), "-".to_owned()), "{name}");
            let complaints = got.complaints.join("\n");
            assert!(complaints.contains(name) && complaints.contains("wanted"), "{complaints}");
            assert!(!complaints.contains("secret"), "{complaints}");
        }
        assert!(check("https://h").is_err() && check("http://h:1").is_ok() && check("off").is_ok());
    }
}
