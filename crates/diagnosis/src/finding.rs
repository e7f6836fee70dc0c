//! Ranked findings with their confidence and evidence.

use capture::read::Capture;

use crate::causes::{self, ms_text, Cause, Described};
use crate::frames::Place;
use crate::group::{self, Group};
use crate::requests::{Judged, Requests};
use crate::scene::Scene;
use crate::timeline::{self, State};

/// How sure a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Confidence {
    /// Something fits, little was seen.
    Possible,
    /// Seen, but a part is estimated or inferred.
    Likely,
    /// Seen in nearly all slow requests, in no normal one, times and culprit measured.
    Confirmed,
}

impl Confidence {
    /// As in the JSON.
    pub fn text(self) -> &'static str {
        match self {
            Confidence::Possible => "possible",
            Confidence::Likely => "likely",
            Confidence::Confirmed => "confirmed",
        }
    }
}

/// One figure behind a finding.
#[derive(Clone, Debug, PartialEq)]
pub struct Evidence {
    /// What was measured.
    pub what: String,
    /// Its value.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
}

/// A cause of the slow requests.
#[derive(Clone, Debug)]
pub struct Finding {
    /// The cause.
    pub cause: Cause,
    /// Part of the slow requests' excess it explains, 0 to 1.
    pub share: f64,
    /// How sure.
    pub confidence: Confidence,
    /// Same cause, same place, another day: same text.
    pub fingerprint: String,
    /// Slow requests that have it.
    pub slow_requests: usize,
    /// Normal requests that have as much of it.
    pub normal_requests: usize,
    /// One sentence.
    pub summary: String,
    /// The innermost own frame that stood in the way.
    pub place: Option<Place>,
    /// Who caused it, when another thread did.
    pub culprit: Option<Place>,
    /// What was waited for.
    pub target: Option<String>,
    /// Request's own functions on the way to the place, outermost first.
    pub path: Vec<String>,
    /// Name of the request that went that way.
    pub request: String,
    /// Figures.
    pub evidence: Vec<Evidence>,
    /// What would make it surer.
    pub missing: Vec<String>,
    /// What to do.
    pub advice: &'static str,
    /// Threads it was seen on.
    pub threads: usize,
    /// Begin of the slow requests that have it, by time.
    pub seen_ns: Vec<u64>,
}

/// The verdict on a capture.
pub struct Diagnosis<'c> {
    /// The capture.
    pub capture: &'c Capture,
    /// Requests seen.
    pub total: usize,
    /// Slow requests.
    pub slow: usize,
    /// Limit, ns.
    pub threshold_ns: u64,
    /// Typical time, ns.
    pub typical_ns: u64,
    /// Worst time, ns.
    pub worst_ns: u64,
    /// Findings, largest share first.
    pub findings: Vec<Finding>,
    /// Part of the excess no finding explains.
    pub unexplained_share: f64,
    /// Mean time a slow request spent on the usual suspects: (words, ms).
    pub suspects: Vec<(&'static str, f64)>,
}

/// Smallest share that is reported.
const LEAST_SHARE: f64 = 0.05;
/// Most findings reported.
const MOST: usize = 5;
/// Control requests looked at.
const CONTROLS: usize = 200;
/// Slow requests looked at; the slowest.
const MOST_SLOW: usize = 200;

/// Judges a capture by `limit_ns`, the time a request of that name may take.
pub fn diagnose<'c>(capture: &'c Capture, limit_ns: impl Fn(&str) -> u64) -> Diagnosis<'c> {
    let scene = Scene::new(capture);
    let mut requests = Requests::divide(capture, limit_ns);
    let slow = requests.slow.len();
    let worst_ns = requests.slow.first().map_or(0, Judged::ns);
    requests.slow.truncate(MOST_SLOW);
    let controls = requests.controls(CONTROLS);
    let baseline = group::baseline(&scene, &controls);
    let weighed = group::weigh(&scene, &requests, &baseline);
    let suspects = suspects(&weighed, requests.slow.len());
    let groups = group::divide(&scene, weighed);
    let excess: f64 = requests
        .slow
        .iter()
        .map(|r| r.ns().saturating_sub(requests.typical_of(r.row.name)) as f64)
        .sum();
    let judge = Judge { scene: &scene, requests: &requests, controls: &controls, excess };
    let mut findings: Vec<Finding> = groups.iter().filter_map(|g| judge.finding(g)).collect();
    findings.truncate(MOST);
    let named = findings.iter().filter(|f| f.cause != Cause::Unknown).map(|f| f.share);
    let unexplained_share = if slow == 0 { 0.0 } else { (1.0 - named.sum::<f64>()).max(0.0) };
    Diagnosis {
        capture,
        total: slow + requests.normal.len(),
        slow,
        threshold_ns: requests.threshold_ns,
        typical_ns: requests.typical_ns,
        worst_ns,
        findings,
        unexplained_share,
        suspects,
    }
}

/// The causes an operator asks about first, whether found or not.
fn suspects(weighed: &[group::Weighed<'_>], slow: usize) -> Vec<(&'static str, f64)> {
    let named = [
        ("run delay", Cause::CpuStarved),
        ("GC", Cause::GcPause),
        ("GIL", Cause::GilWait),
        ("locks", Cause::LockWait),
    ];
    let ms = |cause: Cause| {
        let own = weighed.iter().filter(|w| w.piece.claim.cause == cause);
        let sum: f64 = own.map(|w| w.piece.segment.ns() as f64).sum();
        // An empty sum is -0.0.
        (sum / 1e6 / slow.max(1) as f64).max(0.0)
    };
    named.into_iter().map(|(words, cause)| (words, ms(cause))).collect()
}

struct Judge<'a, 'c> {
    scene: &'a Scene<'c>,
    requests: &'a Requests<'c>,
    controls: &'a [Judged<'c>],
    excess: f64,
}

impl Judge<'_, '_> {
    fn finding(&self, group: &Group<'_>) -> Option<Finding> {
        let share = group.excess_ns() / self.excess.max(1.0);
        if share < LEAST_SHARE {
            return None;
        }
        let slow = self.slow_with(group);
        let mean_ns = mean_ns(group, slow.len());
        let normal_requests = self.normals_with(group, mean_ns);
        let target = main_target(group);
        let (confidence, missing) = self.confidence(group, share, slow.len(), normal_requests);
        let mut seen_ns: Vec<u64> =
            slow.iter().map(|i| self.requests.slow[*i].row.begin_ns).collect();
        seen_ns.sort_unstable();
        let tids = slow.iter().map(|i| self.requests.slow[*i].row.tid);
        let heaviest = heaviest_piece(group);
        let path = match (&group.place, heaviest) {
            (Some(place), Some(w)) => self.scene.frames.path(w.piece.claim.stack, place),
            _ => Vec::new(),
        };
        let name = heaviest.map_or(0, |w| self.requests.slow[w.request].row.name);
        Some(Finding {
            cause: group.cause,
            share: share.min(1.0),
            confidence,
            fingerprint: fingerprint(group),
            slow_requests: slow.len(),
            normal_requests,
            summary: self.summary(group, slow.len(), mean_ns, target.as_deref()),
            place: group.place.clone(),
            culprit: group.culprit.clone(),
            advice: causes::advice(group.cause, target.as_deref()),
            target,
            path,
            request: self.scene.capture.name(name).to_owned(),
            evidence: self.evidence(group, mean_ns),
            missing,
            threads: tids.collect::<std::collections::HashSet<u32>>().len(),
            seen_ns,
        })
    }

    /// Slow requests of which the group takes a tenth of the excess or more.
    fn slow_with(&self, group: &Group<'_>) -> Vec<usize> {
        let mut sums = vec![0.0; self.requests.slow.len()];
        group.pieces.iter().for_each(|p| sums[p.request] += p.excess_ns);
        let enough = |i: &usize| {
            let request = &self.requests.slow[*i];
            let typical = self.requests.typical_of(request.row.name);
            sums[*i] > 0.1 * request.ns().saturating_sub(typical) as f64
        };
        (0..sums.len()).filter(enough).collect()
    }

    /// Control requests that spend at least a quarter as long on the same cause and place.
    fn normals_with(&self, group: &Group<'_>, mean_ns: f64) -> usize {
        let long = self.controls.iter().filter(|c| c.ns() as f64 > 0.25 * mean_ns);
        let has = |c: &&Judged<'_>| {
            let pieces = crate::pieces::of_request(self.scene, c);
            let same = pieces.iter().filter(|p| p.claim.cause == group.cause);
            same.map(|p| p.segment.ns() as f64).sum::<f64>() > 0.25 * mean_ns
        };
        long.filter(has).count()
    }

    fn summary(
        &self,
        group: &Group<'_>,
        slow: usize,
        mean_ns: f64,
        target: Option<&str>,
    ) -> String {
        let tids = culprit_tids(group);
        let thread = tids.first().and_then(|tid| self.scene.capture.thread_name(*tid));
        let described = Described {
            place: group.place.as_ref(),
            culprit: group.culprit.as_ref(),
            culprit_thread: thread,
            culprit_doing: self.culprit_doing(group),
            culprit_threads: tids.len(),
            culprit_is_task: group.pieces.iter().any(|p| is_task(p)),
            culprit_measured: culprit_measured(group),
            target,
            times: waits(group) / slow.max(1),
            mean_ms: mean_ns / 1e6,
        };
        causes::sentence(group.cause, &described)
    }

    /// What the culprit's threads did during the waits, mostly.
    fn culprit_doing(&self, group: &Group<'_>) -> Option<&'static str> {
        let tasks = group.pieces.iter().any(|p| is_task(p));
        if group.cause != Cause::LockWait && !tasks {
            return None;
        }
        let mut sums: std::collections::HashMap<&'static str, u64> = Default::default();
        for piece in &group.pieces {
            let Some(culprit) = piece.piece.claim.culprit else {
                continue;
            };
            if let Some(doing) = culprit.doing {
                *sums.entry(doing).or_default() += piece.piece.segment.ns();
                continue;
            }
            let (from, to) = (piece.piece.segment.from_ns, piece.piece.segment.to_ns);
            for s in timeline::of_thread(self.scene.capture, culprit.tid, from, to) {
                *sums.entry(doing(&s)).or_default() += s.ns();
            }
        }
        sums.into_iter().max_by_key(|(_, ns)| *ns).map(|(words, _)| words)
    }

    fn evidence(&self, group: &Group<'_>, mean_ns: f64) -> Vec<Evidence> {
        let seen = group.pieces.iter().filter(|p| p.piece.claim.seen).count();
        let number = |what: &str, value: f64, unit| Evidence { what: what.to_owned(), value, unit };
        let longest = group.pieces.iter().map(|p| p.piece.segment.ns()).max().unwrap_or(0);
        let round = |ns: f64| (ns / 1e4).round() / 100.0;
        let mut out = vec![
            number("mean time in a slow request", round(mean_ns), "ms"),
            number("longest single interval", round(longest as f64), "ms"),
            number("intervals", group.pieces.len() as f64, "count"),
            number("intervals seen by a sample or callback", seen as f64, "count"),
        ];
        let exact = group.pieces.iter().filter(|p| p.piece.segment.exact).count();
        if exact > 0 {
            let what = "intervals with exact begin and end from switch records";
            out.push(number(what, exact as f64, "count"));
        }
        let ran = group.pieces.iter().map(|p| &p.piece.segment).filter(|s| s.state == State::Run);
        let kernel = matches!(group.cause, Cause::Cpu | Cause::DiskIo | Cause::PageFault);
        let used = ran.filter(|_| kernel).max_by_key(|s| s.ns());
        if let Some(used) = used.and_then(|s| self.scene.usage_around(s)) {
            let (kernel, user) = (f64::from(used.system_us), f64::from(used.user_us));
            let share = (100.0 * kernel / (kernel + user).max(1.0)).round();
            out.push(number(
                "kernel's share of the CPU time around the longest interval",
                share,
                "%",
            ));
            out.push(number("page faults then", f64::from(used.faults), "count"));
            out.push(number("storage traffic then", f64::from(used.storage_kib), "KiB"));
        }
        out
    }

    fn confidence(
        &self,
        group: &Group<'_>,
        share: f64,
        slow: usize,
        normal: usize,
    ) -> (Confidence, Vec<String>) {
        let total = group.excess_ns().max(1.0);
        let part = |test: &dyn Fn(&group::Weighed<'_>) -> bool| {
            group.pieces.iter().filter(|p| test(p)).map(|p| p.excess_ns).sum::<f64>() / total
        };
        let mut missing = Vec::new();
        let mut level = Confidence::Confirmed;
        let mut lower = |to: Confidence, why: String, level: &mut Confidence| {
            *level = (*level).min(to);
            missing.push(why);
        };
        if group.cause == Cause::Unknown {
            lower(Confidence::Possible, "no source saw what this time was".to_owned(), &mut level);
        }
        if part(&|p| p.piece.segment.exact) < 0.8 {
            let state = self.scene.capture.meta.sources.iter().find(|(n, _)| n == "switches");
            let text = match state.map_or("off", |(_, s)| s.as_str()) {
                "on" => "when an await began and ended is known to the sampling period only".into(),
                why => format!("times are estimates: no switch records ({why})"),
            };
            lower(Confidence::Likely, text, &mut level);
        }
        let seen = part(&|p| p.piece.claim.seen);
        let unseen = group.place.is_none() && group.cause != Cause::Stopped;
        if seen < 0.5 && !unseen {
            let text = match seen {
                seen if seen < 0.01 => "hardly any of it was seen by a sample".to_owned(),
                seen => format!("only {:.0} % of it was seen by a sample", seen * 100.0),
            };
            let to = if seen < 0.1 { Confidence::Possible } else { Confidence::Likely };
            lower(to, text, &mut level);
        }
        if matches!(group.cause, Cause::LockWait | Cause::GilWait) && !culprit_measured(group) {
            let text = match group.culprit {
                Some(_) => "the holder was inferred from who ran when the wait ended",
                None => "who held it was not seen",
            };
            lower(Confidence::Likely, text.to_owned(), &mut level);
        }
        if part(&|p| p.piece.claim.inferred) > 0.2 {
            let text =
                "which thread the request waited for was inferred from who ran when it ended";
            lower(Confidence::Likely, text.to_owned(), &mut level);
        }
        if unseen {
            lower(Confidence::Possible, "no stack was seen".to_owned(), &mut level);
        }
        if share < 0.3 {
            level = level.min(Confidence::Likely);
        }
        if normal * 5 > self.controls.len() && normal > 0 {
            let text = format!("{normal} of {} normal requests have it too", self.controls.len());
            lower(Confidence::Possible, text, &mut level);
        } else if slow == 1 && share < 0.8 {
            lower(Confidence::Likely, "only one slow request has it".to_owned(), &mut level);
        }
        (level, missing)
    }
}

fn mean_ns(group: &Group<'_>, slow: usize) -> f64 {
    let sum: f64 = group.pieces.iter().map(|p| p.piece.segment.ns() as f64).sum();
    sum / slow.max(1) as f64
}

/// How many waits the pieces of a group are: pieces that touch are one wait, seen more than once. 0
/// when not all of the times are exact, as estimates have no such edges.
fn waits(group: &Group<'_>) -> usize {
    if !group.pieces.iter().all(|p| p.piece.segment.exact) {
        return 0;
    }
    let mut edges: Vec<(usize, u32, u64, u64)> = group
        .pieces
        .iter()
        .map(|p| (p.request, p.piece.segment.tid, p.piece.segment.from_ns, p.piece.segment.to_ns))
        .collect();
    edges.sort_unstable();
    let joined = edges.windows(2).filter(|w| (w[0].0, w[0].1, w[0].3) == (w[1].0, w[1].1, w[1].2));
    edges.len() - joined.count()
}

/// The culprit's threads, the heaviest first, without those that are to blame for less than a tenth
/// of what the heaviest is: waiters who held the lock for a moment when their turn came.
fn culprit_tids(group: &Group<'_>) -> Vec<u32> {
    let mut sums: std::collections::BTreeMap<u32, f64> = Default::default();
    for piece in &group.pieces {
        if let Some(culprit) = piece.piece.claim.culprit {
            *sums.entry(culprit.tid).or_default() += piece.excess_ns;
        }
    }
    let mut tids: Vec<(u32, f64)> = sums.into_iter().collect();
    tids.sort_by(|a, b| b.1.total_cmp(&a.1));
    let most = tids.first().map_or(0.0, |(_, sum)| *sum);
    tids.retain(|(_, sum)| *sum * 10.0 >= most);
    tids.into_iter().map(|(tid, _)| tid).collect()
}

/// Whether at least half of the excess has a culprit that was measured.
fn culprit_measured(group: &Group<'_>) -> bool {
    let measured = |p: &&group::Weighed<'_>| p.piece.claim.culprit.is_some_and(|c| c.measured);
    let known: f64 = group.pieces.iter().filter(measured).map(|p| p.excess_ns).sum();
    known * 2.0 >= group.excess_ns()
}

fn is_task(piece: &group::Weighed<'_>) -> bool {
    piece.piece.claim.culprit.is_some_and(|c| c.doing.is_some())
}

fn main_target(group: &Group<'_>) -> Option<String> {
    let mut sums: std::collections::BTreeMap<&str, f64> = Default::default();
    for piece in &group.pieces {
        if let Some(target) = &piece.piece.claim.target {
            *sums.entry(target).or_default() += piece.excess_ns;
        }
    }
    sums.into_iter().max_by(|a, b| a.1.total_cmp(&b.1)).map(|(t, _)| t.to_owned())
}

fn heaviest_piece<'g, 'c>(group: &'g Group<'c>) -> Option<&'g group::Weighed<'c>> {
    let with_stack = group.pieces.iter().filter(|p| p.piece.claim.stack != 0);
    with_stack.max_by(|a, b| a.excess_ns.total_cmp(&b.excess_ns))
}

fn doing(segment: &timeline::Segment<'_>) -> &'static str {
    use format::wait::WaitKind as W;
    match (segment.state, segment.wait()) {
        (State::Run, _) => "computed",
        (State::Ready, _) => "got no CPU",
        (State::Wait, W::Sleep) => "slept",
        (State::Wait, W::Futex) => "waited for another lock",
        (State::Wait, W::Gil) => "waited for the GIL",
        (State::Wait, W::SocketRead | W::SocketWrite | W::Poll | W::Connect) => "waited for a peer",
        (State::Wait, W::FileRead | W::FileWrite | W::FileSync | W::FileOpen) => {
            "waited for the disk"
        }
        (State::Wait, W::PipeRead | W::PipeWrite | W::TtyWrite) => "waited on a pipe",
        (State::Wait, W::ChildWait) => "waited for a child process",
        _ => "did something that was not seen",
    }
}

/// FNV-1a over cause, place and culprit without lines, so that it survives edits elsewhere.
fn fingerprint(group: &Group<'_>) -> String {
    let part = |p: &Option<Place>| {
        p.as_ref().map_or(String::new(), |p| {
            format!("{}:{}", p.file.rsplit('/').next().unwrap_or(""), p.qualified)
        })
    };
    let text = format!("{}|{}|{}", group.cause.text(), part(&group.place), part(&group.culprit));
    let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    format!("{hash:016x}")
}

/// `5.1 ms` of nanoseconds.
pub fn ns_text(ns: u64) -> String {
    ms_text(ns as f64 / 1e6)
}
