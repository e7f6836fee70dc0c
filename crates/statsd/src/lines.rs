//! Lines: a reading in StatsD or DogStatsD.
//!
//! How it works: `name:value|type|@rate|#tags|c:container|Ttime`, as far as the dialect has them.
//!
//! | | StatsD | DogStatsD |
//! | --- | --- | --- |
//! | counter | `n:5\|c` | `n:5\|c` |
//! | gauge set | `n:5\|g`; below zero `n:0\|g`, then `n:-5\|g` | `n:5\|g`, `n:-5\|g` |
//! | gauge deltas | `n:+5\|g` | the new value |
//! | timing | `n:5\|ms` a value | `n:5:6:7\|ms` |
//! | histogram, distribution | as timings | `\|h`, `\|d` |
//! | set | `n:member\|s` a member | the same |
//! | tags | left out and counted | `\|#k:v,flag` |
//!
//! In StatsD a sign makes a gauge's value a delta; in DogStatsD it does not.
//!
//! What it promises: a value that stands for several has a rate that servers which count in whole
//! numbers read right: 3 values for 10 become two for 3 each and one for 4. No clock, no I/O. What
//! is missing on purpose: sampling, which is done where the value comes in.

use std::collections::HashMap;

use metrics::window::{Id, Kind, Reading, Value};

use crate::config::{Config, Dialect};
use crate::pack::{lines_in, Out};
use crate::stats::Reason;
use crate::text;

/// Gauges whose last value is remembered, for deltas in DogStatsD.
const GAUGES: usize = 16_384;

/// Builds lines. Remembers gauges; one for each sink.
pub(crate) struct Lines {
    dialect: Dialect,
    prefix: String,
    /// `k:v,k:v`, ready to append.
    tags: String,
    container: Option<String>,
    packed: bool,
    timestamps: bool,
    most: usize,
    gauges: HashMap<Id, f64>,
    /// Lines that went without their tags.
    pub(crate) without_tags: u64,
}

impl Lines {
    /// For a sink with these settings.
    pub(crate) fn new(config: &Config) -> Lines {
        let mut prefix = String::new();
        text::name(&mut prefix, config.prefix.trim_end_matches('.'));
        if !prefix.is_empty() {
            prefix.push('.');
        }
        let mut tags = String::new();
        config.tags.iter().for_each(|(k, v)| tag(&mut tags, k, v));
        Lines {
            dialect: config.dialect,
            prefix,
            tags,
            container: config.container.clone(),
            packed: config.packed,
            timestamps: config.timestamps,
            most: config.packet_bytes,
            gauges: HashMap::new(),
            without_tags: 0,
        }
    }

    /// The lines of one reading of a window that ended at `at_s`, seconds since the epoch.
    pub(crate) fn reading(&mut self, reading: &Reading, at_s: u64, out: &mut impl Out) {
        let id = &reading.id;
        let Some(head) = self.head(&id.name) else {
            return out.refused(Reason::Invalid, 1);
        };
        match (&reading.value, id.kind) {
            (Value::Count(sum), Kind::Counter) => {
                let tail = self.tail("c", None, &id.tags, Some(at_s));
                self.one(&head, *sum, &tail, &id.tags, out);
            }
            (Value::Gauge { value, set }, Kind::Gauge) => {
                self.gauge(id, &head, (*value, *set), at_s, out);
            }
            (Value::Values { kept, count, .. }, kind) => match self.letter(kind) {
                Some(letter) => self.values(id, &head, letter, (kept, *count), out),
                None => out.refused(Reason::Invalid, 1),
            },
            (Value::Members { members, .. }, Kind::Set) => {
                let tail = self.tail("s", None, &id.tags, None);
                for member in members {
                    let mut line = head.clone();
                    match self.dialect {
                        Dialect::StatsD => text::plain_field(&mut line, member),
                        Dialect::DogStatsD => text::field(&mut line, member),
                    }
                    line.push_str(&tail);
                    self.put(&line, &id.tags, out);
                }
            }
            _ => out.refused(Reason::Invalid, 1),
        }
    }

    /// A line about the sink itself: a name without the prefix, one tag or a suffix.
    pub(crate) fn own(&self, name: &str, reason: Option<Reason>, value: f64, kind: &str) -> String {
        let mut line = format!("dashcam.statsd.{name}");
        let mut tags = Vec::new();
        match (reason, self.dialect) {
            (None, _) => {}
            (Some(reason), Dialect::StatsD) => {
                line.push('.');
                line.push_str(reason.name());
            }
            (Some(reason), Dialect::DogStatsD) => {
                tags.push((Box::from("reason"), Box::from(reason.name())));
            }
        }
        line.push(':');
        text::number(&mut line, value);
        line.push_str(&self.tail(kind, None, &tags, None));
        line
    }

    /// `,`-joined tags of the settings and of `own`; empty in plain StatsD.
    pub(crate) fn joined_tags<K: AsRef<str>, V: AsRef<str>>(&self, own: &[(K, V)]) -> String {
        let mut all = String::new();
        if self.dialect == Dialect::DogStatsD {
            all.push_str(&self.tags);
            own.iter().for_each(|(k, v)| tag(&mut all, k.as_ref(), v.as_ref()));
        }
        all
    }

    /// The container's id, where it is to be sent.
    pub(crate) fn container(&self) -> Option<&str> {
        self.container.as_deref().filter(|_| self.dialect == Dialect::DogStatsD)
    }

    /// Prefix, name and `:`. None: the name is empty.
    fn head(&self, name: &str) -> Option<String> {
        let mut head = self.prefix.clone();
        let from = head.len();
        text::name(&mut head, name);
        if head.len() == from {
            return None;
        }
        // DogStatsD would take these for a service check and an event.
        if self.dialect == Dialect::DogStatsD {
            while head.starts_with("_sc") || head.starts_with("_e{") {
                head.remove(0);
            }
        }
        head.push(':');
        Some(head)
    }

    /// Everything behind the value.
    fn tail<K: AsRef<str>, V: AsRef<str>>(
        &self,
        letter: &str,
        weight: Option<f64>,
        tags: &[(K, V)],
        at_s: Option<u64>,
    ) -> String {
        let mut tail = format!("|{letter}");
        if let Some(weight) = weight.filter(|w| *w > 1.0) {
            tail.push_str("|@");
            text::rate(&mut tail, weight);
        }
        let tags = self.joined_tags(tags);
        if !tags.is_empty() {
            tail.push_str("|#");
            tail.push_str(&tags);
        }
        if let Some(container) = self.container() {
            tail.push_str("|c:");
            tail.push_str(container);
        }
        if let Some(at_s) = at_s.filter(|_| self.timestamps) {
            tail.push_str(&format!("|T{at_s}"));
        }
        tail
    }

    fn letter(&self, kind: Kind) -> Option<&'static str> {
        match (kind, self.dialect) {
            (Kind::Timing, _) => Some("ms"),
            (Kind::Histogram | Kind::Distribution, Dialect::StatsD) => Some("ms"),
            (Kind::Histogram, Dialect::DogStatsD) => Some("h"),
            (Kind::Distribution, Dialect::DogStatsD) => Some("d"),
            (Kind::Counter | Kind::Gauge | Kind::Set, _) => None,
        }
    }

    fn one(
        &mut self,
        head: &str,
        value: f64,
        tail: &str,
        tags: &[(Box<str>, Box<str>)],
        out: &mut impl Out,
    ) {
        if !value.is_finite() {
            return out.refused(Reason::Invalid, 1);
        }
        let mut line = head.to_owned();
        text::number(&mut line, value);
        line.push_str(tail);
        self.put(&line, tags, out);
    }

    fn gauge(
        &mut self,
        id: &Id,
        head: &str,
        (value, set): (f64, bool),
        at_s: u64,
        out: &mut impl Out,
    ) {
        let tail = self.tail("g", None, &id.tags, Some(at_s));
        if !value.is_finite() {
            return out.refused(Reason::Invalid, 1);
        }
        if self.dialect == Dialect::DogStatsD {
            return match self.remember(id, value, set) {
                Some(now) => self.one(head, now, &tail, &id.tags, out),
                None => out.refused(Reason::Unsupported, 1),
            };
        }
        let mut line = head.to_owned();
        match (set, value < 0.0) {
            (true, true) => line = format!("{head}0{tail}\n{head}"),
            (false, false) => line.push('+'),
            _ => {}
        }
        text::number(&mut line, value);
        line.push_str(&tail);
        self.put(&line, &id.tags, out);
    }

    /// The gauge's value now. None: a delta of a gauge that there was no room to remember.
    fn remember(&mut self, id: &Id, value: f64, set: bool) -> Option<f64> {
        if let Some(last) = self.gauges.get_mut(id) {
            *last = if set { value } else { *last + value };
            return Some(*last);
        }
        if self.gauges.len() < GAUGES {
            self.gauges.insert(id.clone(), value);
            return Some(value);
        }
        set.then_some(value)
    }

    fn values(
        &mut self,
        id: &Id,
        head: &str,
        letter: &str,
        (kept, count): (&[f64], f64),
        out: &mut impl Out,
    ) {
        for (weight, values) in weights(kept, count) {
            let tail = self.tail(letter, Some(weight), &id.tags, None);
            let mut line = head.to_owned();
            for value in values {
                // A negative time is a bad line to npm's `statsd`.
                let bad = self.dialect == Dialect::StatsD && value < 0.0;
                if bad || !value.is_finite() {
                    out.refused(Reason::Invalid, 1);
                    continue;
                }
                let before = line.len();
                if before > head.len() {
                    line.push(':');
                }
                text::number(&mut line, value);
                let full = !self.packed || line.len() + tail.len() > self.most;
                if before > head.len() && full {
                    let last = line.split_off(before);
                    line.push_str(&tail);
                    self.put(&line, &id.tags, out);
                    line = format!("{head}{}", &last[1..]);
                }
            }
            if line.len() > head.len() {
                line.push_str(&tail);
                self.put(&line, &id.tags, out);
            }
        }
    }

    fn put(&mut self, unit: &str, tags: &[(Box<str>, Box<str>)], out: &mut impl Out) {
        if self.dialect == Dialect::StatsD && !tags.is_empty() {
            self.without_tags += lines_in(unit);
        }
        out.unit(unit);
    }
}

/// Appends one tag to a list.
fn tag(list: &mut String, key: &str, value: &str) {
    if key.is_empty() {
        return;
    }
    if !list.is_empty() {
        list.push(',');
    }
    text::key(list, key);
    if !value.is_empty() {
        list.push(':');
        text::value(list, value);
    }
}

/// Which values stand for how many each, so that the sum is `count`.
fn weights(kept: &[f64], count: f64) -> Vec<(f64, Vec<f64>)> {
    let n = kept.len() as f64;
    let whole = count.round();
    if kept.is_empty() || !count.is_finite() || whole <= n {
        return vec![(1.0, kept.to_vec())];
    }
    if (count - whole).abs() > 1e-6 * whole || whole > 9e15 {
        return vec![(count / n, kept.to_vec())];
    }
    // `more` of them stand for one more than the rest; they are chosen evenly over all.
    let (all, n) = (whole as u64, kept.len() as u64);
    let (each, more) = (all / n, all % n);
    let weighs_more = |i: u64| {
        u128::from(i + 1) * u128::from(more) / u128::from(n)
            > u128::from(i) * u128::from(more) / u128::from(n)
    };
    let part = |want: bool| -> Vec<f64> {
        let numbered = kept.iter().zip(0u64..);
        numbered.filter(|(_, i)| weighs_more(*i) == want).map(|(v, _)| *v).collect()
    };
    let groups = [(each as f64, part(false)), ((each + 1) as f64, part(true))];
    groups.into_iter().filter(|group| !group.1.is_empty()).collect()
}

#[cfg(test)]
#[path = "lines_tests.rs"]
mod tests;
