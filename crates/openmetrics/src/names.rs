//! Names in the form that Prometheus takes, and descriptions of metrics.

use sys::shelf::Shelf;

/// Descriptions kept; those beyond are not used.
const DESCRIPTIONS: usize = 4096;

/// A unit that becomes the end of a metric's name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unit(String);

impl Unit {
    /// A unit in plural, like `seconds` or `bytes`; other characters than letters, digits and `_`
    /// become `_`.
    pub fn new(text: &str) -> Unit {
        Unit(metric(text).trim_matches('_').to_ascii_lowercase())
    }
}

struct Description {
    name: Box<str>,
    help: Box<str>,
    unit: Option<Unit>,
}

static DESCRIBED: Shelf<Description, DESCRIPTIONS> = Shelf::empty();

/// Describes the metric of this name, for its HELP and UNIT lines. The first description counts,
/// and only if it came before the metric's first window. Allocates; takes no lock.
pub fn describe(name: &str, help: &str, unit: Option<Unit>) {
    let made = || Description { name: name.into(), help: help.into(), unit };
    // Full: the metric gets the HELP line of metrics without a description.
    let _ = DESCRIBED.find_or_add(hash(name), |d| *d.name == *name, made);
}

/// Help and unit, from `describe`.
pub(crate) fn described(name: &str) -> Option<(&'static str, Option<&'static str>)> {
    let found = DESCRIBED.find(hash(name), |d| *d.name == *name)?;
    let unit = found.unit.as_ref().map(|unit| unit.0.as_str()).filter(|unit| !unit.is_empty());
    Some((&*found.help, unit))
}

/// FNV-1a.
fn hash(text: &str) -> u64 {
    let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
    text.bytes().fold(0xcbf2_9ce4_8422_2325, step)
}

/// A metric's name: letters, digits, `_`; each other character becomes `_`, and a leading digit
/// gets one in front. Colons are for recording rules.
pub(crate) fn metric(name: &str) -> String {
    let plain = |c: char| if c.is_ascii_alphanumeric() { c } else { '_' };
    let name: String = name.chars().map(plain).collect();
    match name.starts_with(|c: char| c.is_ascii_digit()) || name.is_empty() {
        true => format!("_{name}"),
        false => name,
    }
}

/// A label's name; those with a meaning of their own get `tag_` in front.
fn label(key: &str) -> String {
    let key = metric(key);
    match key.starts_with("__") || key == "le" || key == "quantile" {
        true => format!("tag_{key}"),
        false => key,
    }
}

/// `a="x",b="y"`, sorted. Tags whose keys become the same label have their values joined by commas;
/// a tag without a value is `true`.
pub(crate) fn labels(tags: &[(Box<str>, Box<str>)]) -> String {
    let mut found: Vec<(String, String)> = Vec::new();
    for (key, value) in tags {
        let (key, value) = (label(key), if value.is_empty() { "true" } else { value });
        match found.iter_mut().find(|(known, _)| *known == key) {
            Some((_, values)) => {
                values.push(',');
                values.push_str(value);
            }
            None => found.push((key, value.to_owned())),
        }
    }
    found.sort();
    let pairs: Vec<String> =
        found.iter().map(|(key, value)| format!("{key}=\"{}\"", escaped(value))).collect();
    pairs.join(",")
}

/// For a label's value, and OpenMetrics' HELP.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// For HELP in the older format, where quotes are plain.
pub(crate) fn escaped_help(text: &str) -> String {
    text.replace('\\', "\\\\").replace('\n', "\\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_labels_are_made_of_what_prometheus_takes() {
        let names = ["db.query", "2xx", "", "a:b-c", "größe"].map(metric);
        assert_eq!(names, ["db_query", "_2xx", "_", "a_b_c", "gr__e"]);
        let tags = [("b", "q\"\\\n"), ("__a", "1"), ("le", "5"), ("x.y", "1"), ("x-y", "2")];
        let tags = tags.map(|(k, v)| (k.into(), v.into()));
        let text = r#"b="q\"\\\n",tag___a="1",tag_le="5",x_y="1,2""#;
        assert_eq!(labels(&tags), text);
        assert_eq!(labels(&[("canary".into(), "".into())]), "canary=\"true\"");
    }

    #[test]
    fn the_first_description_holds() {
        describe("names.test", "one", Some(Unit::new("Bytes")));
        describe("names.test", "two", None);
        assert_eq!(described("names.test"), Some(("one", Some("bytes"))));
        assert_eq!(described("names.other"), None);
    }
}
