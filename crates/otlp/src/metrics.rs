//! Metrics as an `ExportMetricsServiceRequest`, which is a `MetricsData` as well.

use std::borrow::Cow;

use crate::value::{attributes, Attribute, Resource, Scope};
use crate::wire::Message;

/// What a sum or a histogram starts from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temporality {
    /// From the previous point.
    Delta = 1,
    /// From the begin.
    Cumulative = 2,
}

/// What a metric is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Shape {
    /// The last value.
    Gauge,
    /// A sum; monotonic: it never falls.
    Sum(Temporality, bool),
    /// Counts by bucket.
    Histogram(Temporality),
    /// Count, sum and quantiles.
    Summary,
}

/// Numbers of one point.
#[derive(Clone, Debug, PartialEq)]
pub enum Numbers {
    /// Of a gauge or a sum.
    One(f64),
    /// Of a histogram; one bucket more than bounds.
    Buckets {
        /// Values; the buckets' sum.
        count: u64,
        /// Sum of the values.
        sum: f64,
        /// The least and the greatest, if they are known for this interval.
        range: Option<(f64, f64)>,
        /// Upper bounds of the buckets, rising.
        bounds: Vec<f64>,
        /// Values by bucket.
        counts: Vec<u64>,
    },
    /// Of a summary.
    Quantiles {
        /// Values.
        count: u64,
        /// Sum of the values.
        sum: f64,
        /// Quantile, 0 to 1, and its value.
        quantiles: Vec<(f64, f64)>,
    },
}

/// One point of a series.
#[derive(Clone, Debug, PartialEq)]
pub struct Point<'a> {
    /// Attributes.
    pub attributes: Vec<Attribute<'a>>,
    /// Begin of what it counts, Unix epoch ns; 0 none.
    pub from_ns: u64,
    /// Time of the point, Unix epoch ns.
    pub at_ns: u64,
    /// Numbers of the metric's shape.
    pub numbers: Numbers,
}

/// A metric.
#[derive(Clone, Debug, PartialEq)]
pub struct Metric<'a> {
    /// Name.
    pub name: Cow<'a, str>,
    /// Unit by UCUM: `ms`, `By`; empty unknown.
    pub unit: &'a str,
    /// What it is.
    pub shape: Shape,
    /// Points; points of another shape than the metric's are left out.
    pub points: Vec<Point<'a>>,
}

/// The request for these metrics of one process.
pub fn request(resource: &Resource<'_>, scope: Scope<'_>, metrics: &[Metric<'_>]) -> Vec<u8> {
    let mut out = Message::new();
    out.message(1, |all| {
        resource.put(all, 1);
        all.message(2, |group| {
            scope.put(group, 1);
            metrics.iter().for_each(|metric| group.message(2, |out| put(out, metric)));
        });
    });
    out.finish()
}

fn put(out: &mut Message, metric: &Metric<'_>) {
    out.text(1, metric.name.as_bytes());
    out.text(3, metric.unit);
    let field = match metric.shape {
        Shape::Gauge => 5,
        Shape::Sum(..) => 7,
        Shape::Histogram(_) => 9,
        Shape::Summary => 11,
    };
    out.message(field, |out| {
        for point in &metric.points {
            match (&point.numbers, metric.shape) {
                (Numbers::One(value), Shape::Gauge | Shape::Sum(..)) => {
                    out.message(1, |out| one(out, point, *value));
                }
                (Numbers::Buckets { .. }, Shape::Histogram(_)) => {
                    out.message(1, |out| buckets(out, point));
                }
                (Numbers::Quantiles { .. }, Shape::Summary) => {
                    out.message(1, |out| quantiles(out, point));
                }
                _ => (),
            }
        }
        if let Shape::Sum(temporality, _) | Shape::Histogram(temporality) = metric.shape {
            out.varint(2, temporality as u64);
        }
        if let Shape::Sum(_, true) = metric.shape {
            out.varint(3, 1);
        }
    });
}

fn one(out: &mut Message, point: &Point<'_>, value: f64) {
    out.fixed64(2, point.from_ns);
    out.fixed64(3, point.at_ns);
    // Whole numbers, as counters mostly are, stay whole.
    if value.fract() == 0.0 && value.abs() < 9e15 {
        out.present_fixed64(6, value as i64 as u64);
    } else {
        out.double(4, value);
    }
    attributes(out, 7, &point.attributes);
}

fn buckets(out: &mut Message, point: &Point<'_>) {
    let Numbers::Buckets { count, sum, range, bounds, counts } = &point.numbers else { return };
    out.fixed64(2, point.from_ns);
    out.fixed64(3, point.at_ns);
    out.fixed64(4, *count);
    out.double(5, *sum);
    out.packed64(6, counts.iter().copied());
    out.packed64(7, bounds.iter().map(|bound| bound.to_bits()));
    attributes(out, 9, &point.attributes);
    if let Some((least, greatest)) = range {
        out.double(11, *least);
        out.double(12, *greatest);
    }
}

fn quantiles(out: &mut Message, point: &Point<'_>) {
    let Numbers::Quantiles { count, sum, quantiles } = &point.numbers else { return };
    out.fixed64(2, point.from_ns);
    out.fixed64(3, point.at_ns);
    out.fixed64(4, *count);
    out.double(5, *sum);
    for (quantile, value) in quantiles {
        out.message(6, |out| {
            out.double(1, *quantile);
            out.double(2, *value);
        });
    }
    attributes(out, 7, &point.attributes);
}
