//! The numbers that verdicts rest on: each with its unit, its value, and why it is that.
//!
//! How it works: a threshold is a function, so that a build with the feature `varied` can change
//! one of them while a program runs; otherwise it is a constant. `dashcam-sim thresholds` varies
//! each by 20 % and counts the verdicts that move
//! (docs/internals/thresholds.md has the table of the last run).
//!
//! What it promises: no other file of this crate or of the diagnosis has a number that decides a
//! verdict, but for one principle: what is more than half of a time stands for it.
//!
//! Missing on purpose: bounds of cost and of the length of a report (how many threads, frames or
//! lines). They are where they apply, and more of either makes no answer worse.

use crate::unit::Unit;

/// A row of the table.
#[derive(Clone, Copy, Debug)]
pub struct Threshold {
    /// What it bounds.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Its value.
    pub value: f64,
    /// Why it is that.
    pub why: &'static str,
}

macro_rules! kind {
    (count) => {
        usize
    };
    (part) => {
        f64
    };
    (times) => {
        f64
    };
    ($whole:ident) => {
        u64
    };
}

macro_rules! unit {
    (ns) => {
        Unit::Ns
    };
    (us) => {
        Unit::Us
    };
    (count) => {
        Unit::Count
    };
    (part) => {
        Unit::Part
    };
    (times) => {
        Unit::Times
    };
}

macro_rules! number {
    ($unit:ident, $value:literal) => {{
        let value: kind!($unit) = $value;
        value as f64
    }};
}

macro_rules! thresholds {
    ($($(#[doc = $why:literal])+ $name:ident: $unit:ident = $value:literal;)*) => {
        /// All of them.
        pub const ALL: &[Threshold] = &[$(Threshold {
            name: stringify!($name),
            unit: unit!($unit),
            value: number!($unit, $value),
            why: concat!($($why),+),
        },)*];

        #[cfg(feature = "varied")]
        #[allow(non_camel_case_types)]
        enum Place { $($name,)* }

        $(
            $(#[doc = $why])+
            #[cfg(not(feature = "varied"))]
            #[inline]
            pub const fn $name() -> kind!($unit) {
                $value
            }

            $(#[doc = $why])+
            #[cfg(feature = "varied")]
            pub fn $name() -> kind!($unit) {
                varied::value(Place::$name as usize, number!($unit, $value)) as kind!($unit)
            }
        )*
    };
}

thresholds! {
    /// Runs this short, many in a row, are no time slices of the scheduler's.
    sliver_ns: ns = 50_000;
    /// Taking a sample costs its thread less CPU time; nearer to an end is no better.
    sampling_cost_ns: ns = 200_000;
    /// A turn of the scheduler's. A shorter wait, or time without a CPU, is none of its own; a call
    /// to its time limit leaves the CPU so much later than it begins.
    turn_ns: ns = 1_000_000;
    /// A thread that asks for the GIL runs for less than this between two waits for it.
    asking_ns: ns = 2_000_000;
    /// By switch records a waker runs so shortly before the waiter, and so soon behind its time
    /// limit does a wait end.
    just_before_ns: ns = 3_000_000;
    /// What the clocks of samples, records and timers differ by.
    clock_slack_ns: ns = 5_000_000;
    /// A shorter wait does not divide what is around it.
    short_wait_ns: ns = 20_000_000;
    /// A run or wait without a sample may borrow one this far away.
    borrowed_sample_ns: ns = 25_000_000;
    /// By samples a waker runs so shortly before the waiter.
    just_before_sampled_ns: ns = 30_000_000;
    /// How far a sample of a task that holds may be from that of the task that waits: of several
    /// waiters for one lock only one at a time has its holder searched for.
    task_holder_ns: ns = 40_000_000;
    /// A shorter interval of work is an event loop's ordinary business.
    loop_blocked_ns: ns = 50_000_000;
    /// A sample is valid for its thread so long behind it, where nothing says more.
    sample_valid_ns: ns = 50_000_000;
    /// A sample of another thread may lie this far from the moment asked about.
    sample_near_ns: ns = 60_000_000;
    /// Kernel and user time come in steps of 10 ms: a shorter interval says nothing of their parts.
    usage_ns: ns = 80_000_000;
    /// A thread that waits is sampled this often: ends nearer to each other are one.
    sampled_ns: ns = 100_000_000;
    /// A sample of a task's await this near to an interval saw it.
    await_seen_ns: ns = 120_000_000;
    /// Samples further apart say nothing of what lies between.
    samples_apart_ns: ns = 250_000_000;
    /// A thread that waits is sampled again at least this often; past it, silence means not seen.
    stale_ns: ns = 300_000_000;
    /// Samples of a program that loads modules are no further apart.
    loading_apart_ns: ns = 500_000_000;
    /// How far around a wait a thread is considered for what it usually does.
    usual_ns: ns = 2_000_000_000;
    /// Between two samples that found a task in one await, or a thread in one burst of work, it was
    /// there all that time: on a busy service samples are rare.
    one_activity_ns: ns = 3_000_000_000;
    /// One sample of a blocked thread between two switch records may be wrong; so many prove a
    /// record to be missing.
    missing_record_samples: count = 2;
    /// Fewer samples, ends or requests may be chance.
    repeated: count = 3;
    /// So many pauses in one request are a loop's.
    pauses: count = 4;
    /// Fewer normal requests, or slow ones of one name, say little.
    few_requests: count = 5;
    /// So many short runs in a row are no chance.
    short_runs: count = 8;
    /// So many samples behind a wait, a thread that takes connections waits for them again.
    acceptor_samples: count = 8;
    /// So many calls by one line in one request are a loop's.
    loop_calls: count = 10;
    /// A part this small of a finding is not reported.
    reported_part: part = 0.05;
    /// A part this small of a time, or of a group, says nothing of the rest.
    small_part: part = 0.1;
    /// More of a finding that is inferred, or is in normal requests too, lowers its confidence.
    doubtful_part: part = 0.2;
    /// What takes this part of another time is comparable with it: a blocker's interval with the
    /// wait, a normal request's time with a slow one's.
    comparable_part: part = 0.25;
    /// A finding with a smaller share of the excess is not confirmed.
    confirmed_share: part = 0.3;
    /// Most of it.
    half: part = 0.5;
    /// The line of a loop carries this part of a finding.
    loop_line_part: part = 0.6;
    /// Nearly all of it: what carries this part stands for the whole.
    main_part: part = 0.75;
    /// A confirmed finding has exact times for this part of its excess.
    exact_part: part = 0.8;
    /// A recurring waker, by switch records, was there by chance with this probability at most...
    recurring_chance: part = 1e-3;
    /// ... and the next one with a probability so many times larger.
    recurring_lead: times = 100.0;
    /// The same of a function that was left at the end of several waits: samples say less, but of
    /// fewer candidates.
    exits_chance: part = 1e-2;
    /// The same.
    exits_lead: times = 10.0;
    /// A thread is late if it could have run for this part of its waits: 1 in so many.
    late_in: times = 2.0;
    /// A child leaves the copy of its parent in so many times the time of the fork.
    exec_of_fork: times = 4.0;
    /// A fault of one small page costs 0.3 to 10 us; more kernel time for each went elsewhere.
    fault_us: us = 25;
    /// Storage traffic that explains kernel time, KiB for each second of it.
    storage_kib: count = 10_000;
}

/// Whether `n` is at least this part of `of`.
pub fn is_part(n: u64, part: f64, of: u64) -> bool {
    n as f64 >= part * of as f64
}

#[cfg(feature = "varied")]
pub mod varied {
    //! Changes one threshold while a program runs, to see what depends on it.
    //!
    //! What it promises: without a call of `vary` each has its value. It is for programs that
    //! measure the diagnosis: all threads of the process see the change.

    use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

    use super::{Unit, ALL};

    /// No threshold.
    const NONE: usize = usize::MAX;

    /// Index in `ALL` of the threshold that is varied. Written by `vary` alone, read by every
    /// threshold.
    static VARIED: AtomicUsize = AtomicUsize::new(NONE);
    /// Its value: the bits of an f64.
    static VALUE: AtomicU64 = AtomicU64::new(0);

    /// Gives the threshold at `index` of `ALL` another value; None: each has its own again.
    pub fn vary(change: Option<(usize, f64)>) {
        let (index, value) = change.unwrap_or((NONE, 0.0));
        // Nobody is to see the new index with an old value.
        VARIED.store(NONE, Ordering::SeqCst);
        VALUE.store(value.to_bits(), Ordering::SeqCst);
        VARIED.store(index, Ordering::SeqCst);
    }

    /// The value of a threshold times `factor`; of a count at least 1 away from it.
    pub fn scaled(index: usize, factor: f64) -> f64 {
        let own = &ALL[index];
        let scaled = own.value * factor;
        match own.unit {
            Unit::Count if factor > 1.0 => scaled.round().max(own.value + 1.0),
            Unit::Count => scaled.round().min(own.value - 1.0).max(1.0),
            Unit::Part => scaled.min(1.0),
            _ => scaled,
        }
    }

    /// The value of the threshold at `index`.
    pub(super) fn value(index: usize, own: f64) -> f64 {
        // SeqCst: the value that is read belongs to the index that was read.
        match VARIED.load(Ordering::SeqCst) == index {
            true => f64::from_bits(VALUE.load(Ordering::SeqCst)),
            false => own,
        }
    }
}
