//! page-fault: the kernel had to find memory first.
//!
//! Signature: blocked in the kernel outside a system call, or inside mmap, munmap, madvise (or one
//! of many short waits most of whose samples are so, as a mapped file is read page by page); or on
//! a CPU, but mostly in the kernel, with enough page faults to explain it (memory touched for the
//! first time, or copied after a fork).
//!
//! Quotes: page faults and the kernel's share around the longest interval. Unsure: samples saw few
//! of many short waits.

use super::{at, ms_text, Cause, Claim, Described, Rule};
use crate::scene::Scene;
use analysis::timeline::{Segment, State};
use format::record::Sample;
use format::usage::Usage;
use format::wait::WaitKind;

pub const RULE: Rule = Rule { id: "page-fault", claim };
pub const ADVICE: &str =
    "Look at memory pressure and swap at this time; allocate less in the request, or touch the \
     memory (or read the mapped file) before the request needs it.";

/// A fault of one small page costs 0.3 to 10 us; kernel time beyond this per fault went elsewhere.
const FAULT_US: u64 = 25;

fn claim(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let found = match segment.state {
        State::Wait => {
            segment.sampled && is_fault(segment.wait()) || is_one_of_many(scene, segment)
        }
        State::Unknown => is_one_of_many(scene, segment),
        State::Run => scene.usage_around(segment).is_some_and(|used| {
            let cheap = || u64::from(used.system_us) <= FAULT_US * u64::from(used.faults);
            is_mostly_kernel(used) && used.faults > 0 && (cheap() || is_amid_faults(scene, segment))
        }),
        State::Ready => false,
    };
    found.then(|| Claim::of(Cause::PageFault, segment))
}

fn is_fault(wait: WaitKind) -> bool {
    matches!(wait, WaitKind::Fault | WaitKind::Memory)
}

/// A wait longer than this is judged by its own samples.
const SHORT_NS: u64 = 20_000_000;
/// So far around such a wait samples of others are considered; at the very place, where the wait is
/// an estimate.
const AROUND_NS: u64 = 100_000_000;
const AROUND_AT_PLACE_NS: u64 = 200_000_000;
/// So many of them at faults.
const LEAST_LOOKS: usize = 3;

/// Whether this short wait, which is amid faults, has no sample. Without switch records the
/// thread's times show that there was one: between two samples it neither ran nor was runnable for
/// all of the time.
fn is_one_of_many(scene: &Scene<'_>, segment: &Segment<'_>) -> bool {
    let borrowed = segment.wait();
    let open = matches!(borrowed, WaitKind::Running | WaitKind::Unknown) || is_fault(borrowed);
    (!segment.sampled || segment.state == State::Unknown)
        && open
        && segment.ns() <= SHORT_NS
        && match segment.exact {
            true => is_amid_faults(scene, segment),
            false => is_amid_faults_at_its_place(scene, segment),
        }
}

/// Whether samples of the thread shortly before and behind found it blocked by faults, several
/// times and mostly: faults that read from storage take longer in the kernel than others.
fn is_amid_faults(scene: &Scene<'_>, segment: &Segment<'_>) -> bool {
    is_amid(scene, segment, AROUND_NS, |_| true)
}

fn is_amid_faults_at_its_place(scene: &Scene<'_>, segment: &Segment<'_>) -> bool {
    let place = scene.frames.innermost_user(segment.stack());
    place.is_some()
        && is_amid(scene, segment, AROUND_AT_PLACE_NS, |look| {
            scene.frames.innermost_user(look.stack) == place
        })
}

/// `counts`: whether a sample of a fault does.
fn is_amid(
    scene: &Scene<'_>,
    segment: &Segment<'_>,
    around_ns: u64,
    counts: impl Fn(&Sample) -> bool,
) -> bool {
    let from_ns = segment.from_ns.saturating_sub(around_ns);
    let looks = scene.samples_in(segment.tid, from_ns, segment.to_ns + around_ns).iter();
    let waits = looks.filter(|s| !matches!(s.wait, WaitKind::Running | WaitKind::Unknown));
    let faults = waits.clone().filter(|s| is_fault(s.wait) && counts(s)).count();
    faults >= LEAST_LOOKS && faults * 2 > waits.count()
}

/// Whether a thread that ran was in the kernel more than half of the time.
pub fn is_mostly_kernel(used: Usage) -> bool {
    used.system_us > used.user_us
}

pub fn sentence(d: &Described<'_>) -> String {
    let time = ms_text(d.mean_ms);
    format!("{} waited {time} for the kernel to provide memory", at(d.place))
}
