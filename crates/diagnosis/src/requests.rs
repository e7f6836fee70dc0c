//! Which requests were slow, which were normal, and what is typical.

use std::collections::HashMap;

use capture::read::{Capture, RequestRow};

/// A request that is judged.
#[derive(Clone, Copy, Debug)]
pub struct Judged<'c> {
    /// Its row.
    pub row: &'c RequestRow,
    /// Its end, or the capture's end while it runs.
    pub end_ns: u64,
}

impl Judged<'_> {
    /// How long it took, so far.
    pub fn ns(&self) -> u64 {
        self.end_ns.saturating_sub(self.row.begin_ns)
    }
}

/// The requests of a capture, divided.
#[derive(Debug, Default)]
pub struct Requests<'c> {
    /// Past their limit, slowest first.
    pub slow: Vec<Judged<'c>>,
    /// Within their limit and ended.
    pub normal: Vec<Judged<'c>>,
    /// The limit of the slow ones' rule (the smallest, when several), ns.
    pub threshold_ns: u64,
    /// Median of the normal requests with the slow ones' names, ns; of all when those are few.
    pub typical_ns: u64,
    /// Median by name id, where at least `ENOUGH` normal requests are there.
    typical_by_name: HashMap<u32, u64>,
}

/// Normal requests a name needs for a typical time of its own.
const ENOUGH: usize = 3;

impl<'c> Requests<'c> {
    /// Divides the requests by `limit_ns` of their names.
    pub fn divide(capture: &'c Capture, limit_ns: impl Fn(&str) -> u64) -> Requests<'c> {
        let mut requests = Requests { threshold_ns: u64::MAX, ..Requests::default() };
        for row in capture.requests.iter().filter(|r| r.begin_ns != 0) {
            let limit = limit_ns(capture.name(row.name));
            let end_ns = row.end_ns.unwrap_or(capture.meta.to_ns).max(row.begin_ns);
            let judged = Judged { row, end_ns };
            if judged.ns() >= limit {
                requests.threshold_ns = requests.threshold_ns.min(limit);
                requests.slow.push(judged);
            } else if row.end_ns.is_some() {
                requests.normal.push(judged);
            }
        }
        if requests.slow.is_empty() {
            requests.threshold_ns = limit_ns("");
        }
        requests.slow.sort_by_key(|r| std::cmp::Reverse(r.ns()));
        requests.settle_typical();
        requests
    }

    fn settle_typical(&mut self) {
        let mut by_name: HashMap<u32, Vec<u64>> = HashMap::new();
        for request in &self.normal {
            by_name.entry(request.row.name).or_default().push(request.ns());
        }
        let all = median(self.normal.iter().map(Judged::ns).collect());
        let enough = by_name.into_iter().filter(|(_, times)| times.len() >= ENOUGH);
        self.typical_by_name = enough.map(|(name, times)| (name, median(times))).collect();
        let of_slow: Vec<u64> = self
            .normal
            .iter()
            .filter(|n| self.slow.iter().any(|s| s.row.name == n.row.name))
            .map(Judged::ns)
            .collect();
        self.typical_ns = if of_slow.len() >= ENOUGH { median(of_slow) } else { all };
    }

    /// What is typical for a request of this name.
    pub fn typical_of(&self, name: u32) -> u64 {
        self.typical_by_name.get(&name).copied().unwrap_or(self.typical_ns)
    }

    /// Up to `most` normal requests that share a name with a slow one (any, when none does), spread
    /// evenly over the capture.
    pub fn controls(&self, most: usize) -> Vec<Judged<'c>> {
        let named = |n: &&Judged<'_>| self.slow.iter().any(|s| s.row.name == n.row.name);
        let mut same: Vec<Judged<'c>> = self.normal.iter().filter(named).copied().collect();
        if same.is_empty() {
            same.clone_from(&self.normal);
        }
        let step = same.len().div_ceil(most.max(1)).max(1);
        same.into_iter().step_by(step).collect()
    }
}

fn median(mut times: Vec<u64>) -> u64 {
    times.sort_unstable();
    times.get(times.len() / 2).copied().unwrap_or(0)
}
