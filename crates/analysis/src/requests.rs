//! Which requests were slow, which were normal, and what is typical.

use capture::read::{Capture, QuickMap, QuickSet, RequestRow};

use crate::thresholds;

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

    fn weighed(&self) -> (u64, u32) {
        (self.ns(), self.row.times)
    }
}

/// The number of requests that these rows represent.
pub fn count(rows: &[Judged<'_>]) -> usize {
    rows.iter().map(|r| r.row.times as usize).sum()
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
    /// The lowest and the highest limit of the slow ones, or of all if none was slow, ns. None: no
    /// rule holds for any of them.
    pub limits_ns: Option<(u64, u64)>,
    /// Median of the normal requests with the slow ones' names, ns; of all when those are few.
    pub typical_ns: u64,
    /// Requests whose end was lost: how long they took is not known, so they are neither.
    pub endless: usize,
    /// Slow requests that ended before anything is known of what the threads did: left out.
    pub older: usize,
    /// Begin of the time the capture covers.
    from_ns: u64,
    /// Median by name id, where at least `repeated` normal requests are there.
    typical_by_name: QuickMap<u32, u64>,
}

impl<'c> Requests<'c> {
    /// Divides the requests by `limit_ns` of their names.
    pub fn divide(capture: &'c Capture, limit_ns: impl Fn(&str) -> u64) -> Requests<'c> {
        let mut requests = Requests { threshold_ns: u64::MAX, ..Requests::default() };
        let ends = Ends::of(capture);
        let mut limits: QuickMap<u32, u64> = QuickMap::default();
        for row in capture.requests.iter().filter(|r| r.begin_ns != 0) {
            if ends.lost(row) {
                requests.endless += 1;
                continue;
            }
            let limit = *limits.entry(row.name).or_insert_with(|| limit_ns(capture.name(row.name)));
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
        requests.leave_older(capture.meta.from_ns, capture.common_horizon_ns());
        let judged = if requests.slow.is_empty() { &requests.normal } else { &requests.slow };
        let named = judged.iter().filter_map(|r| limits.get(&r.row.name));
        let (low, high) = named
            .filter(|limit| **limit != u64::MAX)
            .fold((u64::MAX, 0), |(low, high), limit| (low.min(*limit), high.max(*limit)));
        requests.limits_ns = (low <= high).then_some((low, high));
        requests.slow.sort_by_key(|r| std::cmp::Reverse(r.ns()));
        requests.settle_typical();
        requests
    }

    /// A thread that records little has requests in the capture that are older than the time the
    /// capture covers, with no sample and no switch record beside them: nothing shows why they were
    /// slow. If a capture has no other slow ones, those are kept of which some records may be left:
    /// blocks are copied whole, so that they often reach further back, to the common horizon.
    fn leave_older(&mut self, from_ns: u64, horizon_ns: u64) {
        let covered = |r: &Judged<'_>| r.end_ns > from_ns;
        let since_ns = match self.slow.iter().any(covered) {
            true => from_ns,
            false => from_ns.min(horizon_ns),
        };
        let all = count(&self.slow);
        self.slow.retain(|r| r.end_ns > since_ns);
        self.older = all - count(&self.slow);
        self.from_ns = from_ns;
    }

    fn settle_typical(&mut self) {
        let mut by_name: QuickMap<u32, Vec<(u64, u32)>> = QuickMap::default();
        for request in &self.normal {
            by_name.entry(request.row.name).or_default().push(request.weighed());
        }
        (self.typical_ns, self.typical_by_name) = typical(by_name, &self.slow_names());
    }

    fn slow_names(&self) -> QuickSet<u32> {
        self.slow.iter().map(|request| request.row.name).collect()
    }

    /// What is typical for a request of this name.
    pub fn typical_of(&self, name: u32) -> u64 {
        self.typical_by_name.get(&name).copied().unwrap_or(self.typical_ns)
    }

    /// What a request took beyond what is typical for its name, ns.
    pub fn excess_ns_of(&self, request: &Judged<'_>) -> u64 {
        request.ns().saturating_sub(self.typical_of(request.row.name))
    }

    /// What all slow requests took beyond that, ns.
    pub fn excess_ns(&self) -> u64 {
        let of = |r: &Judged<'_>| self.excess_ns_of(r).saturating_mul(r.row.times.into());
        self.slow.iter().map(of).fold(0, u64::saturating_add)
    }

    /// Whether several normal requests bear this name.
    pub fn is_usually_quick(&self, name: u32) -> bool {
        self.typical_by_name.contains_key(&name)
    }

    /// Up to `most` normal requests that share a name with a slow one, spread evenly over the
    /// capture. Any, where too few do to say what is typical: one just below its limit waited for
    /// the same as the slow ones, and would hide what that was.
    pub fn controls(&self, most: usize) -> Vec<Judged<'c>> {
        let names = self.slow_names();
        let named = |n: &&Judged<'_>| names.contains(&n.row.name);
        let mut same: Vec<Judged<'c>> = self.normal.iter().filter(named).copied().collect();
        if count(&same) < thresholds::repeated() {
            same.clone_from(&self.normal);
        }
        // What an older one did is not known.
        let known = |n: &Judged<'_>| n.row.begin_ns >= self.from_ns;
        if same.iter().any(known) {
            same.retain(known);
        }
        let step = same.len().div_ceil(most.max(1)).max(1);
        same.into_iter().step_by(step).collect()
    }
}

/// What is typical of all requests, from the parts of a capture one after the other.
///
/// Cost: 16 bytes for each normal request until the last part is taken.
#[derive(Debug, Default)]
pub struct Typical {
    normal: QuickMap<u32, Vec<(u64, u32)>>,
    slow_names: QuickSet<u32>,
    /// Of slow requests that `Requests::older` does not count.
    known_names: QuickSet<u32>,
    typical_ns: u64,
    by_name: QuickMap<u32, u64>,
}

impl Typical {
    /// Takes the requests that a part owns.
    pub fn take(&mut self, part: &Capture, limit_ns: impl Fn(&str) -> u64) {
        let requests = Requests::divide(part, limit_ns);
        let own = |r: &&Judged<'_>| part.owns(r.row.begin_ns);
        for request in requests.normal.iter().filter(own) {
            self.normal.entry(request.row.name).or_default().push(request.weighed());
        }
        for request in requests.slow.iter().filter(own) {
            self.slow_names.insert(request.row.name);
            if request.end_ns > part.meta.from_ns {
                self.known_names.insert(request.row.name);
            }
        }
    }

    /// All parts were taken.
    pub fn settle(&mut self) {
        let normal = std::mem::take(&mut self.normal);
        let some_known = !self.known_names.is_empty();
        let names = if some_known { &self.known_names } else { &self.slow_names };
        (self.typical_ns, self.by_name) = typical(normal, names);
    }

    /// What each slow request of a part took beyond what is typical for its name, by id: as
    /// `Requests::excess_ns_of` says of the whole capture.
    pub fn excess_ns(&self, part: &Capture, limit_ns: impl Fn(&str) -> u64) -> QuickMap<u64, u64> {
        let slow = Requests::divide(part, limit_ns).slow.into_iter();
        let known = |r: &Judged<'_>| self.known_names.is_empty() || r.end_ns > part.meta.from_ns;
        let typical = |name: u32| self.by_name.get(&name).copied().unwrap_or(self.typical_ns);
        slow.filter(known).map(|r| (r.row.id, r.ns().saturating_sub(typical(r.row.name)))).collect()
    }
}

/// What is typical for the names `slow`, and by name where enough normal requests are there. By
/// name: how long normal requests took, each with how many took about that.
fn typical(
    normal: QuickMap<u32, Vec<(u64, u32)>>,
    slow: &QuickSet<u32>,
) -> (u64, QuickMap<u32, u64>) {
    let of = |wanted: &dyn Fn(&u32) -> bool| -> Vec<(u64, u32)> {
        let named = normal.iter().filter(|(name, _)| wanted(name));
        named.flat_map(|(_, times)| times).copied().collect()
    };
    let of_slow = of(&|name| slow.contains(name));
    let enough = |times: &[(u64, u32)]| times.len() >= thresholds::repeated();
    let typical_ns = if enough(&of_slow) { median(of_slow) } else { median(of(&|_| true)) };
    let by_name = normal.into_iter().filter(|(_, times)| enough(times));
    (typical_ns, by_name.map(|(name, times)| (name, median(times))).collect())
}

/// Separates requests that still ran when the capture was made from those whose end was lost.
struct Ends<'c> {
    capture: &'c Capture,
    /// Begin of the last request of each thread that runs them one after the other.
    last_ns: QuickMap<u32, u64>,
}

impl<'c> Ends<'c> {
    fn of(capture: &'c Capture) -> Ends<'c> {
        let mut last_ns: QuickMap<u32, u64> =
            capture.last_begun.iter().map(|(tid, ns)| (*tid, *ns)).collect();
        for row in capture.requests.iter().filter(|r| !r.on_loop) {
            let last = last_ns.entry(row.tid).or_default();
            *last = row.started_ns.max(*last);
        }
        Ends { capture, last_ns }
    }

    /// A request without an end has ended all the same when the recorder, asked what was running,
    /// did not name it, or when its thread has taken up another one since.
    fn lost(&self, row: &RequestRow) -> bool {
        if row.end_ns.is_some() {
            return false;
        }
        /// The recorder keeps this many open requests in view; with more, some are not named.
        const OPEN_MAX: usize = 4000;
        let open = &self.capture.open_at_copy;
        // A capture of a running process has accounts (`books`). A missing `open_told` counts as
        // true: captures listed their open requests before they had that flag.
        let meta = &self.capture.meta.all;
        let asked = meta["books"].is_object() && meta["open_told"] != false;
        let all = asked && open.len() < OPEN_MAX;
        let unnamed = all && !open.contains(&row.id);
        let followed = self.last_ns.get(&row.tid).is_some_and(|last| *last > row.started_ns);
        unnamed || (!row.on_loop && followed && !open.contains(&row.id))
    }
}

/// Of times, each with how many took about that. Cost: two walks over them, on average.
fn median(mut weighed: Vec<(u64, u32)>) -> u64 {
    let sum = |some: &[(u64, u32)]| some.iter().map(|(_, times)| u64::from(*times)).sum::<u64>();
    let half = sum(&weighed) / 2;
    let (mut rest, mut before) = (weighed.as_mut_slice(), 0);
    while !rest.is_empty() {
        let (below, (ns, times), above) = rest.select_nth_unstable(rest.len() / 2);
        let reached = before + sum(below);
        if reached > half {
            rest = below;
        } else if reached + u64::from(*times) > half {
            return *ns;
        } else {
            (rest, before) = (above, reached + u64::from(*times));
        }
    }
    0
}
