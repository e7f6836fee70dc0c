//! Metric rules over time: gets every window of metrics, returns which rules are over their limit.
//!
//! How it works: counters and values of all series that a rule applies to are added up, as sums
//! that only grow, and a rule's window is the difference of two sums; percentiles are a `Crowd`. A
//! gauge is judged series by series: with a window it must have been over for all that time.
//!
//! What it promises: memory is bounded (64 points a rule, 256 gauges a rule; those beyond are
//! counted).

use std::collections::{HashMap, VecDeque};

use crate::crowd::Crowd;
use crate::metric::{MetricRule, MetricRules, Stat};

/// Points kept for each window.
const POINTS: u64 = 64;
/// Gauges of one rule.
const MOST_GAUGES: usize = 256;

/// What came in for one series in a window.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Came<'a> {
    /// A counter's increments.
    Count(f64),
    /// A gauge: its value, or only changes.
    Gauge {
        /// Value or change.
        value: f64,
        /// It is a value.
        set: bool,
    },
    /// Values of a timing (`is_time`, ms), histogram or distribution.
    Values {
        /// The values that were kept, which stand for `count`.
        kept: &'a [f64],
        /// How many came in.
        count: f64,
        /// Their sum.
        sum: f64,
        /// The least.
        min: f64,
        /// The greatest.
        max: f64,
        /// They are milliseconds.
        is_time: bool,
    },
    /// Distinct members of a set.
    Members(f64),
}

/// A rule that is over its limit.
#[derive(Clone, Debug, PartialEq)]
pub struct Excess {
    /// Its number, from 0.
    pub rule: usize,
    /// It was not over in the window before.
    pub is_new: bool,
    /// Metric, value and rule, for people: `queue.depth was 120: queue.depth>100`.
    pub text: String,
}

/// The memory of all rules.
#[derive(Debug, Default)]
pub struct MetricWatch {
    states: Vec<State>,
}

impl MetricWatch {
    /// For these rules, from nothing.
    pub fn new(rules: &MetricRules) -> MetricWatch {
        MetricWatch { states: rules.rules.iter().cloned().map(State::new).collect() }
    }

    /// Whether there are no rules.
    pub fn is_empty(&self) -> bool {
        self.states.is_empty()
    }

    /// Adds what came in for a series in the window that ends next.
    pub fn note(&mut self, name: &str, tags: &[(Box<str>, Box<str>)], came: Came<'_>) {
        let of = |state: &&mut State| state.rule.is_of(name, tags);
        self.states.iter_mut().filter(of).for_each(|state| state.note(name, tags, came));
    }

    /// Ends a window; the rules that are over now. Times in ns, of any one clock.
    pub fn end(&mut self, from_ns: u64, to_ns: u64) -> Vec<Excess> {
        let states = self.states.iter_mut().enumerate();
        states.filter_map(|(rule, state)| state.end(rule, from_ns, to_ns)).collect()
    }

    /// Gauges that no rule has room for, since the last call.
    pub fn take_refused(&mut self) -> u64 {
        self.states.iter_mut().map(|state| std::mem::take(&mut state.refused)).sum()
    }
}

#[derive(Debug)]
struct State {
    rule: MetricRule,
    /// So far: sum, count, of counters and values together.
    sum: f64,
    count: f64,
    /// (time, sum, count), oldest first; the oldest is the last point before the window.
    points: VecDeque<(u64, f64, f64)>,
    crowd: Option<Crowd>,
    /// So far: values, and those over the limit.
    total: f64,
    over: f64,
    /// Of this window.
    worst: Option<f64>,
    members: f64,
    gauges: HashMap<String, Gauge>,
    /// Whether a value of it ever came in.
    known: bool,
    was_over: bool,
    refused: u64,
}

#[derive(Clone, Copy, Debug)]
struct Gauge {
    value: f64,
    /// Since when it has been over.
    since_ns: Option<u64>,
}

impl State {
    fn new(rule: MetricRule) -> State {
        let crowd = match rule.stat {
            Stat::Percentile(allowed_ppm) => Some(Crowd::new(allowed_ppm, rule.window_ns)),
            _ => None,
        };
        State {
            rule,
            sum: 0.0,
            count: 0.0,
            points: VecDeque::new(),
            crowd,
            total: 0.0,
            over: 0.0,
            worst: None,
            members: 0.0,
            gauges: HashMap::new(),
            known: false,
            was_over: false,
            refused: 0,
        }
    }

    fn note(&mut self, name: &str, tags: &[(Box<str>, Box<str>)], came: Came<'_>) {
        let stat = self.rule.stat;
        let plain = stat == Stat::Plain;
        match came {
            _ if self.rule.is_time && !matches!(came, Came::Values { is_time: true, .. }) => (),
            Came::Count(n) if plain || matches!(stat, Stat::Rate | Stat::Sum) => {
                (self.sum, self.known) = (self.sum + n, true);
            }
            Came::Gauge { value, set } if plain => self.gauge(name, tags, value, set),
            Came::Members(n) if plain => {
                (self.members, self.known) = (self.members + n, true);
            }
            Came::Values { kept, count, sum, min, max, .. } if stat != Stat::Rate => {
                self.known = true;
                (self.sum, self.count) = (self.sum + sum, self.count + count);
                let greatest = match stat {
                    Stat::Min => false,
                    Stat::Max => true,
                    _ => self.rule.above,
                };
                let worst = if greatest { max } else { min };
                let pick = if greatest { f64::max } else { f64::min };
                self.worst = Some(self.worst.map_or(worst, |w| pick(w, worst)));
                let over = kept.iter().filter(|v| **v > self.rule.limit).count() as f64;
                self.total += count;
                self.over += over * count / kept.len().max(1) as f64;
            }
            _ => (),
        }
    }

    fn gauge(&mut self, name: &str, tags: &[(Box<str>, Box<str>)], value: f64, set: bool) {
        let key = series_text(name, tags);
        let known = self.gauges.len();
        match self.gauges.get_mut(&key) {
            Some(gauge) => gauge.value = if set { value } else { gauge.value + value },
            None if known < MOST_GAUGES => {
                self.gauges.insert(key, Gauge { value, since_ns: None });
            }
            None => self.refused += 1,
        }
    }

    fn is_over(&self, value: f64) -> bool {
        match self.rule.above {
            true => value > self.rule.limit,
            false => value < self.rule.limit,
        }
    }

    fn end(&mut self, rule: usize, from_ns: u64, to_ns: u64) -> Option<Excess> {
        let found = self.found(from_ns, to_ns);
        (self.worst, self.members) = (None, 0.0);
        let is_new = found.is_some() && !self.was_over;
        self.was_over = found.is_some();
        let text = format!("{}: {}", found?, self.rule.text);
        Some(Excess { rule, is_new, text })
    }

    /// What is over: which series, and its value, as `queue.depth was 120`.
    fn found(&mut self, from_ns: u64, to_ns: u64) -> Option<String> {
        let covered = self.keep(from_ns, to_ns);
        if let Some((series, value)) = self.worst_gauge(to_ns) {
            return Some(format!("{series} was {}", self.shown(value)));
        }
        if let Some(crowd) = &mut self.crowd {
            crowd.note(to_ns, self.total.round() as u64, self.over.round() as u64);
            let (total, over) = crowd.is_over()?;
            let (name, limit) = (&self.rule.name, self.shown(self.rule.limit));
            return Some(format!("{over} of {total} values of {name} were over {limit}"));
        }
        let (first, last) = (self.points.front()?, self.points.back()?);
        let (sum, count) = (last.1 - first.1, last.2 - first.2);
        let length_ns = match self.rule.window_ns {
            0 => to_ns.saturating_sub(from_ns).max(1),
            window_ns => window_ns,
        };
        let value = match self.rule.stat {
            Stat::Plain if self.members > 0.0 => self.members,
            // Values: the worst of the window that ends now.
            Stat::Plain if self.worst.is_some() => self.worst?,
            Stat::Plain if !self.gauges.is_empty() => return None,
            Stat::Plain | Stat::Sum => sum,
            Stat::Rate => sum * 1e9 / length_ns as f64,
            Stat::Count => count,
            Stat::Mean if count > 0.0 => sum / count,
            Stat::Min | Stat::Max => self.worst?,
            Stat::Mean | Stat::Percentile(_) => return None,
        };
        // "Too little" can be decided only when the window is whole.
        let ripe = self.known && (self.rule.above || covered);
        (ripe && self.is_over(value)).then(|| format!("{} was {}", self.label(), self.shown(value)))
    }

    fn shown(&self, value: f64) -> String {
        let unit = if self.rule.is_time { " ms" } else { "" };
        format!("{}{unit}", (value * 1e3).round() / 1e3)
    }

    /// Stores this window's end; returns whether the rule's window is whole.
    fn keep(&mut self, from_ns: u64, to_ns: u64) -> bool {
        if self.points.is_empty() {
            self.points.push_back((from_ns, 0.0, 0.0));
            self.crowd.iter_mut().for_each(|crowd| crowd.note(from_ns, 0, 0));
        }
        let window_ns = self.rule.window_ns;
        let begun = self.points.iter().rev().nth(1).map(|before| before.0);
        let is_dense = |before: u64| to_ns.saturating_sub(before) < window_ns / POINTS;
        if self.points.len() > 2 && begun.is_some_and(is_dense) {
            self.points.pop_back();
        }
        self.points.push_back((to_ns, self.sum, self.count));
        let late = to_ns.saturating_sub(window_ns.max(1));
        while self.points.len() > 2 && self.points.get(1).is_some_and(|p| p.0 <= late) {
            self.points.pop_front();
        }
        self.points.front().is_some_and(|p| p.0 <= late)
    }

    fn worst_gauge(&mut self, to_ns: u64) -> Option<(String, f64)> {
        let (above, limit, window_ns) = (self.rule.above, self.rule.limit, self.rule.window_ns);
        let mut found: Option<(&String, f64)> = None;
        for (key, gauge) in &mut self.gauges {
            let over = if above { gauge.value > limit } else { gauge.value < limit };
            if !over {
                gauge.since_ns = None;
                continue;
            }
            let since_ns = *gauge.since_ns.get_or_insert(to_ns);
            let worse = found.is_none_or(|(_, v)| (gauge.value > v) == above);
            if to_ns.saturating_sub(since_ns) >= window_ns && worse {
                found = Some((key, gauge.value));
            }
        }
        found.map(|(key, value)| (key.clone(), value))
    }

    fn label(&self) -> String {
        let name = &self.rule.name;
        match self.rule.stat {
            Stat::Plain => name.clone(),
            Stat::Rate => format!("{name} a second"),
            Stat::Sum => format!("the sum of {name}"),
            Stat::Count => format!("the count of {name}"),
            Stat::Mean => format!("the mean of {name}"),
            Stat::Min => format!("the least {name}"),
            Stat::Max | Stat::Percentile(_) => format!("the greatest {name}"),
        }
    }
}

/// `name{key=value,other=value}`.
fn series_text(name: &str, tags: &[(Box<str>, Box<str>)]) -> String {
    if tags.is_empty() {
        return name.to_owned();
    }
    let tags: Vec<String> = tags.iter().map(|(key, value)| format!("{key}={value}")).collect();
    format!("{name}{{{}}}", tags.join(","))
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Runs windows of a second, each with its values; returns the seconds at which each rule was
    /// over, and the texts at the first of each time.
    fn over(rules: &str, windows: &[&[(&str, Came<'_>)]]) -> (Vec<(usize, u64)>, Vec<String>) {
        let mut watch = MetricWatch::new(&MetricRules::parse(rules).expect(rules));
        let (mut at, mut texts) = (Vec::new(), Vec::new());
        for (second, came) in (0u64..).zip(windows) {
            came.iter().for_each(|(name, came)| watch.note(name, &[], *came));
            for excess in watch.end(second * S, (second + 1) * S) {
                at.push((excess.rule, second));
                texts.extend(excess.is_new.then_some(excess.text));
            }
        }
        (at, texts)
    }

    fn set(value: f64) -> Came<'static> {
        Came::Gauge { value, set: true }
    }

    fn values(kept: &[f64], is_time: bool) -> Came<'_> {
        let (mut min, mut max) = (f64::INFINITY, f64::NEG_INFINITY);
        kept.iter().for_each(|v| (min, max) = (min.min(*v), max.max(*v)));
        let (count, sum) = (kept.len() as f64, kept.iter().sum());
        Came::Values { kept, count, sum, min, max, is_time }
    }

    #[test]
    fn a_gauge_is_over_from_the_window_it_rose_in_until_it_falls() {
        let rise = Came::Gauge { value: 30.0, set: false };
        let windows: &[&[(&str, Came<'_>)]] =
            &[&[("depth", set(90.0))], &[("depth", rise)], &[], &[("depth", set(100.0))], &[]];
        let (at, texts) = over("depth>100", windows);
        assert_eq!(at, [(0, 1), (0, 2)], "the limit itself is not over");
        assert_eq!(texts, ["depth was 120: depth>100"]);
    }

    #[test]
    fn a_gauge_with_a_window_must_stay_over() {
        let high: &[(&str, Came<'_>)] = &[("depth", set(101.0))];
        let low: &[(&str, Came<'_>)] = &[("depth", set(1.0))];
        let (at, _) = over("depth>100/3s", &[high, high, low, high, &[], &[], &[], low]);
        assert_eq!(at, [(0, 6)]);
    }

    #[test]
    fn counters_are_summed_over_the_window() {
        let three: &[(&str, Came<'_>)] = &[("errors", Came::Count(3.0))];
        let windows = &[three, three, three, &[], &[], &[]];
        let (at, texts) = over("errors>8/3s, errors>2/s/3s, errors>2", windows);
        assert_eq!(at, [(2, 0), (2, 1), (0, 2), (1, 2), (2, 2)]);
        assert_eq!(texts[0], "errors was 3: errors>2");
        assert!(texts.contains(&"errors a second was 3: errors>2/s/3s".to_owned()), "{texts:?}");
    }

    #[test]
    fn too_little_is_known_when_the_window_is_whole_and_the_metric_was_seen() {
        let one: &[(&str, Came<'_>)] = &[("orders", Came::Count(1.0))];
        let (at, _) = over("orders<1/3s", &[one, one, &[], &[], &[], one, &[]]);
        assert_eq!(at, [(0, 4)]);
        assert!(over("never<1/3s", &[one; 9]).0.is_empty());
    }

    #[test]
    fn values_are_judged_by_their_statistics() {
        let fast: Vec<f64> = vec![1.0; 99];
        let slow = [80.0; 3];
        let mixed: &[(&str, Came<'_>)] =
            &[("db", values(&fast, true)), ("db", values(&slow, true))];
        let rules = "p99(db)>50ms/30s, p95(db)>50ms/30s, max(db)>70ms, mean(db)>3ms, db>79, \
                     count(db)>101, sum(db)>1s, min(db)<2ms, rate(db)>0";
        let (at, texts) = over(rules, &[mixed]);
        assert_eq!(at, [0, 2, 3, 4, 5, 7].map(|rule| (rule, 0)));
        assert_eq!(
            texts,
            [
                "3 of 102 values of db were over 50 ms: p99(db)>50ms/30s",
                "the greatest db was 80 ms: max(db)>70ms",
                "the mean of db was 3.324 ms: mean(db)>3ms",
                "db was 80: db>79",
                "the count of db was 102: count(db)>101",
                "the least db was 1 ms: min(db)<2ms",
            ]
        );
        let sizes: &[(&str, Came<'_>)] = &[("db", values(&slow, false))];
        assert!(over("max(db)>70ms", &[sizes]).0.is_empty(), "these are no times");
    }

    #[test]
    fn its_memory_is_bounded() {
        let mut watch = MetricWatch::new(&MetricRules::parse("depth>1/1h, n>1/1h").expect("two"));
        for second in 0..20_000 {
            watch.note("n", &[], Came::Count(1.0));
            let tag = [("id".into(), second.to_string().into())];
            watch.note("depth", &tag, set(2.0));
            watch.end(second * S, (second + 1) * S);
        }
        assert_eq!(watch.states[0].gauges.len(), MOST_GAUGES);
        assert_eq!(watch.take_refused(), 20_000 - MOST_GAUGES as u64);
        let points = watch.states[1].points.len();
        assert!(points < 2 * POINTS as usize + 4, "{points}");
    }
}
