//! Time of a thread in the kernel: page faults and storage traffic, by its counters and samples.
//!
//! Samples carry readings of a thread's counters: CPU time in the kernel and outside, page faults,
//! storage traffic. What it promises: the difference of two readings around the interval, far
//! enough apart to say something, or nothing. Of intervals amid calls that have no readings (a
//! sample of a wait for a file has its path instead) it is what threads used in the same function
//! in all.

use std::collections::{HashMap, HashSet};

use analysis::frames::Function;
use analysis::thresholds;
use analysis::timeline::{Segment, State};
use format::record::Sample;
use format::usage::Usage;
use format::wait::WaitKind;

use crate::context::Context;
use crate::doing::Doing;

/// What the thread of `segment` used around it, by the readings of its samples; None when these
/// cover too little. Cost: a walk over the samples within a quarter of a second.
pub fn usage_around(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Usage> {
    let middle = segment.from_ns + segment.ns() / 2;
    let read = |s: &Sample| s.usage().map(|usage| (s.t_ns, usage));
    let near = cx.samples_in(
        segment.tid,
        segment.from_ns.saturating_sub(thresholds::samples_apart_ns()),
        segment.to_ns + thresholds::samples_apart_ns(),
    );
    let readings: Vec<(u64, Usage)> = near.iter().filter_map(read).collect();
    let (mut first, mut last) = {
        let at = readings.partition_point(|(t, _)| *t <= middle);
        (at.saturating_sub(1), at)
    };
    // Outwards from the segment, until the interval is long enough.
    loop {
        let (begin, end) = (readings.get(first)?, readings.get(last.min(readings.len() - 1))?);
        if end.0.saturating_sub(begin.0) >= thresholds::usage_ns() {
            return Some(end.1.since(begin.1));
        }
        let (before, after) = (first > 0, last + 1 < readings.len());
        match (before, after) {
            (false, false) => return None,
            (true, false) => first -= 1,
            (false, true) => last += 1,
            (true, true) => {
                let left = begin.0 - readings[first - 1].0;
                let right = readings[last + 1].0 - end.0;
                if left <= right {
                    first -= 1;
                } else {
                    last += 1;
                }
            }
        }
    }
}

/// The same; where its readings cover too little, what threads used in its function in all, if that
/// says something.
fn usage_at(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Usage> {
    let in_all = || {
        let place = cx.frames.innermost_user(segment.stack())?;
        let known = cx.used_in.get_or_init(|| used_in_functions(cx));
        let (used, apart_ns) = known.get(&place.in_function())?;
        (*apart_ns >= thresholds::usage_ns()).then_some(*used)
    };
    usage_around(cx, segment).or_else(in_all)
}

const NOTHING: Usage = Usage { faults: 0, storage_kib: 0, user_us: 0, system_us: 0 };

/// What threads used in each function of the program's, from a reading to the next one in the same
/// request, between which no sample saw the thread in another function; and how far apart these
/// are in all. Cost: one walk over all samples.
fn used_in_functions(cx: &Context<'_>) -> HashMap<Function, (Usage, u64)> {
    let mut functions: HashMap<u32, Option<Function>> = HashMap::new();
    let mut used: HashMap<Function, (Usage, u64)> = HashMap::new();
    for (tid, samples) in &cx.capture.samples {
        let mut from: Option<(&Sample, Usage)> = None;
        for sample in samples {
            let find = || Some(cx.frames.innermost_user(sample.stack)?.in_function());
            let function = functions.entry(sample.stack).or_insert_with(find).clone();
            from = from.filter(|(first, _)| functions.get(&first.stack) == Some(&function));
            let (Some(usage), Some(function)) = (sample.usage(), function) else { continue };
            let request = |s: &Sample| cx.request_end(*tid, s.t_ns);
            let begin = from.filter(|(first, _)| request(first) == request(sample));
            if let Some((first, before)) = begin {
                let (sum, apart_ns) = used.entry(function).or_insert((NOTHING, 0));
                let more = usage.since(before);
                *apart_ns += sample.t_ns - first.t_ns;
                sum.faults = sum.faults.saturating_add(more.faults);
                sum.storage_kib = sum.storage_kib.saturating_add(more.storage_kib);
                sum.user_us = sum.user_us.saturating_add(more.user_us);
                sum.system_us = sum.system_us.saturating_add(more.system_us);
            }
            from = Some((sample, usage));
        }
    }
    used
}

pub(crate) fn is_fault(wait: WaitKind) -> bool {
    matches!(wait, WaitKind::Fault | WaitKind::Memory)
}

/// Whether this short wait, which is amid faults, has no sample. Without switch records the
/// thread's times show that there was one: between two samples it neither ran nor was runnable for
/// all of the time.
pub(crate) fn is_one_of_many(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    let borrowed = segment.wait();
    let open = matches!(borrowed, WaitKind::Running | WaitKind::Unknown) || is_fault(borrowed);
    (!segment.sampled || segment.state == State::Unknown)
        && open
        && segment.ns() <= thresholds::short_wait_ns()
        && match segment.exact {
            true => is_amid_faults(cx, segment),
            false => is_amid_faults_at_its_place(cx, segment),
        }
}

/// Whether samples of the thread shortly before and behind found it blocked by faults, several
/// times and mostly: faults that read from storage take longer in the kernel than others.
pub(crate) fn is_amid_faults(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    is_amid(cx, segment, thresholds::sampled_ns(), |_| true)
}

fn is_amid_faults_at_its_place(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    let place = cx.frames.innermost_user(segment.stack());
    place.is_some()
        && is_amid(cx, segment, 2 * thresholds::sampled_ns(), |sample| {
            cx.frames.innermost_user(sample.stack) == place
        })
}

/// `counts`: whether a sample of a fault does.
fn is_amid(
    cx: &Context<'_>,
    segment: &Segment<'_>,
    around_ns: u64,
    counts: impl Fn(&Sample) -> bool,
) -> bool {
    let from_ns = segment.from_ns.saturating_sub(around_ns);
    let samples = cx.samples_in(segment.tid, from_ns, segment.to_ns + around_ns).iter();
    let waits = samples.filter(|s| !matches!(s.wait, WaitKind::Running | WaitKind::Unknown));
    let faults = waits.clone().filter(|s| is_fault(s.wait) && counts(s)).count();
    faults >= thresholds::repeated() && faults * 2 > waits.count()
}

/// Whether a thread that ran was in the kernel more than half of the time.
pub fn is_mostly_kernel(used: Usage) -> bool {
    used.system_us > used.user_us
}

/// Whether it waited for the kernel to provide memory: blocked by faults, in a short wait amid
/// faults, or on a CPU with enough faults to explain the kernel's time.
pub(crate) fn waits_for_memory(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    match segment.state {
        State::Wait => segment.sampled && is_fault(segment.wait()) || is_one_of_many(cx, segment),
        State::Unknown => is_one_of_many(cx, segment),
        State::Run => usage_at(cx, segment).is_some_and(|used| {
            let cheap = || costs_of_pages(used, u64::from(used.faults));
            is_mostly_kernel(used)
                && used.faults > 0
                && (cheap() || is_amid_faults(cx, segment) || grows(cx, segment))
        }),
        State::Ready => false,
    }
}

/// Whether so many pages explain the time in the kernel.
fn costs_of_pages(used: Usage, pages: u64) -> bool {
    u64::from(used.system_us) <= thresholds::fault_us() * pages
}

/// A small page. A fault of a huge one provides 512 of them.
const PAGE_BYTES: f64 = 4096.0;

/// Whether the process got memory at this place of the code: here, or another time. Vitals are too
/// far apart to see each time, as what was got is given back when the request ends.
fn grows(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    let stack = cx.capture.without_native(segment.stack());
    stack != 0 && cx.grown.get_or_init(|| grown(cx)).contains(&stack)
}

/// The places of threads between two vitals that differ by enough pages to explain the thread's
/// time in the kernel, whatever one fault provided. Cost: the vitals, and each thread's samples.
fn grown(cx: &Context<'_>) -> HashSet<u32> {
    let vitals = cx.capture.vitals.iter();
    let readings: Vec<_> = vitals.filter(|v| cx.capture.name(v.name) == "rss_bytes").collect();
    let mut found = HashSet::new();
    for pair in readings.windows(2) {
        let pages = ((pair[1].value - pair[0].value) / PAGE_BYTES).max(0.0) as u64;
        for tid in cx.threads.iter().filter(|_| pages > 0) {
            let ran = cx.samples_in(*tid, pair[0].t_ns, pair[1].t_ns).iter();
            let ran: Vec<_> = ran.filter_map(|s| Some((s.stack, s.usage()?))).collect();
            let (Some((_, first)), Some((_, last))) = (ran.first(), ran.last()) else { continue };
            let used = last.since(*first);
            if is_mostly_kernel(used) && used.faults > 0 && costs_of_pages(used, pages) {
                found.extend(ran.iter().map(|(stack, _)| cx.capture.without_native(*stack)));
            }
        }
    }
    found
}

/// Whether a thread that was on a CPU was mostly in the kernel, moving data from or to storage.
pub(crate) fn moves_storage(cx: &Context<'_>, segment: &Segment<'_>) -> bool {
    usage_at(cx, segment).filter(|used| is_mostly_kernel(*used)).is_some_and(|used| {
        let enough = u64::from(used.system_us) * thresholds::storage_kib() as u64 / 1_000_000;
        u64::from(used.storage_kib) >= enough.max(1)
    })
}

/// What a thread that was on a CPU mostly did in the kernel there, None when it computed.
pub(crate) fn kernel_work(cx: &Context<'_>, segment: &Segment<'_>) -> Option<Doing> {
    match waits_for_memory(cx, segment) {
        true => Some(Doing::Memory),
        false => moves_storage(cx, segment).then_some(Doing::Disk),
    }
}
