//! Where values come from.
//!
//! How it works: in this order the environment (`DASHCAM_<NAME>`), the caller, the default. A wrong
//! value from the caller is refused; a wrong one from the environment is a complaint for stderr,
//! and the next source is used, since a typing error in a deployment must not stop a service.

use std::ffi::OsString;

use trigger::Wrong;

use crate::check::{check, check_all, named};
use crate::config::Config;
use crate::knobs::KNOBS;
use crate::nearest::nearest;

/// Settings, and what was wrong in the environment.
#[derive(Debug)]
pub struct Loaded {
    /// The effective settings.
    pub config: Config,
    /// For one line on stderr each.
    pub complaints: Vec<String>,
}

/// Settings from what the caller gives (name, value) and from the process's environment (the same,
/// of all variables). Errors: a wrong value or an unknown name from the caller.
pub fn load(
    given: &[(String, String)],
    environment: Vec<(OsString, OsString)>,
) -> Result<Loaded, Wrong> {
    let value = |name: &str| {
        let found = environment.iter().find(|(own, _)| own == name);
        found.and_then(|(_, value)| value.to_str()).map(str::to_owned)
    };
    let mut loaded = load_from(given, value)?;
    let names = environment.into_iter().filter_map(|(name, _)| name.into_string().ok());
    loaded.complaints.extend(names.filter_map(|name| misspelt(&name)));
    Ok(loaded)
}

/// As `load`, with the environment passed in.
pub fn load_from(
    given: &[(String, String)],
    environment: impl Fn(&str) -> Option<String>,
) -> Result<Loaded, Wrong> {
    check_all(given)?;
    let (mut config, mut complaints) = (Config::default(), Vec::new());
    for knob in KNOBS {
        let from_caller = given.iter().find(|(name, _)| name == knob.name);
        let fallback = from_caller.map_or(knob.default, |(_, value)| value);
        let variable = knob.variable();
        let from_env = environment(&variable).filter(|value| !value.trim().is_empty());
        let value = match from_env.as_deref().map(|text| (text, check(knob.name, text))) {
            None => fallback,
            Some((text, Ok(()))) => text,
            Some((_, Err(wrong))) => {
                complaints
                    .push(format!("{}; using {fallback:?}", Wrong { what: variable, ..wrong }));
                fallback
            }
        };
        config.set(knob.name, value)?;
    }
    let attributes = environment("OTEL_RESOURCE_ATTRIBUTES").unwrap_or_default();
    // Text of another form is the exporter's to report: docs/otlp.md.
    let attributes = otlp::env::pairs(&attributes).unwrap_or_default();
    config.labels = trigger::merged(config.labels, attributes);
    Ok(Loaded { config, complaints })
}

/// The warning for a variable that is spelt almost like one of ours. Those that resemble none of
/// the settings are left alone: an orchestrator sets `DASHCAM_PORT` and more for a service that is
/// called dashcam.
fn misspelt(variable: &str) -> Option<String> {
    let name = variable.strip_prefix("DASHCAM_")?.to_ascii_lowercase();
    let is_other = OTHERS.contains(&&*name) || name.starts_with("statsd");
    if is_other || named(&name).is_some() {
        return None;
    }
    let meant = nearest(&name)?.to_uppercase();
    Some(format!(
        "{variable}: found a name that no setting has, wanted DASHCAM_{meant}?; passed over"
    ))
}

/// Variables of ours that are no settings, and one that is not ours.
const OTHERS: &[&str] = &[
    "run",
    "root",
    "root_name",
    "package_dir",
    "children",
    "clock",
    "port",
    "shm",
    "command",
    "root_pid",
];

#[cfg(test)]
mod tests {
    use super::*;

    fn given(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(n, v)| (n.to_string(), v.to_string())).collect()
    }

    #[test]
    fn the_environment_wins_over_the_caller_and_the_caller_over_the_default() {
        let env = |name: &str| (name == "DASHCAM_SLOW").then(|| "250ms".to_owned());
        let config =
            load_from(&given(&[("slow", "1s"), ("keep", "3")]), env).expect("valid").config;
        assert_eq!((&*config.slow.text, config.keep, config.memory_bytes), ("250ms", 3, 64 << 20));
    }

    #[test]
    fn a_wrong_value_is_refused_from_the_caller_and_passed_over_from_the_environment() {
        let none = |_: &str| None;
        let refused = load_from(&given(&[("memory", "9TiB")]), none).expect_err("too large");
        assert_eq!(refused.to_string(), r#"memory: found "9TiB", wanted 1MiB to 4GiB"#);
        assert!(load_from(&given(&[("colour", "red")]), none).is_err());
        let env = |name: &str| (name == "DASHCAM_MEMORY").then(|| "lots".to_owned());
        let Loaded { config, complaints } = load_from(&[], env).expect("valid");
        assert_eq!(config.memory_bytes, 64 << 20);
        assert!(complaints[0].starts_with("DASHCAM_MEMORY: found \"lots\""));
    }

    #[test]
    fn a_misspelt_variable_is_reported_and_others_are_left_alone() {
        let message = misspelt("DASHCAM_SLO").expect("near");
        assert!(message.contains("wanted DASHCAM_SLOW?"), "{message}");
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
        let config = load_from(&[], env).expect("valid").config;
        let pair = |key: &str, value: &str| (key.to_owned(), value.to_owned());
        assert_eq!(config.labels, [pair("version", "4.2"), pair("host.name", "a,b")]);
        let broken = |name: &str| (name == "OTEL_RESOURCE_ATTRIBUTES").then(|| "x".to_owned());
        assert!(load_from(&[], broken).expect("valid").config.labels.is_empty());
        let wrong = load_from(&given(&[("labels", "4.2")]), |_| None).expect_err("no key");
        assert!(wrong.to_string().starts_with("labels: found \"4.2\""), "{wrong}");
    }

    #[test]
    fn a_service_name_cannot_leave_its_folder() {
        let config = load_from(&given(&[("service", "../a b/c")]), |_| None).expect("valid").config;
        assert_eq!(config.service, "_a_b_c");
    }
}
