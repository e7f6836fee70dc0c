//! What tests of metrics share.
#![allow(dead_code)]

use metrics::window::{Kind, Reading, Value};
use metrics::{registry, Series};

pub fn series(kind: Kind, name: &str) -> &'static Series {
    registry().series_of(kind, name, &[], 1.0).expect("there is room")
}

/// Everything that windows contain of a series, added up.
#[derive(Debug, Default, PartialEq)]
pub struct Sum {
    pub readings: u64,
    pub count: f64,
    pub sum: f64,
    pub kept: Vec<f64>,
    pub extremes: Option<(f64, f64)>,
    pub members: std::collections::BTreeSet<String>,
    pub refused: u64,
    /// The last value.
    pub gauge: Option<(f64, bool)>,
}

impl Sum {
    pub fn add(&mut self, readings: &[Reading], name: &str) {
        for reading in readings.iter().filter(|r| &*r.id.name == name) {
            self.readings += 1;
            match &reading.value {
                Value::Count(n) => self.count += n,
                Value::Gauge { value, set } => {
                    self.gauge = Some((*value, *set));
                    self.sum = if *set { *value } else { self.sum + value };
                }
                Value::Values { kept, count, sum, min, max } => {
                    self.count += count;
                    self.sum += sum;
                    self.kept.extend(kept);
                    let (low, high) = self.extremes.unwrap_or((*min, *max));
                    self.extremes = Some((low.min(*min), high.max(*max)));
                }
                Value::Members { members, refused } => {
                    self.members.extend(members.iter().map(|m| m.to_string()));
                    self.refused += refused;
                }
            }
        }
    }
}

/// As a bound handle counts.
pub fn add(series: &'static metrics::Series, n: i64) {
    if !metrics::count_at_once(series, n) {
        metrics::count(series, n);
    }
}

/// One window of the process's registry.
pub fn take() -> Vec<Reading> {
    registry().take().expect("nobody else collects")
}

pub fn of(readings: &[Reading], name: &str) -> Sum {
    let mut sum = Sum::default();
    sum.add(readings, name);
    sum
}
