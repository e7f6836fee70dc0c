//! Ranked findings with their confidence and evidence.

use std::collections::BTreeMap;

use analysis::frames::Place;
use analysis::requests::{count, Judged, Requests};
use analysis::resource::Resource;
use analysis::timeline::State;
use analysis::waits::merged_by_request;
use capture::read::{Capture, Traces};

use crate::callers;
use crate::causes::{self, ms_text, Cause, Described};
use crate::confidence::Confidence;
use crate::culprits;
use crate::explain::trace::Trace;
use crate::explain::Explanation;
use crate::group::{self, Group, Weighed};
use crate::own_cost;
use crate::repeats::{self, Repeats};
use crate::retries;
use crate::running_task;
use crate::scene::Scene;
use crate::unexplained;
use crate::unheld;

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
    /// The innermost own frame at which time passed.
    pub place: Option<Place>,
    /// The place of the culprit, when another thread caused it.
    pub culprit: Option<Place>,
    /// Where else requests waited for that culprit, and the part of the excess of each; the
    /// heaviest first.
    pub elsewhere: Vec<(Place, f64)>,
    /// What was waited for.
    pub resource: Option<Resource>,
    /// Request's own functions on the way to the place, outermost first.
    pub path: Vec<String>,
    /// Name of the request that went that way.
    pub request: String,
    /// Whether that request called what is reported; false for what kept its event loop, whichever
    /// request it was for.
    pub called_by_request: bool,
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
    /// Trace ids of the slowest that have it, 32 hex digits, the slowest first; at most three.
    pub trace_ids: Vec<String>,
    /// The first of them came from outside, so that other tools know it too.
    pub trace_is_known: bool,
    /// Why it says so, if that was asked for.
    pub explanation: Option<Explanation>,
}

impl Finding {
    /// What was waited for, in words.
    pub fn target(&self) -> Option<String> {
        self.resource.as_ref().map(Resource::to_string)
    }
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
    /// Typical time, ns; None without a normal request.
    pub typical_ns: Option<u64>,
    /// Worst time, ns.
    pub worst_ns: u64,
    /// Requests that ended by an error, slow or not.
    pub failed: usize,
    /// Of these, how many by name, most first.
    pub failures: Vec<(&'c str, usize)>,
    /// Requests whose end was lost: judged neither slow nor normal, nor counted.
    pub endless: usize,
    /// Slow requests older than the time the capture covers: not judged, nor counted.
    pub older: usize,
    /// Findings, largest share first.
    pub findings: Vec<Finding>,
    /// Part of the excess no finding explains.
    pub unexplained_share: f64,
    /// Mean time a slow request spent on the usual suspects: (words, ms).
    pub suspects: Vec<(&'static str, f64)>,
}

/// Smallest share that is reported.
const LEAST_SHARE: f64 = 0.05;
/// Smallest part of a finding's time in native code that is reported.
const LEAST_NATIVE: f64 = 0.1;
/// Most findings reported.
const MOST: usize = 5;
/// Slow requests of one name, and none that is normal, from which on that is said.
const ALONE: usize = 5;
/// Other places in the report of a finding.
const ELSEWHERE: usize = 3;
/// What evidence of an unexplained finding begins with that says where the requests were.
pub(crate) const SEEN_IN: &str = "part of it passed in ";
/// Trace ids in the report of a finding.
const TRACES: usize = 3;
/// What dashcam is called among the suspects.
pub(crate) const OWN: &str = "dashcam itself";
/// Control requests that are considered.
const CONTROLS: usize = 200;
/// Slow requests that are considered; the slowest.
const MOST_SLOW: usize = 200;

/// Judges a capture by `limit_ns`, the time a request of that name may take.
pub fn diagnose<'c>(capture: &'c Capture, limit_ns: impl Fn(&str) -> u64) -> Diagnosis<'c> {
    judged(capture, limit_ns, Trace::default())
}

/// The same verdict, and why each finding says what it says. Cost: a few requests of each finding
/// are judged once more.
pub fn diagnose_explained<'c>(
    capture: &'c Capture,
    limit_ns: impl Fn(&str) -> u64,
) -> Diagnosis<'c> {
    judged(capture, limit_ns, Trace::on())
}

fn judged<'c>(capture: &'c Capture, limit_ns: impl Fn(&str) -> u64, trace: Trace) -> Diagnosis<'c> {
    let mut requests = Requests::divide(capture, limit_ns);
    let mut scene = Scene::judged(capture, requests.threshold_ns);
    scene.trace = trace;
    let slow = count(&requests.slow);
    let worst_ns = requests.slow.first().map_or(0, Judged::ns);
    let failures = failures(&requests);
    let failures: Vec<_> = failures.into_iter().map(|(id, n)| (capture.name(id), n)).collect();
    requests.slow.truncate(MOST_SLOW);
    let controls = requests.controls(CONTROLS);
    let spent = group::by_cause(&scene, &controls);
    let baseline = group::baseline(&spent);
    let weighed = group::weigh(&scene, &requests, &baseline);
    let mut suspects = suspects(&weighed, requests.slow.len());
    suspects.extend(own_cost::mean_ms(&scene, &requests.slow).map(|ms| (OWN, ms)));
    let groups = group::divide(&scene, weighed);
    let counts = repeats::Counts::of(capture, &requests.slow, &controls);
    let waits = repeats::waits(&scene, &groups);
    let excess: f64 = requests
        .slow
        .iter()
        .map(|r| r.ns().saturating_sub(requests.typical_of(r.row.name)) as f64)
        .sum();
    let traces = Traces::of(capture);
    let (controls, spent, traces) = (&controls[..], &spent[..], &traces);
    let (counts, waits) = (&counts, &waits);
    let (scene, requests) = (&scene, &requests);
    let judge = Judge { scene, requests, controls, spent, traces, counts, waits, excess };
    let mut findings: Vec<Finding> = groups.into_iter().filter_map(|g| judge.finding(g)).collect();
    put_start_behind(&mut findings);
    findings.truncate(MOST);
    let named = findings.iter().filter(|f| f.cause != Cause::Unknown).map(|f| f.share);
    let unexplained_share = if slow == 0 { 0.0 } else { (1.0 - named.sum::<f64>()).max(0.0) };
    Diagnosis {
        capture,
        total: slow + count(&requests.normal),
        slow,
        threshold_ns: requests.threshold_ns,
        typical_ns: (!requests.normal.is_empty()).then_some(requests.typical_ns),
        failed: failures.iter().map(|(_, n)| n).sum(),
        failures,
        endless: requests.endless,
        older: requests.older,
        worst_ns,
        findings,
        unexplained_share,
        suspects,
    }
}

/// A program starts once. The requests that came before it was ready explain nothing of those that
/// were slow later: they come behind these, if these are more, however long that took.
fn put_start_behind(findings: &mut [Finding]) {
    let starts = |f: &Finding| causes::import::is_a_start(f.cause, f.resource.as_ref());
    let Some(at) = findings.iter().position(starts) else { return };
    let start = &findings[at];
    let later = |f: &Finding| {
        let known = f.cause != Cause::Unknown && !starts(f);
        known && f.slow_requests > start.slow_requests && f.seen_ns.first() > start.seen_ns.last()
    };
    if let Some(behind) = findings.iter().rposition(later).filter(|behind| *behind > at) {
        findings[at..=behind].rotate_left(1);
    }
}

/// Failed requests by name id, most first.
fn failures(requests: &Requests<'_>) -> Vec<(u32, usize)> {
    let mut counts: std::collections::BTreeMap<u32, usize> = Default::default();
    for request in requests.slow.iter().chain(&requests.normal).filter(|r| r.row.error) {
        *counts.entry(request.row.name).or_default() += request.row.times as usize;
    }
    let mut counts: Vec<(u32, usize)> = counts.into_iter().collect();
    counts.sort_by_key(|(_, n)| std::cmp::Reverse(*n));
    counts
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

/// What findings are made from.
pub(crate) struct Judge<'a, 'c> {
    pub(crate) scene: &'a Scene<'c>,
    pub(crate) requests: &'a Requests<'c>,
    pub(crate) controls: &'a [Judged<'c>],
    /// What each of them spent.
    spent: &'a [group::Baseline],
    traces: &'a Traces,
    counts: &'a repeats::Counts<'c>,
    waits: &'a repeats::Waits,
    excess: f64,
}

impl Judge<'_, '_> {
    fn finding(&self, mut group: Group<'_>) -> Option<Finding> {
        let share = group.excess_ns() / self.excess.max(1.0);
        if share < LEAST_SHARE {
            return None;
        }
        let slow = self.slow_with(&group, share);
        let repeats = self.repeats(&group, &slow);
        if let Some(repeats) = &repeats {
            // The code that loops is to blame, not the library that was called.
            group.place = Some(repeats.place.clone());
        } else if group.is_nowhere(self.scene) && group.culprit.is_some() {
            group.place.clone_from(&group.culprit);
        }
        let group = &group;
        let mean_ns = mean_ns(group, &slow);
        let normal_requests = self.normals_with(group, mean_ns);
        let resource = main_resource(self.scene, group);
        let sure = self.confidence(group, share, slow.len(), normal_requests);
        let (mut confidence, mut missing) = (sure.level, sure.missing);
        if let Some(alone) = self.alone(&slow) {
            confidence = confidence.min(Confidence::Likely);
            missing.push(alone);
        }
        let mut seen_ns: Vec<u64> =
            slow.iter().map(|i| self.requests.slow[*i].row.begin_ns).collect();
        seen_ns.sort_unstable();
        let slowest = slow.iter().take(TRACES).map(|i| self.requests.slow[*i].row.id);
        let traces: Vec<_> = slowest.map(|id| self.traces.request(id)).collect();
        let tids = slow.iter().map(|i| self.requests.slow[*i].row.tid);
        let seen = group.at_place(self.scene).into_iter().filter(|w| w.piece.claim.stack != 0);
        let heaviest = seen.max_by(|a, b| a.excess_ns.total_cmp(&b.excess_ns));
        let waiter = self.waiter(group);
        let path = match (&group.place, heaviest) {
            _ if waiter.is_some() => waiter.iter().flat_map(|w| w.1.clone()).collect(),
            (Some(place), Some(w)) => self.scene.frames.path(w.piece.claim.stack, place),
            _ => Vec::new(),
        };
        let summary = self.summary(group, &slow, mean_ns, resource.as_ref(), repeats.as_ref());
        let places = unheld::other_places(self.scene, group).into_iter();
        let parts = places.map(|(place, ns)| (place, ns / self.excess.max(1.0)));
        let elsewhere: Vec<_> = parts.filter(|p| p.1 >= LEAST_SHARE).take(ELSEWHERE).collect();
        let caller = callers::of_group(self.scene, group, repeats.as_ref());
        // Where no stack was seen, the request that it cost most.
        let costliest = || group.pieces.iter().max_by(|a, b| a.excess_ns.total_cmp(&b.excess_ns));
        let told = heaviest.or_else(costliest);
        let row = told.map(|w| self.requests.slow[w.request].row);
        let name = row.map_or(0, |row| row.name);
        let on_loop = row.is_some_and(|row| row.on_loop);
        Some(Finding {
            cause: group.cause,
            share: share.min(1.0),
            confidence,
            fingerprint: fingerprint(group),
            slow_requests: slow.len(),
            normal_requests,
            summary: match (&waiter, &caller) {
                (Some((place, _)), _) => format!("{summary}; {} waited for that", place.short()),
                // It is named already where its function is tried again.
                (None, Some(caller)) if !summary.contains(&caller.short()) => {
                    format!("{summary}, called by {}", caller.short())
                }
                _ => summary,
            },
            place: group.place.clone(),
            // What another thread did is that thread's doing.
            culprit: match &waiter {
                Some(_) => group.culprit.clone().or_else(|| group.place.clone()),
                None => caller.or_else(|| group.culprit.clone()),
            },
            advice: match &repeats {
                Some(_) => repeats::ADVICE,
                None => self.advice(group, resource.as_ref()),
            },
            resource,
            path,
            called_by_request: !(on_loop && causes::is_in_everybodys_way(group.cause)),
            request: self.scene.capture.name(name).to_owned(),
            evidence: self.evidence(group, mean_ns, repeats.as_ref(), &elsewhere),
            elsewhere,
            missing,
            threads: tids.collect::<std::collections::HashSet<u32>>().len(),
            seen_ns,
            trace_is_known: traces.first().is_some_and(|ids| ids.told),
            explanation: self.explanation(group, sure.checks),
            trace_ids: traces.iter().map(|ids| format!("{:032x}", ids.trace)).collect(),
        })
    }

    /// Where the request was while another thread did what the group reports, and how it came
    /// there.
    fn waiter(&self, group: &Group<'_>) -> Option<(Place, Vec<String>)> {
        let waiter = group.heaviest()?.piece.claim.waiter;
        let place = self.scene.frames.innermost_user(waiter).filter(|_| waiter != 0)?;
        let path = self.scene.frames.path(waiter, &place);
        Some((place, path))
    }

    /// That a pool handed out nothing in time counts only where nobody is the culprit; that a pool
    /// is small, only where none of its workers waits for another thread.
    fn advice(&self, group: &Group<'_>, resource: Option<&Resource>) -> &'static str {
        if culprits::waits(self.scene, group) != group.cause {
            return causes::event_loop_blocked::ADVICE_WAITS;
        }
        if group.cause == Cause::CpuStarved && group.culprit.is_some() {
            return causes::cpu_starved::ADVICE_OWN;
        }
        let blocked = group.cause == Cause::EventLoopBlocked;
        if blocked && culprits::doing(self.scene, group) == Some(culprits::LOADED) {
            return causes::import::advice(resource);
        }
        let vain = resource.is_some_and(Resource::is_in_vain);
        let advice =
            causes::advice(group.cause, resource.filter(|_| group.culprit.is_none() || !vain));
        match culprits::through(self.scene, group) {
            Some(_) if advice == causes::pool_wait::ADVICE => causes::pool_wait::ADVICE_CHAINED,
            _ => advice,
        }
    }

    /// Requests whose name has no normal one are slow always: nothing was there to compare with,
    /// and it may be their nature. Said once there are several of one name, beside normal ones of
    /// others.
    fn alone(&self, slow: &[usize]) -> Option<String> {
        let name = |i: &usize| self.requests.slow[*i].row.name;
        let own = name(slow.first()?);
        let one = slow.len() >= ALONE && slow.iter().all(|i| name(i) == own);
        let normal = &self.requests.normal;
        if !one || normal.is_empty() || normal.iter().any(|r| r.row.name == own) {
            return None;
        }
        let text = self.scene.capture.name(own);
        Some(format!(
            "every {text} was over the limit, none was normal to compare with; if that is its \
             nature, give it a limit of its own: slow=\"..., {text}>LIMIT\""
        ))
    }

    /// What one line called again and again, in most requests that have the group.
    fn repeats(&self, group: &Group<'_>, slow: &[usize]) -> Option<Repeats> {
        let ids = slow.iter().map(|i| (*i, self.requests.slow[*i].row.id));
        let ids: Vec<(usize, u64)> = ids.collect();
        repeats::of_group(self.scene, group, &ids, self.counts, self.waits)
    }

    /// Slow requests of which the group takes a tenth of the excess or more; of a group that is
    /// less than a fifth of everything, those of which it takes half as much as of everything.
    fn slow_with(&self, group: &Group<'_>, share: f64) -> Vec<usize> {
        let least = (share / 2.0).min(0.1);
        let mut sums = vec![0.0; self.requests.slow.len()];
        group.pieces.iter().for_each(|p| sums[p.request] += p.excess_ns);
        let enough = |i: &usize| {
            let request = &self.requests.slow[*i];
            let typical = self.requests.typical_of(request.row.name);
            sums[*i] > least * request.ns().saturating_sub(typical) as f64
        };
        (0..sums.len()).filter(enough).collect()
    }

    /// Control requests that spend at least a quarter as long on the same cause and place.
    fn normals_with(&self, group: &Group<'_>, mean_ns: f64) -> usize {
        let ns = |spent: &group::Baseline| spent.get(&group.cause).copied().unwrap_or(0.0);
        self.spent.iter().filter(|spent| ns(spent) > 0.25 * mean_ns).count()
    }

    fn summary(
        &self,
        group: &Group<'_>,
        of: &[usize],
        mean_ns: f64,
        resource: Option<&Resource>,
        repeats: Option<&Repeats>,
    ) -> String {
        let tids = culprits::tids(self.scene, group);
        let thread = tids.first().and_then(|tid| self.scene.capture.thread_name(*tid));
        let culprit_path = culprits::path(self.scene, group);
        let retried = retries::called_between(self.scene, group);
        let through = culprits::through(self.scene, group);
        let described = Described {
            place: group.place.as_ref(),
            is_nowhere: group.is_nowhere(self.scene),
            task: running_task::named(self.scene, group),
            culprit: group.culprit.as_ref(),
            culprit_path: &culprit_path,
            through: through.as_ref(),
            culprit_thread: thread,
            culprit_doing: culprits::doing(self.scene, group),
            culprit_threads: tids.len(),
            culprit_is_task: culprits::is_task(group),
            culprit_measured: culprits::is_measured(group),
            resource,
            timed_out: culprits::timed_out(self.scene, group),
            waits: culprits::waits(self.scene, group),
            repeats,
            times: retries::waits(group) / of.len().max(1),
            retried: retried.as_ref(),
            mean_ms: mean_ns / 1e6,
            starved_ms: starved_ns(group, of) / of.len().max(1) as f64 / 1e6,
        };
        causes::sentence(group.cause, &described)
    }

    fn evidence(
        &self,
        group: &Group<'_>,
        mean_ns: f64,
        repeats: Option<&Repeats>,
        elsewhere: &[(Place, f64)],
    ) -> Vec<Evidence> {
        let seen = group.pieces.iter().filter(|p| p.piece.claim.seen).count();
        let number = |what: &str, value: f64, unit| Evidence { what: what.to_owned(), value, unit };
        let waits = merged_by_request(group.pieces.iter().map(Weighed::part));
        let longest = waits.iter().map(|(_, wait)| wait.ns()).max();
        let round = |ns: f64| (ns / 1e4).round() / 100.0;
        let mut out = vec![
            number("mean time in a slow request", round(mean_ns), "ms"),
            number("longest single interval", round(longest.unwrap_or(0) as f64), "ms"),
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
        for (place, part) in elsewhere {
            let what = format!("part of all excess that was waited at {}", place.short());
            out.push(number(&what, (100.0 * part).round(), "%"));
        }
        out.extend(crate::woken::evidence(self.scene, group));
        out.extend(crate::waiters::evidence(self.scene, group));
        if let Some(repeats) = repeats {
            let told = repeats.evidence().into_iter();
            out.extend(told.map(|(what, times)| number(&what, times as f64, "count")));
        }
        for (calls, part) in unexplained::stacks(self.scene, group) {
            out.push(number(&format!("{SEEN_IN}{calls}"), (100.0 * part).round(), "%"));
        }
        if let Some((what, part)) = running_task::evidence(self.scene, group) {
            out.push(number(&what, (100.0 * part).round(), "%"));
        }
        if let Some((function, part)) = self.native_part(group) {
            let what =
                format!("part of it in native code that the place called, most in {function}");
            out.push(number(&what, (100.0 * part).round(), "%"));
        }
        out
    }

    /// The native function that most of a group's time in native code under Python was spent in,
    /// `sqlite3_step (libsqlite3.so.0)`, and the part of the group's time that any took. None when
    /// hardly any was seen.
    fn native_part(&self, group: &Group<'_>) -> Option<(String, f64)> {
        let mut sums: std::collections::BTreeMap<String, u64> = Default::default();
        let (mut native, mut all) = (0u64, 0u64);
        for piece in &group.pieces {
            let ns = piece.piece.segment.ns();
            all += ns;
            if let Some(frame) = self.scene.frames.native(piece.piece.segment.stack()) {
                native += ns;
                let base = frame.file.rsplit('/').next().unwrap_or(frame.file);
                *sums.entry(format!("{} ({base})", frame.function)).or_default() += ns;
            }
        }
        let part = native as f64 / all.max(1) as f64;
        let most = sums.into_iter().max_by_key(|(_, ns)| *ns)?.0;
        (part >= LEAST_NATIVE).then_some((most, part))
    }
}

/// Of the requests `of`, which are in order.
fn mean_ns(group: &Group<'_>, of: &[usize]) -> f64 {
    let own = group.pieces.iter().filter(|p| of.binary_search(&p.request).is_ok());
    own.map(|p| p.piece.segment.ns() as f64).sum::<f64>() / of.len().max(1) as f64
}

/// Time without a CPU that counts as the group's work.
fn starved_ns(group: &Group<'_>, of: &[usize]) -> f64 {
    let own = group.pieces.iter().filter(|p| of.binary_search(&p.request).is_ok());
    let ready = own.filter(|p| p.piece.segment.state == State::Ready);
    ready.map(|p| p.piece.segment.ns() as f64).sum()
}

/// What most of the group's time was spent on that is known of it.
fn main_resource(scene: &Scene<'_>, group: &Group<'_>) -> Option<Resource> {
    // By their words, so that of two that took as long it is always the same.
    let mut sums: BTreeMap<String, (&Resource, f64)> = BTreeMap::new();
    for piece in group.at_place(scene) {
        if let Some(resource) = &piece.piece.claim.resource {
            sums.entry(resource.to_string()).or_insert((resource, 0.0)).1 += piece.excess_ns;
        }
    }
    if group.cause == Cause::Import {
        return causes::import::modules(sums, group.excess_ns());
    }
    let most = sums.into_values().max_by(|a, b| a.1.total_cmp(&b.1));
    most.map(|(resource, _)| resource.clone())
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
