//! Chooses the requests of the page: as dots, and with their timeline.
//!
//! How it works: the slowest requests and some normal ones, the diagnosis's controls, get a
//! timeline (`detail`), which determines the windows in which threads are kept (`windows`). The
//! scatter plot gets the slow requests first, then every n-th normal one.
//!
//! What it promises: the choice is bounded and the same every time, and everything left out is
//! listed in words.

use std::collections::HashMap;

use analysis::requests::{Judged, Requests};
use capture::read::{Capture, RequestRow};
use diagnosis::CriticalPaths;

use crate::detail::Detail;
use crate::limits::Limits;
use crate::windows::Windows;

/// At most this many threads are kept of a request of which all are kept.
const THREADS_MAX: usize = 200;

/// The chosen part of a capture.
pub struct Chosen<'c> {
    /// The capture.
    pub capture: &'c Capture,
    /// Requests in the scatter, by begin; whether each is slow.
    pub dots: Vec<(Judged<'c>, bool)>,
    /// Index in `dots` by request id.
    pub place: HashMap<u64, usize>,
    /// The requests with their timeline: the slow ones, slowest first, then normal ones.
    pub details: Vec<Detail<'c>>,
    /// The kept part of the threads.
    pub windows: Windows,
    /// What the page leaves out, in words.
    pub left_out: Vec<String>,
    /// Time zero of the page: the first begin of anything in it.
    pub zero_ns: u64,
}

impl<'c> Chosen<'c> {
    /// Makes the choice.
    pub fn of(capture: &'c Capture, limit_ns: &dyn Fn(&str) -> u64, limits: Limits) -> Chosen<'c> {
        let requests = Requests::divide(capture, limit_ns);
        let dots = dots(&requests, limits.dots);
        let paths = CriticalPaths::judged(capture, requests.threshold_ns);
        let (slow, normal) = with_timeline(&requests, limits);
        let mut windows = Windows::default();
        let mut details: Vec<Detail<'c>> = Vec::new();
        let all_tids = all_tids(capture);
        for (i, request) in slow.iter().chain(&normal).enumerate() {
            let others: &[u32] = if i < limits.whole.min(slow.len()) { &all_tids } else { &[] };
            let slices = paths.of(request);
            details.push(Detail::of(capture, request, slices, others, &mut windows));
        }
        let place = dots.iter().enumerate().map(|(i, (d, _))| (d.row.id, i)).collect();
        let begins = dots.iter().map(|(d, _)| d.row.begin_ns);
        let whole = limits.whole.min(slow.len());
        let left_out = left_out(&requests, &dots, (slow.len(), whole), normal.len());
        let zero_ns = begins.chain([capture.meta.from_ns]).min().unwrap_or(0);
        Chosen { capture, dots, place, details, windows, left_out, zero_ns }
    }
}

/// The slow and the normal requests with a timeline.
pub fn with_timeline<'c>(
    requests: &Requests<'c>,
    limits: Limits,
) -> (Vec<Judged<'c>>, Vec<Judged<'c>>) {
    let slow = requests.slow.iter().take(limits.slow).copied().collect();
    let normal = if limits.normal == 0 { Vec::new() } else { requests.controls(limits.normal) };
    (slow, normal)
}

/// All slow requests and every n-th normal one; the controls are among them by the same steps, or
/// are added.
fn dots<'c>(requests: &Requests<'c>, most: usize) -> Vec<(Judged<'c>, bool)> {
    let slow = requests.slow.iter().take(most).map(|r| (*r, true));
    let mut out: Vec<(Judged<'c>, bool)> = slow.collect();
    let room = most.saturating_sub(out.len()).max(1);
    let step = requests.normal.len().div_ceil(room).max(1);
    out.extend(requests.normal.iter().step_by(step).map(|r| (*r, false)));
    out.sort_by_key(|(r, _)| (r.row.begin_ns, r.row.id));
    out
}

fn left_out(
    requests: &Requests<'_>,
    dots: &[(Judged<'_>, bool)],
    (slow, whole): (usize, usize),
    normal: usize,
) -> Vec<String> {
    use analysis::readable::thousands;
    let count = |n: usize| thousands(n as u64);
    let mut out = Vec::new();
    let (all_slow, all_normal) = (requests.slow.len(), requests.normal.len());
    if slow < all_slow {
        let (kept, all) = (count(slow), count(all_slow));
        out.push(format!("Timelines: of the {kept} slowest of {all} slow requests."));
    }
    if normal < all_normal {
        let (kept, all) = (count(normal), count(all_normal));
        out.push(format!("Timelines: of {kept} of {all} normal requests, spread evenly."));
    }
    if dots.len() < all_slow + all_normal {
        let (kept, all) = (count(dots.len()), count(all_slow + all_normal));
        out.push(format!("Dots: {kept} of {all} requests; all slow ones first, then every n-th."));
    }
    out.push("Spans and events: only of requests with a timeline.".to_owned());
    let all = match whole {
        0 => String::new(),
        1 => "; of the slowest request, all".to_owned(),
        n => format!("; of the {n} slowest requests, all"),
    };
    out.push(format!(
        "Threads: only while a request with a timeline ran, and a little around it, and only those \
         it ran on or waited for{all}."
    ));
    out
}

/// The threads with observations, at most `THREADS_MAX`: those with the most samples.
fn all_tids(capture: &Capture) -> Vec<u32> {
    let mut tids: Vec<u32> =
        capture.samples.keys().chain(capture.off_cpu.keys()).copied().collect();
    tids.sort_unstable();
    tids.dedup();
    let samples = |tid: &u32| capture.samples.get(tid).map_or(0, Vec::len);
    tids.sort_by_key(|tid| std::cmp::Reverse(samples(tid)));
    tids.truncate(THREADS_MAX);
    tids
}

/// A request's end; for a request that still runs, the end of the capture.
pub fn is_open(row: &RequestRow) -> bool {
    row.end_ns.is_none()
}
