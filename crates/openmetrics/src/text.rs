//! Writes the store in the two text formats.

use std::fmt::Write;

use crate::http::Format;
use crate::limits::MOST_BYTES;
use crate::names::{escaped, escaped_help};
use crate::requests::{Exemplar, RequestTimes};
use crate::store::{samples, Family, State, Store, Type};

/// Name of the histogram of requests.
const REQUESTS: &str = "dashcam_request_seconds";

/// Names that the store may not use.
pub(crate) fn reserved() -> Vec<String> {
    samples(REQUESTS, Type::Histogram)
}

impl Store {
    /// Everything as text, and how many families were left out because there was no room.
    pub fn text(&self, requests: &[RequestTimes], format: Format) -> (String, u64) {
        let (mut out, mut left_out) = (String::new(), 0);
        for (name, family) in &self.families {
            let before = out.len();
            self.family(&mut out, name, family, format);
            if out.len() > MOST_BYTES {
                out.truncate(before);
                left_out += 1;
            }
        }
        if !requests.is_empty() {
            let before = out.len();
            of_requests(&mut out, requests, format);
            if out.len() > MOST_BYTES {
                out.truncate(before);
                left_out += 1;
            }
        }
        if format == Format::OpenMetrics {
            out.push_str("# EOF\n");
        }
        (out, left_out)
    }

    fn family(&self, out: &mut String, name: &str, family: &Family, format: Format) {
        let of = if family.fell { Type::Gauge } else { family.of };
        head(out, name, of, family.unit, &family.help, format);
        for (labels, state) in &family.series {
            match state {
                State::Number(value) => {
                    let end = if of == Type::Counter { "_total" } else { "" };
                    sample(out, name, end, labels, *value);
                }
                State::Members(seen) => sample(out, name, "", labels, seen.len() as f64),
                State::Values { bounds, buckets, count, sum } => {
                    let mut so_far = 0.0;
                    for (bound, bucket) in bounds.iter().zip(buckets) {
                        so_far += bucket;
                        // Rounded, since buckets are whole; never above the count.
                        let n = so_far.round().min(count.round());
                        bucket_line(out, name, labels, &bound_text(*bound), n);
                        out.push('\n');
                    }
                    bucket_line(out, name, labels, "+Inf", count.round());
                    out.push('\n');
                    sample(out, name, "_count", labels, count.round());
                    sample(out, name, "_sum", labels, *sum);
                }
            }
        }
    }
}

fn of_requests(out: &mut String, requests: &[RequestTimes], format: Format) {
    let help = "Time from a request's begin to its end, by name.";
    head(out, REQUESTS, Type::Histogram, Some("seconds"), help, format);
    for times in requests {
        let labels = format!("name=\"{}\"", escaped(&times.name));
        let mut so_far = 0;
        for (at, count) in times.counts.iter().enumerate() {
            so_far += count;
            let bound = times.bounds_ns.get(at);
            let bound = bound.map_or("+Inf".to_owned(), |ns| bound_text(*ns as f64 / 1e9));
            bucket_line(out, REQUESTS, &labels, &bound, so_far as f64);
            let exemplar = times.exemplars.get(at).and_then(Option::as_ref);
            if let (Format::OpenMetrics, Some(exemplar)) = (format, exemplar) {
                let (took, at) = (exemplar.took_ns as f64 / 1e9, exemplar.at_epoch_ns / 1_000_000);
                let (seconds, ms, labels) = (at / 1000, at % 1000, exemplar_labels(exemplar));
                // Writing to a String cannot fail.
                let _ = write!(out, " # {{{labels}}} {took} {seconds}.{ms:03}");
            }
            out.push('\n');
        }
        sample(out, REQUESTS, "_count", &labels, so_far as f64);
        sample(out, REQUESTS, "_sum", &labels, times.sum_ns as f64 / 1e9);
    }
}

/// The largest number of characters of an exemplar's labels, names and values together: OpenMetrics
/// 1.0.
const MOST_EXEMPLAR: usize = 128;

/// Labels that lead to a request: its trace, its id, and the capture that contains it. A long name
/// of a capture is cut at its begin; its end has the time and the process.
fn exemplar_labels(exemplar: &Exemplar) -> String {
    let request = exemplar.request.to_string();
    let mut labels = String::new();
    let mut left = MOST_EXEMPLAR - "request".len() - request.len();
    if exemplar.trace != 0 {
        labels = format!("trace_id=\"{:032x}\",", exemplar.trace);
        left -= "trace_id".len() + 32;
    }
    labels.push_str(&format!("request=\"{request}\""));
    if !exemplar.capture.is_empty() {
        let most = left - "capture".len();
        let many = exemplar.capture.chars().count();
        let end: String = exemplar.capture.chars().skip(many.saturating_sub(most)).collect();
        labels.push_str(&format!(",capture=\"{}\"", escaped(&end)));
    }
    labels
}

fn head(out: &mut String, name: &str, of: Type, unit: Option<&str>, help: &str, format: Format) {
    let kind = match of {
        Type::Counter => "counter",
        Type::Gauge => "gauge",
        Type::Histogram => "histogram",
    };
    // Writing to a String cannot fail.
    let _ = match format {
        Format::OpenMetrics => {
            let _ = writeln!(out, "# TYPE {name} {kind}");
            if let Some(unit) = unit {
                let _ = writeln!(out, "# UNIT {name} {unit}");
            }
            writeln!(out, "# HELP {name} {}", escaped(help))
        }
        Format::Text => {
            let end = if of == Type::Counter { "_total" } else { "" };
            let help = escaped_help(help);
            writeln!(out, "# HELP {name}{end} {help}\n# TYPE {name}{end} {kind}")
        }
    };
}

fn sample(out: &mut String, name: &str, end: &str, labels: &str, value: f64) {
    let _ = match labels {
        "" => writeln!(out, "{name}{end} {value}"),
        _ => writeln!(out, "{name}{end}{{{labels}}} {value}"),
    };
}

fn bucket_line(out: &mut String, name: &str, labels: &str, bound: &str, count: f64) {
    let comma = if labels.is_empty() { "" } else { "," };
    let _ = write!(out, "{name}_bucket{{{labels}{comma}le=\"{bound}\"}} {count}");
}

/// `0.005`, `1.0`, `1000000.0`: as the specification writes them.
fn bound_text(bound: f64) -> String {
    match bound.fract() == 0.0 {
        true => format!("{bound:.1}"),
        false => format!("{bound}"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use metrics::window::{Id, Kind, Reading, Value, Window};

    use super::*;

    fn reading(kind: Kind, name: &str, tags: &[(&str, &str)], value: Value) -> Reading {
        let tags: Vec<(Box<str>, Box<str>)> =
            tags.iter().map(|(k, v)| ((*k).into(), (*v).into())).collect();
        Reading { id: Id { kind, name: Arc::from(name), tags: tags.into() }, value }
    }

    fn count(name: &str, n: f64) -> Reading {
        reading(Kind::Counter, name, &[], Value::Count(n))
    }

    fn values(kind: Kind, name: &str, kept: &[f64], count: f64) -> Reading {
        let sum = kept.iter().sum::<f64>() * count / kept.len() as f64;
        let (min, max) = (0.0, 9e9);
        reading(kind, name, &[], Value::Values { kept: kept.to_vec(), count, sum, min, max })
    }

    fn store(windows: Vec<Vec<Reading>>) -> Store {
        let mut store = Store::new(&[]);
        for (at, readings) in (1u64..).zip(windows) {
            store.add(&Window { from_ns: 0, to_ns: at * 1_000_000_000, readings });
        }
        store
    }

    /// The lines of a sample's name.
    fn lines(text: &str, begin: &str) -> Vec<String> {
        text.lines().filter(|line| line.starts_with(begin)).map(str::to_owned).collect()
    }

    #[test]
    fn counters_and_gauges_are_what_all_windows_together_say() {
        let gauge = |value, set| reading(Kind::Gauge, "depth", &[], Value::Gauge { value, set });
        let store = store(vec![
            vec![count("orders", 2.0), gauge(4.0, false)],
            vec![count("orders", 0.5), gauge(7.0, true)],
            vec![count("orders_total", 1.0), gauge(-2.0, false)],
        ]);
        let (text, _) = store.text(&[], Format::OpenMetrics);
        assert_eq!(
            text,
            "# TYPE depth gauge\n# HELP depth gauge depth\ndepth 5\n\
             # TYPE orders counter\n# HELP orders counter orders\norders_total 2.5\n# EOF\n"
        );
        assert_eq!(store.collisions, 1, "{}", store.last_collision);
        assert!(store.last_collision.contains("orders_total"));
        let (text, _) = store.text(&[], Format::Text);
        assert!(text.contains("# HELP orders_total counter orders\n# TYPE orders_total counter\n"));
        assert!(!text.contains("# EOF"));
    }

    #[test]
    fn a_counter_that_is_counted_down_becomes_a_gauge() {
        let store = store(vec![vec![count("held", 2.0)], vec![count("held", -1.0)]]);
        let (text, _) = store.text(&[], Format::OpenMetrics);
        assert!(text.contains("# TYPE held gauge\n") && text.contains("\nheld 1\n"), "{text}");
    }

    #[test]
    fn histograms_have_exact_counts_and_sums_and_buckets_of_what_was_kept() {
        let store = store(vec![
            vec![values(Kind::Timing, "db.query_ms", &[0.5, 3.0, 2000.0], 3.0)],
            vec![values(Kind::Timing, "db.query_ms", &[3.0, 40_000.0], 5.0)],
        ]);
        let (text, _) = store.text(&[], Format::OpenMetrics);
        assert!(text.contains("# UNIT db_query_seconds seconds\n"), "{text}");
        let found = lines(&text, "db_query_seconds_bucket{le=\"0.00");
        let counts: Vec<&str> = found.iter().map(|l| l.rsplit(' ').next().expect("n")).collect();
        assert_eq!(counts, ["1", "1", "1", "5"], "2.5 and 2.5 are 3.5, rounded up: {text}");
        assert_eq!(
            lines(&text, "db_query_seconds_bucket{le=\"30.0\"}"),
            ["db_query_seconds_bucket{le=\"30.0\"} 6"]
        );
        assert_eq!(
            lines(&text, "db_query_seconds_bucket{le=\"+Inf\"}"),
            ["db_query_seconds_bucket{le=\"+Inf\"} 8"]
        );
        assert_eq!(lines(&text, "db_query_seconds_count"), ["db_query_seconds_count 8"]);
        let sum = lines(&text, "db_query_seconds_sum");
        let sum: f64 = sum[0].rsplit(' ').next().and_then(|n| n.parse().ok()).expect("a number");
        assert!((sum - 102.011).abs() < 1e-6, "{sum}");
    }

    #[test]
    fn a_set_is_its_members_of_the_last_minute() {
        let set = |members: &[&str]| {
            let members = members.iter().map(|m| Arc::from(*m)).collect();
            reading(Kind::Set, "users", &[], Value::Members { members, refused: 0 })
        };
        let mut store = store(vec![vec![set(&["ann", "bob"])], vec![set(&["ann", "eve"])]]);
        assert_eq!(lines(&store.text(&[], Format::Text).0, "users"), ["users 3"]);
        store.add(&Window { from_ns: 0, to_ns: 61_500_000_000, readings: vec![] });
        assert_eq!(lines(&store.text(&[], Format::Text).0, "users"), ["users 2"]);
    }

    #[test]
    fn names_that_become_the_same_are_kept_apart() {
        let tagged = |key| reading(Kind::Counter, "c", &[(key, "1")], Value::Count(1.0));
        let store = store(vec![vec![
            count("a.b", 1.0),
            count("a_b", 2.0),
            count("t.seconds", 9.0),
            values(Kind::Timing, "t", &[1.0], 1.0),
            tagged("x.y"),
            tagged("x-y"),
            count("d.count", 1.0),
            values(Kind::Distribution, "d", &[1.0], 1.0),
        ]]);
        let (text, _) = store.text(&[], Format::OpenMetrics);
        assert_eq!(lines(&text, "a_b_total"), ["a_b_total 1"]);
        assert_eq!(lines(&text, "c_total"), ["c_total{x_y=\"1\"} 1"]);
        assert!(lines(&text, "t_seconds_bucket").is_empty() && lines(&text, "d_bucket").is_empty());
        assert_eq!((store.collisions, store.series), (4, 4));
    }

    #[test]
    fn requests_have_exemplars_where_the_format_has_them() {
        let exemplar = Exemplar {
            request: 7,
            took_ns: 30_000_000,
            at_epoch_ns: 1_500_042_000_000,
            ..Exemplar::default()
        };
        let times = RequestTimes {
            name: "GET \"/\"".to_owned(),
            counts: vec![2, 1],
            bounds_ns: &[10_000_000],
            sum_ns: 35_000_000,
            exemplars: vec![None, Some(exemplar)],
        };
        let (text, _) = Store::default().text(std::slice::from_ref(&times), Format::OpenMetrics);
        let line = "dashcam_request_seconds_bucket{name=\"GET \\\"/\\\"\",le=\"+Inf\"} 3 # \
                    {request=\"7\"} 0.03 1500.042";
        assert_eq!(text.lines().nth(4), Some(line));
        let (text, _) = Store::default().text(&[times], Format::Text);
        assert!(!text.contains(" # {") && text.contains("_sum{name=\"GET \\\"/\\\"\"} 0.035\n"));
    }

    #[test]
    fn exemplars_lead_to_trace_request_and_capture_within_128_characters() {
        let capture = "billy-2026-11-21T10-14-03-4711-1.dashcam";
        let mut exemplar = Exemplar {
            request: 4711,
            trace: 0x4bf9_2f35_77b3_4da6_a3ce_929d_0e0e_4736,
            capture: capture.to_owned(),
            ..Exemplar::default()
        };
        assert_eq!(
            exemplar_labels(&exemplar),
            "trace_id=\"4bf92f3577b34da6a3ce929d0e0e4736\",request=\"4711\",\
             capture=\"billy-2026-11-21T10-14-03-4711-1.dashcam\""
        );
        let counted = |text: &str| text.chars().filter(|c| !"=\",".contains(*c)).count();
        exemplar.capture = format!("{}{capture}", "\u{fc}".repeat(64));
        for request in [1, u64::MAX] {
            exemplar.request = request;
            let labels = exemplar_labels(&exemplar);
            assert_eq!(counted(&labels), MOST_EXEMPLAR, "{labels}");
            assert!(labels.ends_with("-2026-11-21T10-14-03-4711-1.dashcam\""), "{labels}");
        }
        exemplar.trace = 0;
        assert!(exemplar_labels(&exemplar).starts_with("request=\"18446744073709551615\",c"));
    }

    #[test]
    fn an_answer_is_bounded_and_ends_at_a_whole_family() {
        let long = "x".repeat(250);
        let many = |name: &str| {
            let tagged = |n: usize| {
                let (n, name) = (n.to_string(), format!("{name}.{}", n % 10));
                let tags = [("n", n.as_str()), ("w", long.as_str())];
                let kept = vec![1.0];
                let value = Value::Values { kept, count: 1.0, sum: 1.0, min: 1.0, max: 1.0 };
                reading(Kind::Distribution, &name, &tags, value)
            };
            (0..4000).map(tagged).collect::<Vec<_>>()
        };
        let store = store(vec![many("a")]);
        let (text, left_out) = store.text(&[], Format::OpenMetrics);
        assert!(text.len() <= MOST_BYTES + 6 && left_out > 0 && text.ends_with("\n# EOF\n"));
        assert_eq!(lines(&text, "# TYPE").len() as u64 + left_out, 10);
    }
}
