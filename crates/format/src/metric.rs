//! The record of one metric in one window.
//!
//! ```text
//!  Metric  from | to | numbers | attributes (the tags)     name: the metric's
//!          flags: what it is (8) | DELTA
//!  numbers (f64): counter: sum; gauge: value; set: members, refused;
//!          timing, histogram, distribution: count, sum, min, max, median, 99th percentile
//! ```
//! Median and percentile are computed from the values that were kept, the other numbers from all.

use crate::words::Attributes;

/// The flag of a gauge that was only changed in the window, not set.
pub const DELTA: u16 = 1 << 8;
/// The names of the kinds of metrics, by number.
pub const KINDS: [&str; 6] = ["counter", "gauge", "timing", "histogram", "distribution", "set"];
/// How many numbers follow the times, by kind.
const NUMBERS: [usize; 6] = [1, 1, 6, 6, 6, 2];

/// The numbers.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Numbers {
    /// Sum of the increments.
    Count(f64),
    /// The value, or the sum of the changes if no value was set.
    Gauge {
        /// The number.
        value: f64,
        /// The gauge was changed but not set.
        delta: bool,
    },
    /// A metric of values.
    Values {
        /// How many values came in.
        count: f64,
        /// Their sum.
        sum: f64,
        /// The least.
        min: f64,
        /// The greatest.
        max: f64,
        /// The median of the values that were kept.
        median: f64,
        /// The 99th percentile of the values that were kept.
        p99: f64,
    },
    /// Distinct members, and how many were refused.
    Members {
        /// Distinct members.
        members: f64,
        /// Members refused.
        refused: f64,
    },
}

impl Numbers {
    /// As floats, in the order of the record.
    pub fn floats(&self) -> ([f64; 6], usize) {
        match *self {
            Numbers::Count(sum) => ([sum, 0.0, 0.0, 0.0, 0.0, 0.0], 1),
            Numbers::Gauge { value, .. } => ([value, 0.0, 0.0, 0.0, 0.0, 0.0], 1),
            Numbers::Members { members, refused } => ([members, refused, 0.0, 0.0, 0.0, 0.0], 2),
            Numbers::Values { count, sum, min, max, median, p99 } => {
                ([count, sum, min, max, median, p99], 6)
            }
        }
    }
}

/// The fixed words of a record and its flags; the tags follow.
pub fn encode(kind: u8, from_ns: u64, to_ns: u64, numbers: &Numbers) -> (u16, [u64; 8], usize) {
    let delta = matches!(numbers, Numbers::Gauge { delta: true, .. });
    let (floats, count) = numbers.floats();
    let mut words = [from_ns, to_ns, 0, 0, 0, 0, 0, 0];
    for (word, float) in words[2..].iter_mut().zip(floats) {
        *word = float.to_bits();
    }
    (u16::from(kind) | if delta { DELTA } else { 0 }, words, 2 + count)
}

/// A decoded record.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Metric<'a> {
    /// Name id.
    pub name: u32,
    /// Index into `KINDS`.
    pub kind: u8,
    /// Begin of the window.
    pub from_ns: u64,
    /// Its end.
    pub to_ns: u64,
    /// What came in.
    pub numbers: Numbers,
    /// Tags.
    pub tags: Attributes<'a>,
}

impl<'a> Metric<'a> {
    pub(crate) fn decode(name: u32, flags: u16, body: &'a [u64]) -> Option<Metric<'a>> {
        let kind = flags as u8;
        let count = *NUMBERS.get(usize::from(kind))?;
        let (&[from_ns, to_ns], rest) = body.split_first_chunk()?;
        let (numbers, rest) = rest.split_at_checked(count)?;
        let float = |at: usize| numbers.get(at).map_or(0.0, |bits| f64::from_bits(*bits));
        let numbers = match kind {
            0 => Numbers::Count(float(0)),
            1 => Numbers::Gauge { value: float(0), delta: flags & DELTA != 0 },
            5 => Numbers::Members { members: float(0), refused: float(1) },
            _ => Numbers::Values {
                count: float(0),
                sum: float(1),
                min: float(2),
                max: float(3),
                median: float(4),
                p99: float(5),
            },
        };
        Some(Metric { name, kind, from_ns, to_ns, numbers, tags: Attributes(rest) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::{decode, Builder, Kind, Record, Value, MAX_WORDS};

    #[test]
    fn a_metric_survives_encoding() {
        let values =
            Numbers::Values { count: 4.0, sum: 10.0, min: 1.0, max: 4.0, median: 2.0, p99: 4.0 };
        for (kind, numbers) in [
            (0, Numbers::Count(2.5)),
            (1, Numbers::Gauge { value: -1.0, delta: true }),
            (1, Numbers::Gauge { value: 7.0, delta: false }),
            (4, values),
            (5, Numbers::Members { members: 3.0, refused: 1.0 }),
        ] {
            let (flags, words, len) = encode(kind, 5, 6, &numbers);
            let mut made = Builder::<MAX_WORDS>::new(Kind::Metric, flags, 9, &words[..len]);
            made.attribute(1, Value::Text("eu"));
            let Some((_, Record::Metric(metric))) = decode(made.finish().0) else {
                panic!("no metric");
            };
            assert_eq!((metric.name, metric.kind, metric.from_ns, metric.to_ns), (9, kind, 5, 6));
            assert_eq!(metric.numbers, numbers);
            let mut tags = Vec::new();
            metric.tags.each(|key, value| tags.push(format!("{key}={value:?}")));
            assert_eq!(tags, ["1=Text(\"eu\")"]);
            for cut in 1..len {
                assert_eq!(Metric::decode(9, flags, &words[..cut]), None);
            }
        }
        assert_eq!(Metric::decode(9, 6, &[0; 8]), None, "a kind of a later version");
    }
}
