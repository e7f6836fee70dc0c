//! The causes, one file each: what claims a segment of a slow request for it, and what to say.
//!
//! A segment is offered to the rules in the order of `RULES`; the first that claims it has it. What
//! none claims is `unknown`. A rule reads one segment and its surroundings only; comparing with
//! normal requests, grouping and ranking come later and are the same for all.

mod connect;
mod cpu;
pub(crate) mod cpu_starved;
mod cpu_throttled;
mod deadlock_timeout;
mod disk_io;
mod dns;
pub(crate) mod downstream_wait;
pub(crate) mod event_loop_blocked;
pub(crate) mod fork;
mod gc_pause;
mod gil_wait;
pub(crate) mod import;
pub(crate) mod lock_wait;
mod page_fault;
mod pipe_write;
pub(crate) mod pool_wait;
pub(crate) mod recorder;
mod sleep;
pub(crate) mod stopped;
pub(crate) mod subprocess_wait;
mod unknown;

use crate::awaits::Awaited;
use crate::culprits::Through;
use crate::repeats::Repeats;
use crate::scene::{Culprit, Scene};
use analysis::frames::Place;
use analysis::resource::Resource;
use analysis::timeline::Segment;

macro_rules! causes {
    ($($name:ident = $text:literal;)*) => {
        /// The contract's list of causes.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[allow(missing_docs)]
        pub enum Cause { $($name,)* }

        impl Cause {
            /// Every one.
            pub const ALL: &'static [Cause] = &[$(Cause::$name,)*];

            /// As in `dashcam why --json`.
            pub fn text(self) -> &'static str {
                match self { $(Cause::$name => $text,)* }
            }
        }
    };
}

causes! {
    Sleep = "sleep";
    LockWait = "lock-wait";
    GilWait = "gil-wait";
    GcPause = "gc-pause";
    Cpu = "cpu";
    CpuStarved = "cpu-starved";
    CpuThrottled = "cpu-throttled";
    EventLoopBlocked = "event-loop-blocked";
    PoolWait = "pool-wait";
    DownstreamWait = "downstream-wait";
    Connect = "connect";
    Dns = "dns";
    DiskIo = "disk-io";
    PipeWrite = "pipe-write";
    SubprocessWait = "subprocess-wait";
    Import = "import";
    Fork = "fork";
    PageFault = "page-fault";
    Stopped = "stopped";
    DeadlockTimeout = "deadlock-timeout";
    Recorder = "recorder";
    Unknown = "unknown";
}

/// What a rule says of a segment it claims.
#[derive(Clone, Debug)]
pub struct Claim {
    /// The cause.
    pub cause: Cause,
    /// Stack that shows where it happened; the segment's own, or a worker's.
    pub stack: u32,
    /// Prefer the user's frame to a library's.
    pub prefer_user: bool,
    /// The blocker, when it is another thread.
    pub culprit: Option<Culprit>,
    /// What was waited for.
    pub resource: Option<Resource>,
    /// The kind of wait was seen in a sample of this segment, not borrowed.
    pub seen: bool,
    /// It is what another thread did, and that thread was found because it ran when the wait for it
    /// ended.
    pub inferred: bool,
    /// It is what another thread did, and the request was blocked here and waited for that; else 0.
    pub waiter: u32,
    /// The id of the rule that claims it.
    pub rule: &'static str,
}

/// What no rule claims has this id.
const NO_RULE: &str = "unknown";

impl Claim {
    /// A claim with the segment's own stack and nothing else.
    pub fn of(cause: Cause, segment: &Segment<'_>) -> Claim {
        Claim {
            cause,
            stack: segment.stack(),
            prefer_user: false,
            culprit: None,
            resource: None,
            seen: segment.sampled,
            inferred: false,
            waiter: 0,
            rule: NO_RULE,
        }
    }

    /// The same claim, made by a rule. One that took over what another rule claims leaves it that.
    pub(crate) fn by_rule(self, id: &'static str) -> Claim {
        Claim { rule: if self.rule == NO_RULE { id } else { self.rule }, ..self }
    }
}

/// A rule: one cause's file.
pub struct Rule {
    /// Its stable id.
    pub id: &'static str,
    /// Claims a segment, or leaves it to the next rule.
    pub claim: fn(&Scene<'_>, &Segment<'_>) -> Option<Claim>,
}

impl Rule {
    /// Its claim on a segment.
    fn claim(&self, scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
        (self.claim)(scene, segment).map(|claim| claim.by_rule(self.id))
    }
}

/// Claims time in which a task of an event loop awaits something, or leaves it to the next rule.
type AwaitRule = fn(&Scene<'_>, &Awaited<'_>, &Segment<'_>) -> Option<Claim>;

/// The rules for suspended tasks in the order they are asked, each with its id.
const AWAITS: &[(&str, AwaitRule)] = &[
    ("sleep-of-task", sleep::awaited),
    ("lock-wait-of-task", lock_wait::awaited),
    ("pool-wait-of-task", pool_wait::awaited),
    ("dns-of-task", dns::awaited),
    ("connect-of-task", connect::awaited),
    ("subprocess-wait-of-task", subprocess_wait::awaited),
    ("downstream-wait-of-task", downstream_wait::awaited),
];

/// A group of claims, as the sentence that describes it needs it.
pub struct Described<'a> {
    /// Where.
    pub place: Option<&'a Place>,
    /// Its requests were nowhere, as they had not begun: the place is the culprit's.
    pub is_nowhere: bool,
    /// The task of an event loop that it was in, by the name the program gave it.
    pub task: Option<&'a str>,
    /// The blocker, if another thread.
    pub culprit: Option<&'a Place>,
    /// The program's own functions that called the culprit's, outermost first; the last few.
    pub culprit_path: &'a [String],
    /// The thread that waited for the culprit, and made the request wait itself.
    pub through: Option<&'a Through>,
    /// Name of the culprit's thread.
    pub culprit_thread: Option<&'a str>,
    /// What the culprit itself was doing, in words ("slept", "ran").
    pub culprit_doing: Option<&'a str>,
    /// Different culprit threads.
    pub culprit_threads: usize,
    /// The culprit is a task of the same event loop.
    pub culprit_is_task: bool,
    /// The culprit was read from the lock or interpreter.
    pub culprit_measured: bool,
    /// What was waited for.
    pub resource: Option<&'a Resource>,
    /// The waits ended by their time limit.
    pub timed_out: bool,
    /// The finding's cause; of an event loop that waits for another thread, that wait's.
    pub waits: Cause,
    /// What one line called again and again.
    pub repeats: Option<&'a Repeats>,
    /// How often a slow request waited so, on average; 0 when there are only estimates.
    pub times: usize,
    /// What the code called between its pauses.
    pub retried: Option<&'a Place>,
    /// Mean time a slow request spent so.
    pub mean_ms: f64,
    /// The part of that in which it got no CPU.
    pub starved_ms: f64,
}

impl Described<'_> {
    /// `pool.py:6 query() (called by reports() > month_end())`: the culprit, and on whose behalf,
    /// since the request itself may well call the same function.
    pub fn blamed(&self) -> String {
        let place = at(self.culprit);
        if self.culprit_path.is_empty() {
            return place;
        }
        let calls: Vec<String> = self.culprit_path.iter().map(|name| format!("{name}()")).collect();
        format!("{place} (called by {})", calls.join(" > "))
    }
}

/// The rules in the order they are asked.
pub const RULES: &[Rule] = &[
    stopped::RULE,
    gc_pause::RULE,
    fork::RULE,
    recorder::RULE,
    event_loop_blocked::RULE,
    import::RULE,
    sleep::RULE,
    gil_wait::RULE,
    deadlock_timeout::RULE,
    pool_wait::RULE,
    lock_wait::RULE,
    dns::RULE,
    connect::RULE,
    subprocess_wait::RULE,
    pipe_write::RULE,
    downstream_wait::RULE,
    page_fault::RULE,
    disk_io::RULE,
    cpu_throttled::RULE,
    cpu_starved::RULE,
    cpu::RULE,
];

/// The claim on time in which a request's task awaits something.
pub(crate) fn awaited(scene: &Scene<'_>, seen: &Awaited<'_>, segment: &Segment<'_>) -> Claim {
    let claimed = |(id, rule): &(&'static str, AwaitRule)| {
        rule(scene, seen, segment).map(|claim| claim.by_rule(id))
    };
    let first = AWAITS.iter().find_map(claimed);
    first.unwrap_or_else(|| Claim::of_await(Cause::Unknown, seen.row, segment))
}

/// The claim on time in which an event loop was kept from going on, whatever its tasks awaited.
pub(crate) fn of_the_loop(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<Claim> {
    let whole = [stopped::RULE, gc_pause::RULE];
    let found = whole.iter().find_map(|rule| rule.claim(scene, segment));
    found.or_else(|| event_loop_blocked::is_kept(scene, segment).then(|| claim(scene, segment)))
}

/// What a thread that was on a CPU mostly did in the kernel there, in words; None when it computed.
pub(crate) fn kernel_work(scene: &Scene<'_>, segment: &Segment<'_>) -> Option<&'static str> {
    match (page_fault::RULE.claim)(scene, segment) {
        Some(_) => Some("waited for the kernel to provide memory"),
        None => (disk_io::RULE.claim)(scene, segment).map(|_| "waited for the disk"),
    }
}

/// The claim on a segment; `unknown` when no rule wants it.
pub fn claim(scene: &Scene<'_>, segment: &Segment<'_>) -> Claim {
    let first = RULES.iter().find_map(|rule| rule.claim(scene, segment));
    first.unwrap_or_else(|| {
        let resource = unknown::resource(scene, segment);
        Claim { resource, ..Claim::of(Cause::Unknown, segment) }
    })
}

/// Whether what an event loop's thread did is reported, whichever request or task it did it for:
/// not what the request itself awaited.
pub fn is_in_everybodys_way(cause: Cause) -> bool {
    use Cause::{CpuStarved, EventLoopBlocked, Fork, GcPause, GilWait};
    matches!(cause, CpuStarved | EventLoopBlocked | Fork | GcPause | GilWait)
}

/// One sentence about a finding.
pub fn sentence(cause: Cause, d: &Described<'_>) -> String {
    match cause {
        Cause::Sleep => sleep::sentence(d),
        Cause::LockWait => lock_wait::sentence(d),
        Cause::GilWait => gil_wait::sentence(d),
        Cause::GcPause => gc_pause::sentence(d),
        Cause::Cpu => cpu::sentence(d),
        Cause::CpuStarved => cpu_starved::sentence(d),
        Cause::CpuThrottled => cpu_throttled::sentence(d),
        Cause::EventLoopBlocked => event_loop_blocked::sentence(d),
        Cause::PoolWait => pool_wait::sentence(d),
        Cause::DownstreamWait => downstream_wait::sentence(d),
        Cause::Connect => connect::sentence(d),
        Cause::Dns => dns::sentence(d),
        Cause::DiskIo => disk_io::sentence(d),
        Cause::PipeWrite => pipe_write::sentence(d),
        Cause::SubprocessWait => subprocess_wait::sentence(d),
        Cause::Import => import::sentence(d),
        Cause::PageFault => page_fault::sentence(d),
        Cause::Fork => fork::sentence(d),
        Cause::DeadlockTimeout => deadlock_timeout::sentence(d),
        Cause::Recorder => recorder::sentence(d),
        Cause::Stopped => stopped::sentence(d),
        Cause::Unknown => unknown::sentence(d),
    }
}

/// One sentence of advice.
pub fn advice(cause: Cause, resource: Option<&Resource>) -> &'static str {
    match cause {
        Cause::Sleep => sleep::advice(resource),
        Cause::LockWait => lock_wait::advice(resource),
        Cause::GilWait => gil_wait::ADVICE,
        Cause::GcPause => gc_pause::ADVICE,
        Cause::Cpu => cpu::ADVICE,
        Cause::CpuStarved => cpu_starved::ADVICE,
        Cause::CpuThrottled => cpu_throttled::ADVICE,
        Cause::EventLoopBlocked => event_loop_blocked::ADVICE,
        Cause::PoolWait => pool_wait::advice(resource),
        Cause::DownstreamWait => downstream_wait::advice(resource),
        Cause::Connect => connect::ADVICE,
        Cause::Dns => dns::ADVICE,
        Cause::DiskIo => disk_io::ADVICE,
        Cause::PipeWrite => pipe_write::ADVICE,
        Cause::SubprocessWait => subprocess_wait::ADVICE,
        Cause::Import => import::advice(resource),
        Cause::PageFault => page_fault::ADVICE,
        Cause::Fork => fork::ADVICE,
        Cause::DeadlockTimeout => deadlock_timeout::ADVICE,
        Cause::Recorder => recorder::advice(resource),
        Cause::Stopped => stopped::ADVICE,
        Cause::Unknown => unknown::ADVICE,
    }
}

/// `geocache.py:41 backoff()`, or a word when no frame is known.
pub(crate) fn at(place: Option<&Place>) -> String {
    place.map_or_else(|| "code that was not seen".to_owned(), Place::short)
}

/// ` (tcp 127.0.0.1:5432)`, or nothing.
pub(crate) fn resource_text(d: &Described<'_>) -> String {
    d.resource.map_or_else(String::new, |resource| format!(" ({resource})"))
}

/// `: 212 calls of execute(), one after the other`, or nothing.
pub(crate) fn repeats_text(d: &Described<'_>) -> String {
    d.repeats.map_or_else(String::new, |repeats| format!(": {}", repeats.text()))
}

/// `1,006 ms`; one digit below 10 ms; `3.1 µs` of what that would round to nothing.
pub fn ms_text(ms: f64) -> String {
    if ms > 0.0 && ms < 0.05 {
        let us = ms * 1000.0;
        return format!("{us:.*} µs", usize::from(us < 9.95));
    }
    if ms < 10.0 {
        return format!("{ms:.1} ms");
    }
    format!("{} ms", thousands(ms.round() as u64))
}

/// `4,812`.
pub fn thousands(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::new();
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i) % 3 == 0 {
            out.push(',');
        }
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    #[test]
    fn numbers_for_people() {
        assert_eq!(super::thousands(4812), "4,812");
        assert_eq!(super::thousands(1_000_000), "1,000,000");
        assert_eq!(super::thousands(12), "12");
        assert_eq!(super::ms_text(1006.4), "1,006 ms");
        assert_eq!(super::ms_text(5.06), "5.1 ms");
        assert_eq!(super::ms_text(0.0031), "3.1 µs");
        assert_eq!((super::ms_text(0.0), super::ms_text(0.06)), ("0.0 ms".into(), "0.1 ms".into()));
    }
}
