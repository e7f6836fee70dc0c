//! The store: windows added up, the state of each metric since the start.
//!
//! | metric | becomes | of |
//! | --- | --- | --- |
//! | counter | counter, `_total` | all increments; once it was counted down it is a gauge |
//! | gauge | gauge | the last value, and the changes after it |
//! | timing | histogram in seconds, name ending in `_seconds` | all values |
//! | histogram, distribution | histogram | all values |
//! | set | gauge | distinct members of the last minute |
//!
//! A histogram's `_count` and `_sum` are exact. Its buckets are exact while a window kept all
//! values (256 a thread); beyond that each kept value stands for several.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;

use metrics::window::{Id, Kind, Reading, Value, Window};

use crate::names;

/// Upper bounds of timings, seconds.
pub(crate) const SECONDS: &[f64] =
    &[0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0];
/// Upper bounds of values of unknown size.
pub(crate) const VALUES: &[f64] = &[
    0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0, 50.0, 100.0, 500.0, 1e3, 5e3, 1e4, 5e4,
    1e5, 5e5, 1e6, 1e7, 1e8, 1e9,
];
/// How long a member of a set counts.
const MEMBER_NS: u64 = 60_000_000_000;
/// Members remembered of all sets together; those beyond are refused and counted.
const MOST_MEMBERS: usize = 65_536;
/// Series remembered. The program's bound is lower (8,192).
const MOST_SERIES: usize = 16_384;

/// What a family is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Counter,
    Gauge,
    Histogram,
}

/// Series of one name.
#[derive(Debug)]
pub(crate) struct Family {
    pub of: Type,
    pub help: String,
    pub unit: Option<&'static str>,
    /// The metric it is made from, and its kind.
    source: (Kind, Arc<str>),
    /// By labels.
    pub series: BTreeMap<String, State>,
    /// A counter that was counted down.
    pub fell: bool,
}

/// The state of a series since the start.
#[derive(Debug)]
pub(crate) enum State {
    Number(f64),
    Values {
        bounds: &'static [f64],
        /// By bucket, not added up; the last is beyond all bounds.
        buckets: Vec<f64>,
        count: f64,
        sum: f64,
    },
    /// Hash of a member -> when it was last seen.
    Members(HashMap<u64, u64>),
}

/// All families.
#[derive(Debug, Default)]
pub struct Store {
    pub(crate) families: BTreeMap<String, Family>,
    /// Names that samples have or may get.
    taken: HashSet<String>,
    /// Where a series is: family, labels. None: it was left out.
    places: HashMap<Id, Option<(String, String)>>,
    members: usize,
    /// Series left out because another one has their name, and the last of them.
    pub(crate) collisions: u64,
    pub(crate) last_collision: String,
    /// Members not counted because there was no room.
    pub(crate) members_refused: u64,
    /// Number of series in the store.
    pub(crate) series: usize,
    /// End of the last window, ns since the epoch.
    pub(crate) at_ns: u64,
}

impl Store {
    /// Empty; `reserved` are names that other writers of the same answer use.
    pub fn new(reserved: &[&str]) -> Store {
        let taken = reserved.iter().map(|name| (*name).to_owned()).collect();
        Store { taken, ..Store::default() }
    }

    /// Adds a window.
    pub fn add(&mut self, window: &Window) {
        self.at_ns = window.to_ns;
        self.forget_members();
        window.readings.iter().for_each(|reading| self.reading(reading));
    }

    fn reading(&mut self, reading: &Reading) {
        if !self.places.contains_key(&reading.id) {
            if self.places.len() >= MOST_SERIES {
                self.collisions += 1;
                return;
            }
            let place = self.place(&reading.id);
            self.series += usize::from(place.is_some());
            self.places.insert(reading.id.clone(), place);
        }
        let Some(Some((family, labels))) = self.places.get(&reading.id) else { return };
        let Some(family) = self.families.get_mut(family) else { return };
        let Some(state) = family.series.get_mut(labels) else { return };
        match (state, &reading.value) {
            (State::Number(total), Value::Count(n)) => {
                *total += n;
                family.fell |= *n < 0.0;
            }
            (State::Number(now), Value::Gauge { value, set }) => {
                *now = if *set { *value } else { *now + value };
            }
            (State::Values { bounds, buckets, count, sum }, Value::Values { .. }) => {
                add_values(bounds, buckets, (count, sum), reading);
            }
            (State::Members(seen), Value::Members { members, refused }) => {
                self.members_refused += refused;
                for member in members {
                    let mut hasher = DefaultHasher::new();
                    member.hash(&mut hasher);
                    let known = seen.contains_key(&hasher.finish());
                    if !known && self.members >= MOST_MEMBERS {
                        self.members_refused += 1;
                        continue;
                    }
                    self.members += usize::from(!known);
                    seen.insert(hasher.finish(), self.at_ns);
                }
            }
            _ => (),
        }
    }

    /// Family and labels of a new series, with an empty state. None: another metric has its name.
    fn place(&mut self, id: &Id) -> Option<(String, String)> {
        let (name, of, unit) = named(id);
        let (described, _) = names::described(&id.name).unwrap_or_default();
        if !self.families.contains_key(&name) {
            let samples = samples(&name, of);
            if samples.iter().any(|sample| self.taken.contains(sample)) {
                return self.collided(id, &name);
            }
            self.taken.extend(samples);
            let help = match described {
                "" => format!("{} {}", kind_text(id.kind), id.name),
                text => text.to_owned(),
            };
            let source = (id.kind, id.name.clone());
            let series = BTreeMap::new();
            let family = Family { of, help, unit, source, series, fell: false };
            self.families.insert(name.clone(), family);
        }
        let family = self.families.get_mut(&name)?;
        let labels = names::labels(&id.tags);
        if family.source != (id.kind, id.name.clone()) || family.series.contains_key(&labels) {
            return self.collided(id, &name);
        }
        family.series.insert(labels.clone(), State::of(id.kind));
        Some((name, labels))
    }

    fn collided(&mut self, id: &Id, name: &str) -> Option<(String, String)> {
        self.collisions += 1;
        let tags = names::labels(&id.tags);
        self.last_collision =
            format!("{} {} {{{tags}}} would be another {name}", kind_text(id.kind), id.name);
        None
    }

    fn forget_members(&mut self) {
        let late = self.at_ns.saturating_sub(MEMBER_NS);
        let states = self.families.values_mut().flat_map(|family| family.series.values_mut());
        for state in states {
            if let State::Members(seen) = state {
                let before = seen.len();
                seen.retain(|_, at| *at > late);
                self.members -= before - seen.len();
            }
        }
    }
}

impl State {
    fn of(kind: Kind) -> State {
        let values = |bounds: &'static [f64]| State::Values {
            bounds,
            buckets: vec![0.0; bounds.len() + 1],
            count: 0.0,
            sum: 0.0,
        };
        match kind {
            Kind::Counter | Kind::Gauge => State::Number(0.0),
            Kind::Timing => values(SECONDS),
            Kind::Histogram | Kind::Distribution => values(VALUES),
            Kind::Set => State::Members(HashMap::new()),
        }
    }
}

fn add_values(bounds: &[f64], buckets: &mut [f64], all: (&mut f64, &mut f64), reading: &Reading) {
    let Value::Values { kept, count, sum, .. } = &reading.value else { return };
    let scale = if reading.id.kind == Kind::Timing { 1e-3 } else { 1.0 };
    let each = count / kept.len().max(1) as f64;
    for value in kept {
        // A bound is the greatest value of its bucket.
        let at = bounds.partition_point(|bound| *bound < value * scale);
        if let Some(bucket) = buckets.get_mut(at) {
            *bucket += each;
        }
    }
    *all.0 += count;
    *all.1 += sum * scale;
}

/// The family's name, its type, its unit.
fn named(id: &Id) -> (String, Type, Option<&'static str>) {
    let mut name = names::metric(&id.name);
    let mut unit = names::described(&id.name).and_then(|(_, unit)| unit);
    let of = match id.kind {
        Kind::Counter => Type::Counter,
        Kind::Gauge | Kind::Set => Type::Gauge,
        _ => Type::Histogram,
    };
    match id.kind {
        Kind::Timing => {
            unit = Some("seconds");
            for end in ["_ms", "_milliseconds"] {
                name = name.strip_suffix(end).unwrap_or(&name).to_owned();
            }
        }
        Kind::Counter => name = name.strip_suffix("_total").unwrap_or(&name).to_owned(),
        Kind::Set => unit = None,
        _ => (),
    }
    if let Some(unit) = unit {
        if !name.ends_with(&format!("_{unit}")) {
            name = format!("{name}_{unit}");
        }
    }
    (name, of, unit)
}

/// Names that a family's samples have.
pub(crate) fn samples(name: &str, of: Type) -> Vec<String> {
    let ends: &[&str] = match of {
        Type::Counter => &["", "_total", "_created"],
        Type::Gauge => &[""],
        Type::Histogram => &["", "_bucket", "_count", "_sum", "_created"],
    };
    ends.iter().map(|end| format!("{name}{end}")).collect()
}

fn kind_text(kind: Kind) -> &'static str {
    match kind {
        Kind::Counter => "counter",
        Kind::Gauge => "gauge",
        Kind::Timing => "timing",
        Kind::Histogram => "histogram",
        Kind::Distribution => "distribution",
        Kind::Set => "distinct members in the last minute of the set",
    }
}
