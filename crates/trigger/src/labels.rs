//! Labels of a process: `version=4.2,environment=prod`. They say which release, environment or pod
//! a capture is of, so that captures of many processes can be compared.
//!
//! How it works: `labels` parses the setting, `merged` adds what an orchestrator gave by
//! `OTEL_RESOURCE_ATTRIBUTES`. Order is kept, keys are unique.
//!
//! What it promises: at most `LABELS_MAX` labels of bounded length, without control characters.
//! The setting is refused as a whole if one label is wrong. Attributes of OpenTelemetry are written
//! for other tools: those that do not fit are left out, since nobody could correct them for us.

use crate::Wrong;

/// Labels in a capture. What orchestrators set by default are about ten.
const LABELS_MAX: usize = 32;
/// Characters of a key.
const KEY_MAX: usize = 64;
/// Characters of a value; a git sha has 40, a pod's name at most 253.
const VALUE_MAX: usize = 256;

/// Keys and values, in the order given.
pub type Labels = Vec<(String, String)>;

/// Parses `key=value,key=value`; empty text has no labels.
pub fn labels(text: &str) -> Result<Labels, Wrong> {
    let wrong = || Wrong {
        what: "labels".to_owned(),
        found: text.to_owned(),
        wanted: format!(
            "key=value with commas, like version=4.2,environment=prod: at most {LABELS_MAX} \
             different keys of letters, digits and . _ - / (at most {KEY_MAX}), values of at most \
             {VALUE_MAX} printable characters"
        ),
    };
    let mut found = Labels::new();
    for part in text.split(',').filter(|part| !part.trim().is_empty()) {
        let (key, value) = part.split_once('=').ok_or_else(wrong)?;
        let (key, value) = (key.trim(), value.trim());
        if !fits(key, value) || found.iter().any(|(known, _)| known == key) {
            return Err(wrong());
        }
        found.push((key.to_owned(), value.to_owned()));
    }
    if found.len() > LABELS_MAX {
        return Err(wrong());
    }
    Ok(found)
}

/// Labels given for us, then those of OpenTelemetry that fit and whose keys are not among them.
pub fn merged(own: Labels, attributes: Labels) -> Labels {
    let mut all = own;
    for (key, value) in attributes {
        let is_new = !all.iter().any(|(known, _)| *known == key);
        if is_new && fits(&key, &value) && all.len() < LABELS_MAX {
            all.push((key, value));
        }
    }
    all
}

fn fits(key: &str, value: &str) -> bool {
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-/".contains(c);
    let key_fits = (1..=KEY_MAX).contains(&key.len()) && key.chars().all(plain);
    let value_fits = (1..=VALUE_MAX).contains(&value.chars().count());
    key_fits && value_fits && !value.contains(|c: char| c.is_control())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn owned(pairs: &[(&str, &str)]) -> Labels {
        pairs.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect()
    }

    #[test]
    fn labels_are_pairs_in_the_order_given() {
        let found = labels(" version = 4.2 ,environment=prod,").expect("valid");
        assert_eq!(found, owned(&[("version", "4.2"), ("environment", "prod")]));
        assert!(labels("").expect("valid").is_empty());
    }

    #[test]
    fn a_wrong_label_is_refused_with_the_form_wanted() {
        let long = "x".repeat(VALUE_MAX + 1);
        let many = (0..=LABELS_MAX).map(|n| format!("k{n}=v,")).collect::<String>();
        let texts = ["v4.2", "=4.2", "version=", "a b=c", "a=1,a=2", "a=\u{1b}[2J"];
        for text in texts.into_iter().chain([&*format!("a={long}"), &many]) {
            let wrong = labels(text).expect_err(text).to_string();
            assert!(wrong.contains("wanted key=value with commas"), "{wrong}");
        }
    }

    #[test]
    fn attributes_of_opentelemetry_come_behind_and_replace_nothing() {
        let own = owned(&[("version", "4.2")]);
        let given = owned(&[("version", "4.1"), ("k8s.pod.name", "billy-7"), ("bad key", "x")]);
        let wanted = owned(&[("version", "4.2"), ("k8s.pod.name", "billy-7")]);
        assert_eq!(merged(own, given), wanted);
        let many = (0..99).map(|n| (format!("k{n}"), "v".to_owned())).collect();
        assert_eq!(merged(Labels::new(), many).len(), LABELS_MAX);
    }
}
