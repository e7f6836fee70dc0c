//! Windows of metrics as OTLP's metrics.
//!
//! | metric | in OTLP |
//! | --- | --- |
//! | counter | monotonic sum; a sum that may fall from the moment on that it was counted down |
//! | gauge | gauge: the last value, with the changes behind it |
//! | timing, histogram, distribution | histogram, OpenTelemetry's usual bounds; timing in `ms` |
//! | set | gauge: distinct members since the time before |
//!
//! Sums are cumulative, as collectors and Prometheus want them, so that a request that was lost
//! takes nothing from the next one's sum; or deltas, when `OTEL_..._TEMPORALITY_PREFERENCE` asks
//! for them. Count, sum and range of values are exact; buckets are those of the values that were
//! kept, each for as many as it stands for.

use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

use ::metrics::window::{Id, Kind, Value, Window};
use ::otlp::metrics::{Metric, Numbers, Point, Shape, Temporality};
use ::otlp::Attribute;

/// The bounds that OpenTelemetry's SDKs begin with.
const BOUNDS: [f64; 15] = [
    0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 100.0, 250.0, 500.0, 750.0, 1000.0, 2500.0, 5000.0, 7500.0,
    10_000.0,
];
/// Members of one set that are remembered until the next export.
const MOST_MEMBERS: usize = 10_000;

enum State {
    Sum { total: f64, falls: bool },
    Last(f64),
    Buckets { counts: [u64; BOUNDS.len() + 1], sum: f64, range: Option<(f64, f64)> },
    Members(HashSet<Arc<str>>),
}

/// All series so far; as many as the registry of metrics has at most.
pub(super) struct Series {
    temporality: Temporality,
    states: HashMap<Id, State>,
    /// Something came in since the last export.
    fresh: HashSet<Id>,
    /// Counting began then; with deltas: since the last export.
    from_ns: u64,
    to_ns: u64,
}

impl Series {
    pub(super) fn new(temporality: Temporality) -> Series {
        let (states, fresh) = (HashMap::new(), HashSet::new());
        Series { temporality, states, fresh, from_ns: 0, to_ns: 0 }
    }

    /// Adds what came in.
    pub(super) fn add(&mut self, window: &Window) {
        if self.from_ns == 0 {
            self.from_ns = window.from_ns;
        }
        self.to_ns = window.to_ns;
        for reading in &window.readings {
            let state =
                self.states.entry(reading.id.clone()).or_insert_with(|| begin(&reading.value));
            add(state, &reading.value);
            if !self.fresh.contains(&reading.id) {
                self.fresh.insert(reading.id.clone());
            }
        }
    }

    /// What is to be exported now: every series that something came in for, and with cumulative
    /// sums the others too. In the order of their names.
    pub(super) fn take(&mut self) -> Vec<Metric<'static>> {
        let mut out: BTreeMap<(Arc<str>, u8), Metric<'static>> = BTreeMap::new();
        let is_delta = self.temporality == Temporality::Delta;
        for (id, state) in &self.states {
            let is_fresh = self.fresh.contains(id);
            if !is_fresh && (is_delta || matches!(state, State::Members(_))) {
                continue;
            }
            let (shape, numbers) = data_point(state, self.temporality);
            let unit = if id.kind == Kind::Timing { "ms" } else { "" };
            let name = Cow::Owned(id.name.to_string());
            let metric = out.entry((id.name.clone(), id.kind as u8)).or_insert_with(|| Metric {
                name,
                unit,
                shape,
                points: Vec::new(),
            });
            if let (Shape::Sum(_, true), Shape::Sum(_, false)) = (metric.shape, shape) {
                metric.shape = shape;
            }
            let attribute = |(key, value): &(Box<str>, Box<str>)| -> Attribute<'static> {
                (Cow::Owned(key.to_string()), value.to_string().into())
            };
            let attributes = id.tags.iter().map(attribute).collect();
            let (from_ns, at_ns) = (self.from_ns, self.to_ns);
            metric.points.push(Point { attributes, from_ns, at_ns, numbers });
        }
        self.fresh.clear();
        let keeps = |state: &State| matches!(state, State::Last(_)) || !is_delta;
        self.states.retain(|_, state| keeps(state) && !matches!(state, State::Members(_)));
        if is_delta {
            self.from_ns = self.to_ns;
        }
        out.into_values().collect()
    }
}

fn begin(value: &Value) -> State {
    match value {
        Value::Count(_) => State::Sum { total: 0.0, falls: false },
        Value::Gauge { .. } => State::Last(0.0),
        Value::Values { .. } => {
            State::Buckets { counts: [0; BOUNDS.len() + 1], sum: 0.0, range: None }
        }
        Value::Members { .. } => State::Members(HashSet::new()),
    }
}

fn add(state: &mut State, value: &Value) {
    match (state, value) {
        (State::Sum { total, falls }, Value::Count(more)) => {
            *total += more;
            *falls |= *more < 0.0;
        }
        (State::Last(last), Value::Gauge { value, set }) => {
            *last = if *set { *value } else { *last + value };
        }
        (
            State::Buckets { counts, sum, range },
            Value::Values { kept, count, sum: s, min, max },
        ) => {
            *sum += s;
            let (least, greatest) = range.unwrap_or((*min, *max));
            *range = Some((least.min(*min), greatest.max(*max)));
            // Whole numbers that add up to the count: each value gets what brings the sum to its
            // share.
            let (mut given, each) = (0u64, count / kept.len().max(1) as f64);
            for (number, value) in kept.iter().enumerate() {
                let until = ((number + 1) as f64 * each).round() as u64;
                let bucket = BOUNDS.partition_point(|bound| bound < value);
                counts[bucket] += until.saturating_sub(given);
                given = given.max(until);
            }
        }
        (State::Members(all), Value::Members { members, .. }) => {
            let room = MOST_MEMBERS.saturating_sub(all.len());
            all.extend(members.iter().take(room).cloned());
        }
        _ => (),
    }
}

fn data_point(state: &State, temporality: Temporality) -> (Shape, Numbers) {
    match state {
        State::Sum { total, falls } => (Shape::Sum(temporality, !falls), Numbers::One(*total)),
        State::Last(value) => (Shape::Gauge, Numbers::One(*value)),
        State::Members(members) => (Shape::Gauge, Numbers::One(members.len() as f64)),
        State::Buckets { counts, sum, range } => {
            let (count, sum, range) = (counts.iter().sum(), *sum, *range);
            let (bounds, counts) = (BOUNDS.to_vec(), counts.to_vec());
            let numbers = Numbers::Buckets { count, sum, range, bounds, counts };
            (Shape::Histogram(temporality), numbers)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ::metrics::window::Reading;

    fn window(n: u64, readings: Vec<(Kind, &str, Value)>) -> Window {
        let reading = |(kind, name, value): (Kind, &str, Value)| {
            let id = Id { kind, name: name.into(), tags: Arc::new([("k".into(), "v".into())]) };
            Reading { id, value }
        };
        let readings = readings.into_iter().map(reading).collect();
        Window { from_ns: n * 100, to_ns: n * 100 + 100, readings }
    }

    fn shown(metrics: &[Metric<'_>]) -> Vec<String> {
        let of = |m: &Metric<'_>| {
            let point = &m.points[0];
            let numbers = match &point.numbers {
                Numbers::One(value) => value.to_string(),
                Numbers::Buckets { count, sum, counts, .. } => {
                    let counts: Vec<String> = counts.iter().map(u64::to_string).collect();
                    format!("{count} {sum} [{}]", counts.join(""))
                }
                Numbers::Quantiles { .. } => "?".to_owned(),
            };
            let times = (point.from_ns, point.at_ns);
            format!("{} {} {times:?} {numbers}", m.name, m.points.len())
        };
        metrics.iter().map(of).collect()
    }

    fn feed(series: &mut Series) -> [Vec<String>; 2] {
        let values = |kept: &[f64], count: f64| Value::Values {
            kept: kept.to_vec(),
            count,
            sum: 10.0,
            min: 1.0,
            max: 9.0,
        };
        let members = |m: &[&str]| {
            let members = m.iter().map(|m| Arc::from(*m)).collect();
            Value::Members { members, refused: 0 }
        };
        series.add(&window(
            1,
            vec![
                (Kind::Counter, "c", Value::Count(2.0)),
                (Kind::Gauge, "g", Value::Gauge { value: 7.0, set: true }),
                (Kind::Timing, "t", values(&[1.0, 9.0, 30.0], 7.0)),
                (Kind::Set, "s", members(&["a", "b"])),
            ],
        ));
        series.add(&window(2, vec![(Kind::Set, "s", members(&["b", "c"]))]));
        let first = shown(&series.take());
        series.add(&window(
            3,
            vec![
                (Kind::Counter, "c", Value::Count(0.5)),
                (Kind::Counter, "c", Value::Count(0.5)),
                (Kind::Gauge, "g", Value::Gauge { value: -1.0, set: false }),
            ],
        ));
        [first, shown(&series.take())]
    }

    #[test]
    fn sums_are_cumulative_and_a_reading_of_another_rate_is_the_same_series() {
        let [first, second] = feed(&mut Series::new(Temporality::Cumulative));
        let wanted = [
            "c 1 (100, 300) 2",
            "g 1 (100, 300) 7",
            "s 1 (100, 300) 3",
            "t 1 (100, 300) 7 10 [0230200000000000]",
        ];
        assert_eq!(first, wanted);
        let wanted =
            ["c 1 (100, 400) 3", "g 1 (100, 400) 6", "t 1 (100, 400) 7 10 [0230200000000000]"];
        assert_eq!(second, wanted);
    }

    #[test]
    fn or_deltas_of_what_came_in() {
        let [first, second] = feed(&mut Series::new(Temporality::Delta));
        assert_eq!(first.len(), 4);
        assert_eq!(second, ["c 1 (300, 400) 1", "g 1 (300, 400) 6"]);
    }
}
