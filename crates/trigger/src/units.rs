//! Durations, sizes and switches as people write them.

use std::fmt;

/// A value that is not valid: of which setting, what was found, what is wanted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wrong {
    /// The setting.
    pub what: String,
    /// The value found.
    pub found: String,
    /// The form wanted, with an example.
    pub wanted: String,
}

impl fmt::Display for Wrong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: found {:?}, wanted {}", self.what, self.found, self.wanted)
    }
}

impl std::error::Error for Wrong {}

fn wrong(what: &str, found: &str, wanted: &str) -> Wrong {
    Wrong { what: what.to_owned(), found: found.to_owned(), wanted: wanted.to_owned() }
}

/// A duration with its unit: `500ms`, `1.5s`, `250us`, `2m`, `1h`. In nanoseconds.
pub fn duration_ns(what: &str, text: &str) -> Result<u64, Wrong> {
    let wanted = "a positive duration with its unit, like 500ms, 1.5s or 2m";
    let units = [("ns", 1.0), ("us", 1e3), ("ms", 1e6), ("s", 1e9), ("m", 60e9), ("h", 3600e9)];
    match scaled(text, &units) {
        Some(ns) if (1.0..1e18).contains(&ns) => Ok(ns as u64),
        _ => Err(wrong(what, text, wanted)),
    }
}

/// A size with its unit: `64MiB`, `1GiB`, `512KiB`, plain bytes too.
pub fn bytes(what: &str, text: &str) -> Result<u64, Wrong> {
    let wanted = "a size like 64MiB, 1GiB or 512KiB";
    let units = [
        ("", 1.0),
        ("B", 1.0),
        ("KiB", 1024.0),
        ("MiB", 1048576.0),
        ("GiB", 1073741824.0),
        ("TiB", 1099511627776.0),
        ("KB", 1e3),
        ("MB", 1e6),
        ("GB", 1e9),
    ];
    match scaled(text, &units) {
        Some(n) if (0.0..1e15).contains(&n) => Ok(n as u64),
        _ => Err(wrong(what, text, wanted)),
    }
}

/// A number between `low` and `high`.
pub fn fraction(what: &str, text: &str, low: f64, high: f64) -> Result<f64, Wrong> {
    match text.trim().parse::<f64>() {
        Ok(n) if (low..=high).contains(&n) => Ok(n),
        _ => Err(wrong(what, text, &format!("a number from {low} to {high}"))),
    }
}

/// On or off: 1/true/yes/on and 0/false/no/off, in any case.
pub fn switch(what: &str, text: &str) -> Result<bool, Wrong> {
    match text.trim().to_ascii_lowercase().as_str() {
        "1" | "true" | "yes" | "on" => Ok(true),
        "0" | "false" | "no" | "off" => Ok(false),
        _ => Err(wrong(what, text, "on or off (1/true/yes/on, 0/false/no/off)")),
    }
}

/// A duration for people: `500ms`, `1.5s`; three digits after the point at most.
pub fn show_ns(ns: u64) -> String {
    let (scale, unit) = match ns {
        0..1_000 => (1.0, "ns"),
        1_000..1_000_000 => (1e3, "us"),
        1_000_000..1_000_000_000 => (1e6, "ms"),
        _ => (1e9, "s"),
    };
    format!("{}{unit}", (ns as f64 / scale * 1e3).round() / 1e3)
}

/// How long something took, for a sentence: `308 ms`, `1.03 s`.
pub fn took_text(ns: u64) -> String {
    match ns / 1_000_000 {
        ms @ 0..=999 => format!("{ms} ms"),
        ms => format!("{:.2} s", ms as f64 / 1e3),
    }
}

fn scaled(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let text = text.trim();
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let number: f64 = text[..split].parse().ok()?;
    let unit = text[split..].trim();
    let scale = units.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit))?.1;
    Some(number * scale)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_in_a_sentence_has_a_space_before_its_unit() {
        let texts = [308_900_000, 999_999_999, 1_006_700_000].map(took_text);
        assert_eq!(texts, ["308 ms", "999 ms", "1.01 s"]);
    }

    #[test]
    fn durations_and_sizes_are_read_with_their_units() {
        let ns = |t| duration_ns("slow", t).ok();
        assert_eq!(ns("500ms"), Some(500_000_000));
        assert_eq!(ns(" 1.5 s "), Some(1_500_000_000));
        assert_eq!(ns("2m"), Some(120_000_000_000));
        assert_eq!([ns("500"), ns("-1s"), ns("0ms"), ns("ms"), ns("1 day")], [None; 5]);
        assert_eq!(bytes("memory", "64MiB").ok(), Some(64 << 20));
        assert_eq!(bytes("memory", "64 mib").ok(), Some(64 << 20));
        assert_eq!(bytes("memory", "lots").ok(), None);
    }

    #[test]
    fn a_wrong_value_says_what_was_found_and_what_is_wanted() {
        let text = duration_ns("slow", "fast").map_err(|e| e.to_string());
        assert_eq!(
            text,
            Err("slow: found \"fast\", wanted a positive duration with its unit, \
                 like 500ms, 1.5s or 2m"
                .to_owned())
        );
    }
}
