//! CLOCK_MONOTONIC by the CPU's time stamp counter.
//!
//! How it works: a straight line `ns = base_ns + (tsc - base_tsc) * slope` is computed from pairs
//! of (counter, CLOCK_MONOTONIC), and again about once a second by `follow`, so that it keeps to
//! the kernel's clock, which NTP speeds up and slows down. A new line begins where the old one is,
//! so time never jumps; its slope corrects the old line's error within the next second.
//!
//! Lines are in a ring of slots, and the number of the newest is published. A reader that was
//! stopped long enough for its slot to be written again notices that by the number and reads again.
//! No reader waits for another thread.
//!
//! Used only where the kernel itself keeps time by this counter (`tsc` is its clocksource: it has
//! checked that all CPUs count alike) and the counter runs at one rate in all power states. If a
//! line's error is more than `LARGEST_ERROR_NS` (a virtual machine moved, say), the counter is
//! given up for good and the kernel's clock is used again: `state` says so.
//!
//! A forked child goes on with its parent's line and lays its own: nothing here is a lock that the
//! parent's sampler could have held at the fork.

use std::sync::atomic::{AtomicU64, Ordering};

use super::kernel::kernel_ns;
use crate::cell::StaticRef;
use crate::claim::Claim;

/// Lines kept; a power of two. A reader must be stopped for this many seconds to be overtaken.
const SLOTS: usize = 16;
/// Counter and clock are read together this often; the closest pair counts.
const PAIRS: usize = 5;
/// First line: after this long.
const FIRST_NS: u64 = 50_000_000;
/// Later lines: this long after the one before.
const NEXT_NS: u64 = 1_000_000_000;
/// A line with a larger error was computed from a counter that cannot be relied on.
const LARGEST_ERROR_NS: i64 = 1_000_000;
/// Fraction bits of a slope.
const SHIFT: u32 = 32;

struct Slot {
    base_tsc: AtomicU64,
    base_ns: AtomicU64,
    /// Nanoseconds a tick, times 2^SHIFT.
    slope: AtomicU64,
}

static LINES: [Slot; SLOTS] = [const {
    Slot { base_tsc: AtomicU64::new(0), base_ns: AtomicU64::new(0), slope: AtomicU64::new(0) }
}; SLOTS];
/// Number of the newest line, counted from 1; 0: none. Release on store pairs with the acquire in
/// `now_ns`.
static NEWEST: AtomicU64 = AtomicU64::new(0);

/// Held by the thread that computes lines. A forked child takes it over from its parent's sampler.
static LAYING: Claim = Claim::free();
/// The pair that the next line is computed from; `PAIR_NS` 0: none. Relaxed: under the claim.
static PAIR_TSC: AtomicU64 = AtomicU64::new(0);
static PAIR_NS: AtomicU64 = AtomicU64::new(0);
/// The counter is not to be used, and why.
static OFF: StaticRef<&'static str> = StaticRef::empty();

/// How the clock is read now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Following {
    /// By the counter.
    Counter,
    /// By the kernel until `follow` has been called often enough.
    NotYet,
    /// By the kernel, because of this.
    Kernel(&'static str),
}

/// The time by the newest line; None while there is none.
#[inline]
pub(super) fn now_ns() -> Option<u64> {
    loop {
        // Acquire: pairs with the release in `publish`; the slot's words are those of this line.
        let number = NEWEST.load(Ordering::Acquire);
        if number == 0 {
            return None;
        }
        let slot = &LINES[number as usize % SLOTS];
        let line = Line {
            base_tsc: slot.base_tsc.load(Ordering::Relaxed),
            base_ns: slot.base_ns.load(Ordering::Relaxed),
            slope: slot.slope.load(Ordering::Relaxed),
        };
        let ns = line.at(counter());
        // If a whole round of new lines was written meanwhile, the words may be a mixture. Relaxed:
        // there are seconds between this load and a number that matters.
        if NEWEST.load(Ordering::Relaxed).wrapping_sub(number) < SLOTS as u64 - 1 {
            return Some(ns);
        }
    }
}

#[derive(Clone, Copy)]
struct Line {
    base_tsc: u64,
    base_ns: u64,
    slope: u64,
}

impl Line {
    /// Readings from before the line's beginning count as its beginning.
    #[inline]
    fn at(self, tsc: u64) -> u64 {
        let ticks = tsc.saturating_sub(self.base_tsc);
        self.base_ns + ((u128::from(ticks) * u128::from(self.slope)) >> SHIFT) as u64
    }
}

/// Keeps the clock's line near the kernel's clock. Call about once a second, from one thread that
/// takes no signals; further calls cost a system call and a clock read. Cost: under 1 us.
pub fn follow() {
    let Some(held) = LAYING.take() else { return };
    if OFF.get().is_some() {
        return;
    }
    if held.was_left() {
        // Its words may be of two pairs.
        keep((0, 0));
    }
    let (tsc, ns) = (PAIR_TSC.load(Ordering::Relaxed), PAIR_NS.load(Ordering::Relaxed));
    if ns == 0 {
        return match unusable() {
            Some(why) => give_up(why),
            None => keep(pair()),
        };
    }
    let newest = NEWEST.load(Ordering::Relaxed);
    let wait = if newest == 0 { FIRST_NS } else { NEXT_NS };
    if kernel_ns().saturating_sub(ns) >= wait {
        next_line((tsc, ns), newest);
    }
}

fn keep((tsc, ns): (u64, u64)) {
    PAIR_TSC.store(tsc, Ordering::Relaxed);
    PAIR_NS.store(ns, Ordering::Relaxed);
}

/// How the clock is read now, for `status` and captures.
pub fn state() -> Following {
    match OFF.get() {
        Some(why) => Following::Kernel(why),
        None if NEWEST.load(Ordering::Relaxed) > 0 => Following::Counter,
        None => Following::NotYet,
    }
}

fn next_line((old_tsc, old_ns): (u64, u64), newest: u64) {
    let (tsc, ns) = pair();
    let (ticks, passed) = (tsc.wrapping_sub(old_tsc), ns.saturating_sub(old_ns));
    if ticks == 0 || ticks > u64::MAX / 2 {
        return give_up("the time stamp counter stood still or went back");
    }
    let slope = (u128::from(passed) << SHIFT) / u128::from(ticks);
    let Ok(measured) = u64::try_from(slope) else {
        return give_up("the time stamp counter's rate makes no sense");
    };
    let line = match newest {
        0 => Line { base_tsc: tsc, base_ns: ns, slope: measured },
        _ => {
            let slot = &LINES[newest as usize % SLOTS];
            let old = Line {
                base_tsc: slot.base_tsc.load(Ordering::Relaxed),
                base_ns: slot.base_ns.load(Ordering::Relaxed),
                slope: slot.slope.load(Ordering::Relaxed),
            };
            let base_ns = old.at(tsc);
            let error = ns.wrapping_sub(base_ns) as i64;
            if error.abs() > LARGEST_ERROR_NS {
                return give_up("the time stamp counter and CLOCK_MONOTONIC went apart");
            }
            // The error is made up for within NEXT_NS: at most one part in a thousand.
            let share = i128::from(measured) * i128::from(error) / i128::from(NEXT_NS);
            let slope = (i128::from(measured) + share) as u64;
            Line { base_tsc: tsc, base_ns, slope }
        }
    };
    publish(newest + 1, line);
    keep((tsc, ns));
}

fn publish(number: u64, line: Line) {
    let slot = &LINES[number as usize % SLOTS];
    slot.base_tsc.store(line.base_tsc, Ordering::Relaxed);
    slot.base_ns.store(line.base_ns, Ordering::Relaxed);
    slot.slope.store(line.slope, Ordering::Relaxed);
    NEWEST.store(number, Ordering::Release);
}

/// Back to the kernel's clock, for good. Times read on the way may step by the error once.
fn give_up(why: &'static str) {
    OFF.get_or_make(|| why);
    NEWEST.store(0, Ordering::Release);
}

/// Counter and clock at one instant: of several tries, the one that took the shortest. The counter
/// is read before the clock, so a line through the pair is never behind the kernel's clock.
fn pair() -> (u64, u64) {
    let mut best = (u64::MAX, 0, 0);
    for _ in 0..PAIRS {
        let before = counter();
        let ns = kernel_ns();
        let took = counter().wrapping_sub(before);
        if took < best.0 {
            best = (took, before, ns);
        }
    }
    (best.1, best.2)
}

/// Why the counter cannot be used here; None: it can.
#[cfg(target_arch = "x86_64")]
fn unusable() -> Option<&'static str> {
    if crate::environment::value("DASHCAM_CLOCK").is_some_and(|v| v == "kernel") {
        return Some("DASHCAM_CLOCK=kernel");
    }
    // SAFETY: the leaves asked for are checked to exist first. (Unsafe only until Rust 1.93.)
    #[allow(unused_unsafe)]
    let invariant = unsafe {
        use core::arch::x86_64::__cpuid;
        __cpuid(0x8000_0000).eax >= 0x8000_0007 && __cpuid(0x8000_0007).edx & (1 << 8) != 0
    };
    if !invariant {
        return Some("this CPU's time stamp counter does not run at one rate");
    }
    let path = "/sys/devices/system/clocksource/clocksource0/current_clocksource";
    match std::fs::read_to_string(path) {
        Ok(source) if source.trim() == "tsc" => None,
        Ok(_) => Some("the kernel keeps time by something else than the time stamp counter"),
        Err(_) => Some("the kernel's clocksource cannot be read"),
    }
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn counter() -> u64 {
    // SAFETY: rdtsc exists on every x86-64 CPU; where a process is forbidden to use it (prctl
    // PR_SET_TSC) the vDSO clock would not work either.
    unsafe { core::arch::x86_64::_rdtsc() }
}

#[cfg(not(target_arch = "x86_64"))]
fn unusable() -> Option<&'static str> {
    Some("the counter of this architecture is not read yet")
}

#[cfg(not(target_arch = "x86_64"))]
#[inline(always)]
fn counter() -> u64 {
    0
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    /// One test, since the line is one for the process.
    #[test]
    fn counter_time_follows_the_kernels_clock_and_never_goes_back() {
        // The third line comes two seconds behind the first, or later if this thread has no CPU.
        const WANTED: u64 = 3;
        let deadline_ns = super::super::kernel_ns() + 60_000_000_000;
        let mut last = super::super::now_ns();
        let mut worst: i64 = 0;
        let is_due = || NEWEST.load(Ordering::Relaxed) < WANTED && OFF.get().is_none();
        while is_due() && super::super::kernel_ns() < deadline_ns {
            follow();
            for _ in 0..200 {
                let now = super::super::now_ns();
                assert!(now >= last, "{now} < {last}");
                last = now;
            }
            let before = super::super::kernel_ns();
            let now = super::super::now_ns();
            let after = super::super::kernel_ns();
            let error = (before.saturating_sub(now)).max(now.saturating_sub(after)) as i64;
            worst = worst.max(error);
            std::thread::sleep(Duration::from_micros(300));
        }
        match state() {
            Following::Counter => assert!(worst < 100_000, "{worst} ns off"),
            Following::Kernel(why) => eprintln!("the kernel's clock is used: {why}"),
            Following::NotYet => panic!("following led nowhere"),
        }
    }

    /// The sampler computes a line a second, and checks a hundred times a second whether it is
    /// time. A fork in the middle of that left the lock held, and the child's sampler waited for it
    /// for ever.
    #[test]
    fn a_child_forked_while_its_parent_computes_a_line_computes_its_own() {
        let held = loop {
            // The other test lays lines, too.
            match LAYING.take() {
                Some(held) => break held,
                None => std::thread::yield_now(),
            }
        };
        let code = testkit::in_a_child(|| {
            // As if the parent had been between two stores.
            PAIR_TSC.store(1, Ordering::Relaxed);
            follow();
            let first = PAIR_NS.load(Ordering::Relaxed);
            let is_new =
                OFF.get().is_some() || (first > 0 && PAIR_TSC.load(Ordering::Relaxed) != 1);
            std::thread::sleep(Duration::from_nanos(NEXT_NS + NEXT_NS / 10));
            follow();
            let goes_on = match state() {
                Following::Counter => PAIR_NS.load(Ordering::Relaxed) > first,
                Following::Kernel(_) => true,
                Following::NotYet => false,
            };
            i32::from(!is_new) + 2 * i32::from(!goes_on)
        });
        drop(held);
        assert_eq!(code, 0);
    }

    #[test]
    fn a_line_begins_at_its_base_and_holds_for_hours() {
        let line = Line { base_tsc: 1000, base_ns: 50, slope: (1 << SHIFT) / 2 };
        assert_eq!(line.at(999), 50);
        assert_eq!(line.at(1004), 52);
        let day = 3_000_000_000 * 86_400;
        assert_eq!(line.at(1000 + day), 50 + day / 2);
    }
}
