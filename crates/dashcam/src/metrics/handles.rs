//! Metrics, for Rust programs: `dashcam::counter("orders").inc()`.
//!
//! A handle is found by name (a lookup, tens of ns) and then costs a few ns a call; keep it where
//! that matters, it is `Copy`. Calls never wait, never fail, and are kept also before `start`: they
//! are in the first window. What is refused (too many series, no finite number) is counted.

use std::time::Instant;

use ::metrics::window::Kind;
use ::metrics::{registry, Series};

use crate::running::{after_fork_child, is_forked};

/// Tags that a metric has room for without allocating.
const FEW_TAGS: usize = 4;

/// A metric's name, tags and rate; its last call makes the handle. Borrows their texts, so it is
/// best made in one go.
///
/// ```
/// let orders = dashcam::metric("orders").tag("region", "eu").counter();
/// orders.inc();
/// dashcam::metric("db.query").rate(0.1).timing().record(1.25);
/// ```
#[derive(Clone, Debug)]
#[must_use]
pub struct Metric<'a> {
    name: &'a str,
    few: [(&'a str, &'a str); FEW_TAGS],
    count: usize,
    /// All of them, where there is no room in `few`; else empty.
    many: Vec<(&'a str, &'a str)>,
    rate: f64,
}

/// Begins a metric of that name.
#[inline]
pub fn metric(name: &str) -> Metric<'_> {
    Metric { name, few: [("", ""); FEW_TAGS], count: 0, many: Vec::new(), rate: 1.0 }
}

impl<'a> Metric<'a> {
    /// Adds a tag; an empty value for one that has none. The fifth allocates.
    #[inline]
    pub fn tag(mut self, key: &'a str, value: &'a str) -> Self {
        match self.few.get_mut(self.count) {
            Some(place) => *place = (key, value),
            None => self.spill((key, value)),
        }
        self.count += 1;
        self
    }

    #[cold]
    fn spill(&mut self, tag: (&'a str, &'a str)) {
        if self.many.is_empty() {
            self.many.extend_from_slice(&self.few);
        }
        self.many.push(tag);
    }

    /// The share of the calls that are let through, above 0 and at most 1; sums and counts are
    /// scaled up by it.
    #[inline]
    pub fn rate(mut self, rate: f64) -> Self {
        self.rate = rate;
        self
    }

    #[inline]
    fn series(&self, kind: Kind) -> Handle {
        let tags = self.few.get(..self.count).unwrap_or(&self.many);
        Handle(registry().series_of(kind, self.name, tags, self.rate))
    }

    /// A sum of increments.
    pub fn counter(&self) -> Counter {
        Counter(self.series(Kind::Counter))
    }

    /// A value that is set and changed.
    pub fn gauge(&self) -> Gauge {
        Gauge(self.series(Kind::Gauge))
    }

    /// Durations in milliseconds.
    pub fn timing(&self) -> Values {
        Values(self.series(Kind::Timing))
    }

    /// Values whose distribution an agent on this host computes.
    pub fn histogram(&self) -> Values {
        Values(self.series(Kind::Histogram))
    }

    /// Values whose distribution a server computes over all hosts.
    pub fn distribution(&self) -> Values {
        Values(self.series(Kind::Distribution))
    }

    /// Distinct members.
    pub fn set(&self) -> Set {
        Set(self.series(Kind::Set))
    }
}

/// The counter of that name, without tags.
pub fn counter(name: &str) -> Counter {
    Counter(Handle::plain(Kind::Counter, name))
}

/// The gauge of that name, without tags.
pub fn gauge(name: &str) -> Gauge {
    Gauge(Handle::plain(Kind::Gauge, name))
}

/// The timing of that name, without tags.
pub fn timing(name: &str) -> Values {
    Values(Handle::plain(Kind::Timing, name))
}

/// The histogram of that name, without tags.
pub fn histogram(name: &str) -> Values {
    Values(Handle::plain(Kind::Histogram, name))
}

/// The distribution of that name, without tags.
pub fn distribution(name: &str) -> Values {
    Values(Handle::plain(Kind::Distribution, name))
}

/// The set of that name, without tags.
pub fn set(name: &str) -> Set {
    Set(Handle::plain(Kind::Set, name))
}

/// None: it was refused, and so is each call.
#[derive(Clone, Copy, Debug)]
struct Handle(Option<&'static Series>);

impl Handle {
    fn plain(kind: Kind, name: &str) -> Handle {
        Handle(registry().series_of(kind, name, &[], 1.0))
    }

    #[inline]
    fn with(self, call: impl FnOnce(&'static Series)) {
        if is_forked() {
            after_fork_child();
        }
        match self.0 {
            Some(series) => call(series),
            None => registry().refuse_series(),
        }
    }
}

/// A handle found by its number, for bindings of languages that keep numbers.
#[derive(Clone, Copy, Debug)]
pub enum Numbered {
    /// A counter.
    Counter(Counter),
    /// A gauge.
    Gauge(Gauge),
    /// A timing, histogram or distribution.
    Values(Values),
    /// A set.
    Set(Set),
}

/// The handle with this number, if there is one.
#[inline]
pub fn numbered(number: u32) -> Option<Numbered> {
    let series = registry().numbered(number)?;
    let handle = Handle(Some(series));
    Some(match series.id.kind {
        Kind::Counter => Numbered::Counter(Counter(handle)),
        Kind::Gauge => Numbered::Gauge(Gauge(handle)),
        Kind::Timing | Kind::Histogram | Kind::Distribution => Numbered::Values(Values(handle)),
        Kind::Set => Numbered::Set(Set(handle)),
    })
}

macro_rules! numbers {
    ($($handle:ident)*) => {$(
        impl $handle {
            /// The same number for the life of the process, in its forked children too; 0 if the
            /// metric was refused.
            #[inline]
            pub fn number(self) -> u32 {
                self.0 .0.map_or(0, Series::number)
            }
        }
    )*};
}

numbers!(Counter Gauge Values Set);

/// A counter.
#[derive(Clone, Copy, Debug)]
pub struct Counter(Handle);

impl Counter {
    /// Adds 1.
    #[inline]
    pub fn inc(self) {
        self.add(1);
    }

    /// Adds `n`, which may be negative. Exact up to 2^53 in a window.
    #[inline]
    pub fn add(self, n: i64) {
        // Not in a forked child that is to start afresh: no thread of it has counted before.
        if !self.0 .0.is_some_and(|series| ::metrics::count_at_once(series, n)) {
            self.add_slowly(n);
        }
    }

    #[cold]
    fn add_slowly(self, n: i64) {
        self.0.with(|series| ::metrics::count(series, n));
    }

    /// Adds a fraction.
    pub fn add_float(self, n: f64) {
        self.0.with(|series| ::metrics::count_float(series, n));
    }
}

/// A gauge.
#[derive(Clone, Copy, Debug)]
pub struct Gauge(Handle);

impl Gauge {
    /// Sets it. The last set of all threads holds.
    #[inline]
    pub fn set(self, value: f64) {
        self.0.with(|series| ::metrics::gauge_set(series, value));
    }

    /// Changes it.
    #[inline]
    pub fn add(self, delta: f64) {
        self.0.with(|series| ::metrics::gauge_add(series, delta));
    }
}

/// A timing, histogram or distribution.
#[derive(Clone, Copy, Debug)]
pub struct Values(Handle);

impl Values {
    /// Notes a value; of a timing, milliseconds.
    #[inline]
    pub fn record(self, value: f64) {
        self.0.with(|series| ::metrics::value(series, value));
    }

    /// Notes the milliseconds from now until the timer is dropped.
    #[must_use]
    pub fn time(self) -> Timer {
        Timer { values: self, began: Instant::now() }
    }
}

/// Notes how long it lived when it is dropped, in milliseconds.
#[derive(Debug)]
pub struct Timer {
    values: Values,
    began: Instant,
}

impl Drop for Timer {
    fn drop(&mut self) {
        self.values.record(self.began.elapsed().as_secs_f64() * 1000.0);
    }
}

/// A set.
#[derive(Clone, Copy, Debug)]
pub struct Set(Handle);

impl Set {
    /// Notes a member; the same one again in a window changes nothing.
    #[inline]
    pub fn add(self, member: &str) {
        self.0.with(|series| ::metrics::member(series, member));
    }
}
