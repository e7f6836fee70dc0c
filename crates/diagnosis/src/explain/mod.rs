//! Why a finding says what it says: `dashcam why --explain`.
//!
//! How it works: a finding has the intervals that it was made from, each with the rule that claimed
//! it, and of some example requests the comparisons behind them: which candidates for the blocker
//! there were, the evidence for each, which one won, and for what reason the others were dropped.
//! Inferences fill a `trace` with comparisons on request; `judge::explanation` picks the examples
//! of a finding and judges them once more with the trace on. `crates/report` shows it.
//!
//! What it promises: data, no sentences; every rule, inference and reason has a stable id. Nothing
//! here decides anything: the verdict is the same with it and without (a test judges all golden
//! captures both ways). Bounded: `EXAMPLES_MAX` requests, `INTERVALS_MAX` of each, `CANDIDATES_MAX`
//! a question.
//!
//! Missing on purpose: intervals of requests that are no example, and of time that no finding has.

pub(crate) mod trace;

use analysis::frames::Place;
use analysis::timeline::State;
use analysis::unit::Unit;

use crate::cause::Cause;

/// Requests shown of a finding, those with most of it.
pub(crate) const EXAMPLES_MAX: usize = 3;
/// Intervals shown of a request, the longest.
pub(crate) const INTERVALS_MAX: usize = 3;
/// Candidates shown of a comparison.
pub(crate) const CANDIDATES_MAX: usize = 5;
/// Blockers shown of a finding.
pub(crate) const BLOCKERS_MAX: usize = 4;

macro_rules! ids {
    ($(#[$of:meta])* $name:ident { $($(#[$doc:meta])* $variant:ident = $id:literal,)* }) => {
        $(#[$of])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum $name { $($(#[$doc])* $variant,)* }

        impl $name {
            /// Every one.
            pub const ALL: &'static [$name] = &[$($name::$variant,)*];

            /// The stable id.
            pub fn id(self) -> &'static str {
                match self { $($name::$variant => $id,)* }
            }
        }
    };
}

ids! {
    /// A way to find the blocker of a wait: its holder, or its waker.
    Inference {
        /// Samples of the wait read the owner, from the lock or from the code inside its block.
        NamedHolder = "lock-owner-read",
        /// The kernel recorded which thread ended the wait.
        WakeRecord = "wakeup-record",
        /// The one thread inside of the call that waits, at something else.
        InsideCall = "inside-the-call",
        /// The one thread whose transaction was open during the wait, and ended with it.
        OpenTransaction = "open-transaction",
        /// Ran just before the waiter came back.
        RanBefore = "ran-before-wakeup",
        /// Left a function when the wait ended.
        LeftPlace = "left-when-wait-ended",
        /// Ran just before the end of each of several waits.
        Recurring = "recurring-waker",
        /// One function was left at the end of each of several waits.
        RecurringExit = "recurring-exit",
        /// Was past the line that takes from the pool.
        PastTheLine = "past-acquire-line",
        /// Was inside one function during the waits, and hardly at other times.
        InsideDuring = "inside-during-the-waits",
        /// Two waits that ended with one another, for locks taken in opposite order.
        LockOrder = "lock-order-inversion",
        /// Samples of the wait read the GIL's holder from the interpreter.
        GilHolder = "gil-holder-read",
        /// The only other thread that ran Python code during the wait.
        OnlyPython = "only-python-on-cpu",
        /// Works in the file of the code that waits for room in a full queue.
        QueueReader = "queue-reader",
        /// The task that a sample read as the holder of what was awaited.
        TaskHolder = "task-holder-read",
        /// The task that refers to what was awaited.
        TaskReference = "task-reference",
        /// The thread that woke the task, as it reported itself.
        TaskWaker = "task-woken-by",
        /// The task that ended other waits at the same place.
        UsualWaker = "usual-waker",
        /// A task that awaited something else in the same file or library.
        SameCode = "task-in-same-code",
        /// The executor recorded which thread took the work.
        ExecutorRecord = "executor-record",
        /// The worker was at another request.
        BusyWorker = "busy-worker",
        /// The interpreter recorded the thread that collected garbage.
        GcRecord = "gc-record",
        /// The recorder saw the thread inside of `fork`.
        ForkRecord = "fork-record",
        /// The thread that had a CPU most of the time.
        CpuUser = "cpu-user",
        /// What kept the process from taking a request up.
        Arrival = "arrival",
        /// The wait ran to its time limit: no thread ended it.
        TimeLimit = "ran-to-time-limit",
        /// Samples of the wait read which thread is joined.
        ThreadEndRead = "joined-thread-read",
        /// What several inferences found, compared by weight.
        Compared = "inferences-compared",
    }
}

ids! {
    /// Why a candidate is not the blocker.
    Dropped {
        /// It waits for the same lock or pool.
        WaitsForTheSame = "waits-for-the-same",
        /// It was at the place of the waiter.
        SamePlace = "at-the-waiters-place",
        /// No sample saw its code during the wait.
        NotSeen = "code-not-seen",
        /// It did not run when the wait ended.
        DidNotRun = "did-not-run-at-the-end",
        /// It waited for others all that time.
        Parked = "waited-all-the-while",
        /// It waits for work.
        Idle = "idle",
        /// No file of the program's code is on both stacks, and it releases nothing.
        SharesNoCode = "shares-no-code",
        /// It comes and goes so often that it proves nothing.
        AlwaysAbout = "runs-all-the-time",
        /// It computed before, during and after the wait.
        ComputesOn = "computes-before-and-after",
        /// It waits for a lock itself; another candidate does not.
        Locked = "waits-for-a-lock",
        /// Another candidate releases locks, or shares code with the waiter.
        LessRelated = "less-related",
        /// Another candidate ran nearer to the end of the wait.
        RanEarlier = "ran-earlier",
        /// It accounts for too little of the wait.
        TooLittle = "too-little-of-the-wait",
        /// Another candidate has more evidence.
        LessEvidence = "less-evidence",
        /// Several candidates fit equally well.
        Ambiguous = "several-fit",
        /// It may have been there by chance.
        Chance = "may-be-chance",
        /// A record shows that no thread of this process ended the wait, or that this one waited
        /// for a lock which the waiter had.
        Refuted = "a-record-refutes-it",
    }
}

/// One figure for a candidate.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Fact {
    /// So many of so many samples name it.
    Samples(u64, u64),
    /// It accounts for so many ns of so many.
    Time(u64, u64),
    /// It last ran so many ns before the wait ended.
    BeforeEnd(u64),
    /// The chance that it was there by accident.
    Chance(f64),
    /// A file of the program's code is on its stack and on the waiter's.
    SharesCode,
    /// Its code releases a lock.
    Releases,
    /// An inference names it, of which the evidence weighs so much.
    Named(Inference, f64),
}

/// What is compared.
#[derive(Clone, Debug, PartialEq)]
pub enum Subject {
    /// A thread.
    Thread(u32),
    /// A task of an event loop.
    Task(u64),
    /// Any thread in the function of the candidate's place.
    Code,
    /// A cause.
    Cause(Cause),
    /// No thread of this process that may be named.
    Nobody,
}

/// What became of a candidate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It is the answer.
    Won,
    /// It is not.
    Dropped(Dropped),
}

/// One candidate of a comparison.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The thread, task, code or cause.
    pub subject: Subject,
    /// Where it was, as far as known.
    pub place: Option<Place>,
    /// What speaks for it.
    pub evidence: Vec<Fact>,
    /// The part of the wait, or of the evidence, that speaks for it: 0 to 1. None where it was
    /// dropped unweighed.
    pub weight: Option<f64>,
    /// What became of it.
    pub fate: Fate,
    /// In how many of the questions it won.
    pub won: usize,
}

/// A named number that a decision rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Threshold {
    /// What it bounds.
    pub name: &'static str,
    /// Its value.
    pub value: f64,
    /// Its unit.
    pub unit: Unit,
}

impl Threshold {
    /// A length of time.
    pub(crate) fn ns(name: &'static str, ns: u64) -> Threshold {
        Threshold { name, value: ns as f64 / 1e6, unit: Unit::Ms }
    }

    /// A part of something, 0 to 1.
    pub(crate) fn part(name: &'static str, value: f64) -> Threshold {
        Threshold { name, value, unit: Unit::Part }
    }

    /// A number of things.
    pub(crate) fn count(name: &'static str, value: usize) -> Threshold {
        Threshold { name, value: value as f64, unit: Unit::Count }
    }
}

/// A question about a wait, and how its candidates compare.
#[derive(Clone, Debug)]
pub struct Comparison {
    /// The inference that compared.
    pub by: Inference,
    /// The thread that waited.
    pub waiter: u32,
    /// When, on the capture's clock.
    pub from_ns: u64,
    /// Until when.
    pub to_ns: u64,
    /// The candidates: the winner first, then those that came nearest.
    pub candidates: Vec<Candidate>,
    /// Candidates left out.
    pub more: usize,
    /// What the decision rests on.
    pub thresholds: Vec<Threshold>,
    /// How many questions like it are summed up here.
    pub times: usize,
}

/// An interval of a request that a finding was made from. Times count from the request's begin.
#[derive(Clone, Debug)]
pub struct Interval {
    /// The thread.
    pub tid: u32,
    /// Begin.
    pub from_ns: u64,
    /// End.
    pub to_ns: u64,
    /// On a CPU, runnable, waiting, or not recorded.
    pub state: State,
    /// What it waited for, as samples name the wait: `futex`, `gil`.
    pub wait: &'static str,
    /// The resource, where it is known.
    pub resource: Option<String>,
    /// Where.
    pub place: Option<Place>,
    /// The rule that claims it.
    pub rule: &'static str,
    /// Its blocker.
    pub blocker: Option<(Inference, u32, Option<Place>)>,
    /// Begin and end are from switch records.
    pub exact: bool,
    /// A sample saw it.
    pub seen: bool,
    /// The questions that were asked about it.
    pub comparisons: Vec<Comparison>,
}

/// A request that shows a finding.
#[derive(Clone, Debug)]
pub struct Example {
    /// Its id.
    pub id: u64,
    /// Its name.
    pub name: String,
    /// Its thread.
    pub tid: u32,
    /// How long it took.
    pub ns: u64,
    /// Its longest intervals of the finding, in order of time.
    pub intervals: Vec<Interval>,
    /// Intervals left out, and how long they are.
    pub more: (usize, u64),
}

/// A blocker of a finding's intervals, over all requests that have it.
#[derive(Clone, Debug)]
pub struct BlockerPart {
    /// How it was found, and its thread; None: no blocker is known.
    pub named: Option<(Inference, u32)>,
    /// Where it was.
    pub place: Option<Place>,
    /// The part of the finding's excess.
    pub part: f64,
}

/// A test that the confidence rests on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Check {
    /// What was measured, against what.
    pub threshold: Threshold,
    /// What was found.
    pub value: f64,
    /// It does not lower the confidence.
    pub passed: bool,
}

/// Why a finding says what it says.
#[derive(Clone, Debug)]
pub struct Explanation {
    /// Requests that show it.
    pub requests: Vec<Example>,
    /// Requests left out.
    pub more_requests: usize,
    /// The rules that claimed its intervals, with their parts of its excess.
    pub rules: Vec<(&'static str, f64)>,
    /// Blockers of its intervals, the heaviest first.
    pub blockers: Vec<BlockerPart>,
    /// Blockers left out.
    pub more_blockers: usize,
    /// Comparisons over several waits.
    pub comparisons: Vec<Comparison>,
    /// What the confidence rests on.
    pub checks: Vec<Check>,
}

impl Explanation {
    /// The thresholds that took part in comparisons, each once.
    pub fn thresholds(&self) -> Vec<Threshold> {
        let intervals = self.requests.iter().flat_map(|r| &r.intervals);
        let comparisons = intervals.flat_map(|i| &i.comparisons).chain(&self.comparisons);
        let mut all: Vec<Threshold> = Vec::new();
        for threshold in comparisons.flat_map(|c| &c.thresholds) {
            if !all.contains(threshold) {
                all.push(*threshold);
            }
        }
        all
    }
}
