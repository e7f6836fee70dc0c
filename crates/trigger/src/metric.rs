//! Rules of `on_metric=`: which numbers of the program's metrics trigger a capture.

use crate::rules::name_matches;
use crate::units::{bytes, duration_ns, Wrong};

/// The largest number of rules.
pub const MOST_METRIC_RULES: usize = 16;

const SECOND_NS: u64 = 1_000_000_000;
const HOUR_NS: u64 = 3_600 * SECOND_NS;

/// Rules in the order given, `SUBJECT>LIMIT` or `SUBJECT<LIMIT` each, with `/WINDOW` behind it if
/// the rule is about more than one window of a second. SUBJECT is a metric's name, whole or as a
/// glob, with tags in braces if needed (`queue.depth{region=eu}`), or a statistic of it:
/// `rate(NAME)`, `sum(...)`, `count(...)`, `mean(...)`, `min(...)`, `max(...)`, `p99(...)`. Empty
/// text: no rule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct MetricRules {
    pub(crate) rules: Vec<MetricRule>,
}

/// What is compared.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Stat {
    /// No statistic named: a gauge's value, a counter's sum, a set's members, the greatest value.
    Plain,
    /// Increments of counters per second.
    Rate,
    Sum,
    Count,
    Mean,
    Min,
    Max,
    /// Values that may be over the limit, parts per million.
    Percentile(u64),
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MetricRule {
    pub text: String,
    pub stat: Stat,
    pub name: String,
    pub tags: Vec<(String, String)>,
    /// Over the limit, not under it.
    pub above: bool,
    pub limit: f64,
    /// The limit was given as a time: the rule is for timings, in milliseconds.
    pub is_time: bool,
    /// 0: each window by itself.
    pub window_ns: u64,
}

impl MetricRules {
    /// Reads rules separated by commas (commas in braces separate tags). An error names the rule
    /// that is not valid.
    pub fn parse(text: &str) -> Result<MetricRules, Wrong> {
        let parts = split(text).into_iter().map(str::trim).filter(|part| !part.is_empty());
        let parse = |part: &str| parse_rule(part).ok_or_else(|| refuse(part));
        let rules: Vec<MetricRule> = parts.map(parse).collect::<Result<_, _>>()?;
        if rules.len() > MOST_METRIC_RULES {
            return Err(refuse(text));
        }
        Ok(MetricRules { rules })
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }

    /// The text of the rule of this number.
    pub fn text(&self, rule: usize) -> Option<&str> {
        self.rules.get(rule).map(|rule| rule.text.as_str())
    }
}

impl MetricRule {
    /// Whether it applies to this series.
    pub fn is_of(&self, name: &str, tags: &[(Box<str>, Box<str>)]) -> bool {
        let is_glob = self.name.contains(['*', '?']);
        let named = self.name == name || (is_glob && name_matches(&self.name, name));
        let fits = |wanted: &str, value: &str| {
            wanted == value || (wanted.contains(['*', '?']) && name_matches(wanted, value))
        };
        named
            && self
                .tags
                .iter()
                .all(|(k, wanted)| tags.iter().any(|(key, v)| **key == **k && fits(wanted, v)))
    }
}

/// At commas outside of braces.
fn split(text: &str) -> Vec<&str> {
    let (mut parts, mut begin, mut depth) = (Vec::new(), 0, 0u32);
    for (at, c) in text.char_indices() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                parts.push(&text[begin..at]);
                begin = at + 1;
            }
            _ => (),
        }
    }
    parts.push(&text[begin..]);
    parts
}

fn parse_rule(text: &str) -> Option<MetricRule> {
    // A tag's value may contain the sign: only the text behind the braces counts.
    let braces = text.rfind('}').unwrap_or(0);
    let at = braces + text.get(braces..)?.find(['>', '<'])?;
    let (subject, rest) = (text[..at].trim(), &text[at + 1..]);
    let above = text.as_bytes()[at] == b'>';
    let (mut stat, inner) = statistic(subject)?;
    let (name, tags) = series(inner)?;
    let (limit, per_second, window) = behind(rest);
    if per_second {
        if stat != Stat::Plain {
            return None;
        }
        stat = Stat::Rate;
    }
    let window_ns = match window {
        None => 0,
        Some(window) => {
            duration_ns("on_metric", window).ok().filter(|w| (SECOND_NS..=HOUR_NS).contains(w))?
        }
    };
    let (limit, is_time) = number(limit)?;
    let whole_windows = matches!(stat, Stat::Min | Stat::Max);
    let sense = match stat {
        Stat::Percentile(_) => above && window_ns > 0,
        _ if whole_windows => window_ns == 0,
        Stat::Rate | Stat::Count => !is_time,
        _ => true,
    };
    sense.then(|| MetricRule {
        text: text.to_owned(),
        stat,
        name: name.to_owned(),
        tags,
        above,
        limit,
        is_time,
        window_ns,
    })
}

/// `p99(db.query)` as (the statistic, `db.query`).
fn statistic(subject: &str) -> Option<(Stat, &str)> {
    let Some((word, inner)) = subject.split_once('(') else { return Some((Stat::Plain, subject)) };
    let inner = inner.strip_suffix(')')?;
    let stat = match word.trim() {
        "rate" => Stat::Rate,
        "sum" => Stat::Sum,
        "count" => Stat::Count,
        "mean" => Stat::Mean,
        "min" => Stat::Min,
        "max" => Stat::Max,
        word => {
            let percent: f64 = word.strip_prefix('p')?.parse().ok()?;
            let percent = (1.0..100.0).contains(&percent).then_some(percent)?;
            Stat::Percentile(((100.0 - percent) * 10_000.0).round() as u64)
        }
    };
    Some((stat, inner))
}

/// `name{key=value, other=*}`.
fn series(text: &str) -> Option<(&str, Vec<(String, String)>)> {
    let (name, tags) = match text.split_once('{') {
        None => (text.trim(), ""),
        Some((name, tags)) => (name.trim(), tags.trim().strip_suffix('}')?),
    };
    let is_name = |c: char| c.is_alphanumeric() || "_.:*?-/".contains(c);
    if name.is_empty() || !name.chars().all(is_name) {
        return None;
    }
    let tags = tags.split(',').map(str::trim).filter(|tag| !tag.is_empty());
    let pair = |tag: &str| {
        let (key, value) = tag.split_once(['=', ':'])?;
        Some((key.trim().to_owned(), value.trim().to_owned()))
    };
    Some((name, tags.map(pair).collect::<Option<_>>()?))
}

/// `5/s/10s` as (`5`, a second, `10s`).
fn behind(text: &str) -> (&str, bool, Option<&str>) {
    let (limit, rest) = match text.split_once('/') {
        None => return (text.trim(), false, None),
        Some((limit, rest)) => (limit.trim(), rest.trim()),
    };
    match rest.split_once('/') {
        Some((unit, window)) if unit.trim() == "s" => (limit, true, Some(window.trim())),
        None if rest == "s" => (limit, true, None),
        _ => (limit, false, Some(rest)),
    }
}

/// `50ms` as (50, a time); `2MiB`, `-1.5`, `1000` as plain numbers.
fn number(text: &str) -> Option<(f64, bool)> {
    if let Ok(plain) = text.parse::<f64>() {
        return plain.is_finite().then_some((plain, false));
    }
    match duration_ns("on_metric", text) {
        Ok(ns) => Some((ns as f64 / 1e6, true)),
        Err(_) => bytes("on_metric", text).ok().map(|n| (n as f64, false)),
    }
}

fn refuse(found: &str) -> Wrong {
    Wrong {
        what: "on_metric".to_owned(),
        found: found.to_owned(),
        wanted: format!(
            "a limit like queue.depth>100, queue.depth{{region=eu}}>100/30s, errors>5/s/10s, \
             mean(db.query)>20ms/1m or p99(db.query)>50ms/30s, windows from 1s to 1h, at most \
             {MOST_METRIC_RULES} with commas"
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(text: &str) -> MetricRule {
        let mut rules = MetricRules::parse(text).expect(text).rules;
        assert_eq!(rules.len(), 1, "{text}");
        rules.remove(0)
    }

    #[test]
    fn a_rule_has_a_statistic_a_series_a_limit_and_a_window() {
        let rule = one("queue.depth>100");
        assert_eq!((rule.stat, rule.limit, rule.above), (Stat::Plain, 100.0, true));
        let rule = one("errors{route=GET /a, kind=*}>5/s/10s");
        assert_eq!((rule.stat, rule.limit, rule.window_ns), (Stat::Rate, 5.0, 10 * SECOND_NS));
        let tags = [("kind", "io"), ("route", "GET /a")].map(|(k, v)| (k.into(), v.into()));
        assert!(rule.is_of("errors", &tags) && !rule.is_of("errors", &tags[..1]));
        assert!(!rule.is_of("more.errors", &tags), "a word is the name itself");
        let rule = one("p99.9(db.*)>1.5s/30s");
        assert_eq!((rule.stat, rule.limit, rule.is_time), (Stat::Percentile(1000), 1500.0, true));
        assert!(rule.is_of("db.query", &[]) && !rule.is_of("db", &[]));
        let rule = one("memory.free<64MiB/1m");
        assert_eq!((rule.limit, rule.above), ((64 << 20) as f64, false));
        assert_eq!(one("t>-1.5").limit, -1.5);
        assert_eq!(one("rate(errors)>5").stat, one("errors>5/s").stat);
        let many = MetricRules::parse("a{x=1,y=2}>1, b>2,").expect("two");
        assert_eq!(many.rules.len(), 2);
        assert!(MetricRules::parse(" ").expect("none").is_empty());
    }

    #[test]
    fn what_makes_no_sense_is_refused_with_the_accepted_forms() {
        for text in [
            "queue.depth",
            ">5",
            "a>",
            "a>b",
            "a>nan",
            "a>5/1ms",
            "a>5/2h",
            "a>5/",
            "p99(a)>5ms",
            "p99(a)<5ms/1m",
            "p100(a)>5ms/1m",
            "max(a)>5/1m",
            "rate(a)>5ms",
            "rate(a)>5/s",
            "median(a)>5",
            "sum(a>5",
            "a b>5",
            "a{b}>5",
            "a{b=1>5",
            "{b=1}>5",
            "é€(>1",
        ] {
            let refused = MetricRules::parse(text).expect_err(text).to_string();
            assert!(refused.starts_with("on_metric: found") && refused.contains("queue.depth>100"));
        }
        assert!(MetricRules::parse(&vec!["a>1"; 17].join(",")).is_err());
    }

    #[test]
    fn no_text_makes_it_panic_and_what_is_taken_reads_the_same_again() {
        let parts = [
            "a",
            "p99",
            "(",
            ")",
            "{",
            "}",
            "=",
            ",",
            "<",
            ">",
            "/",
            "/s",
            "1s",
            "5",
            "ms",
            "é",
            " ",
            "rate",
            "*",
            "-",
            ".",
            "queue.depth",
            "10s",
            "\0",
        ];
        let (mut state, mut taken) = (1u64, 0);
        for _ in 0..200_000 {
            let mut text = String::new();
            for _ in 0..2 + state % 9 {
                state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
                text.push_str(parts[(state >> 33) as usize % parts.len()]);
            }
            if let Ok(rules) = MetricRules::parse(&text) {
                taken += rules.rules.len();
                for rule in rules.rules {
                    assert_eq!(one(&rule.text), rule, "{text:?}");
                }
            }
        }
        assert!(taken > 100, "{taken}");
    }
}
