//! The order in which a pass samples the chosen threads, and which other threads get a place.
//!
//! How it works: the caller asks for the next turn and reports what the sample showed:
//!
//! ```text
//!   wakers, a few > urgent thread > holders it waits for > urgent thread > ...
//!                 > wakers, the rest > others
//! ```
//!
//! What it promises: no more turns than places; three allotments of CPU time, for urgent threads,
//! for those in their way, and for others, the first of each kind in any case. No thread has two
//! turns.

use format::record::Sample;

use super::allotment::Allotment;
use super::choice::{Places, Random};
use crate::world::Clock;

/// This much of a pass's CPU time is for the urgent threads, as much for the threads in their way,
/// and `OTHERS_NS` for the others.
const URGENT_NS: u64 = 4_000_000;
const OTHERS_NS: u64 = 1_000_000;
/// One in this many of a pass's places is for threads that ended waits of slow requests' threads;
/// more if no other thread takes the places.
const WAKERS: usize = 4;

/// A thread to be sampled now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The thread.
    pub tid: u32,
    /// It matters: it is urgent, or in an urgent one's way.
    pub close: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Soon,
    Urgent,
    Late,
    Others,
}

/// The turns of one pass.
pub struct Order {
    stage: Stage,
    urgent: Vec<u32>,
    chosen: Vec<u32>,
    /// How many of `chosen` are urgent: those in front; and which is next.
    in_front: usize,
    at: usize,
    /// The turn at hand is an urgent thread's.
    is_urgent: bool,
    /// Threads that may be in the way; the next one is last.
    in_the_way: Vec<u32>,
    late: Vec<u32>,
    /// Sampled because they are in an urgent thread's way.
    seen: Vec<u32>,
    places: Places,
    for_urgent: Allotment,
    for_seen: Allotment,
    for_others: Allotment,
}

impl Default for Order {
    fn default() -> Order {
        Order {
            stage: Stage::Others,
            urgent: Vec::new(),
            chosen: Vec::new(),
            in_front: 0,
            at: 0,
            is_urgent: false,
            in_the_way: Vec::new(),
            late: Vec::new(),
            seen: Vec::new(),
            places: Places::new(0, 0),
            for_urgent: Allotment::new(URGENT_NS),
            for_seen: Allotment::new(URGENT_NS),
            for_others: Allotment::new(OTHERS_NS),
        }
    }
}

impl Order {
    /// Begins a pass of at most `threads` samples. `chosen`: by `choose`, those of `due`, which are
    /// from `urgent`, in front. `wakers`: threads that ended waits of urgent ones, lately.
    pub fn begin(
        &mut self,
        threads: usize,
        (urgent, due): (&[u32], &[u32]),
        chosen: &[u32],
        wakers: impl Iterator<Item = u32>,
        random: &mut Random,
    ) {
        let refill = |list: &mut Vec<u32>, with: &[u32]| {
            list.clear();
            list.extend_from_slice(with);
        };
        refill(&mut self.urgent, urgent);
        refill(&mut self.chosen, chosen);
        let others = chosen.iter().filter(|tid| !urgent.contains(tid)).count();
        self.places = Places::new(threads, others);
        self.in_front = chosen.iter().take_while(|tid| due.contains(tid)).count();
        (self.stage, self.at, self.is_urgent) = (Stage::Soon, 0, false);
        self.seen.clear();
        self.in_the_way.clear();
        self.in_the_way.extend(wakers);
        // The last ones may be left out, so another one is last each time.
        let first = random.below(self.in_the_way.len());
        self.in_the_way.rotate_left(first);
        let soon = (threads / WAKERS).max(1).min(self.in_the_way.len());
        self.late.clear();
        self.late.extend(self.in_the_way.drain(soon..).rev());
        self.in_the_way.reverse();
        self.for_urgent = Allotment::new(URGENT_NS);
        self.for_seen = Allotment::new(URGENT_NS);
        self.for_others = Allotment::new(OTHERS_NS);
    }

    /// The thread that is sampled next. None: the pass has sampled all it may.
    pub fn next(&mut self, clock: &impl Clock) -> Option<Turn> {
        loop {
            while let Some(tid) = self.in_the_way.pop() {
                let known = tid == 0 || self.urgent.contains(&tid) || self.seen.contains(&tid);
                if !known && self.for_seen.is_left(clock) && self.places.culprit() {
                    self.seen.push(tid);
                    self.is_urgent = false;
                    return Some(Turn { tid, close: true });
                }
            }
            match self.stage {
                Stage::Soon => self.stage = Stage::Urgent,
                Stage::Urgent => {
                    let tid = self.chosen.get(self.at).copied().filter(|_| self.at < self.in_front);
                    let left = tid.filter(|_| self.for_urgent.is_left(clock));
                    if let Some(tid) = left.filter(|_| self.places.urgent()) {
                        self.at += 1;
                        self.is_urgent = true;
                        return Some(Turn { tid, close: true });
                    }
                    self.stage = Stage::Late;
                    std::mem::swap(&mut self.in_the_way, &mut self.late);
                }
                Stage::Late => (self.stage, self.at) = (Stage::Others, 0),
                Stage::Others => {
                    let tid = *self.chosen.get(self.at)?;
                    self.at += 1;
                    let seen = self.urgent.contains(&tid) || self.seen.contains(&tid);
                    if !seen && self.for_others.is_left(clock) && self.places.other() {
                        self.is_urgent = false;
                        return Some(Turn { tid, close: false });
                    }
                }
            }
        }
    }

    /// What this turn showed; threads in an urgent thread's way come next.
    pub fn sampled(&mut self, sample: &Sample) {
        if self.is_urgent {
            self.in_the_way.extend([sample.gil_holder, sample.lock_holder]);
        }
    }

    /// Threads that were sampled because they are in an urgent thread's way.
    pub fn seen(&self) -> &[u32] {
        &self.seen
    }

    /// Whether a thread was left out because the time for its kind of threads was over.
    pub fn was_cut(&self) -> bool {
        [&self.for_urgent, &self.for_seen, &self.for_others].iter().any(|time| time.cut)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::policy::tracks::blank;

    /// Each sample costs this much of its CPU.
    struct Costs(u64, Cell<u64>);

    impl Clock for Costs {
        fn now_ns(&self) -> u64 {
            self.1.get()
        }

        fn thread_cpu_ns(&self) -> u64 {
            self.1.get()
        }

        fn process_cpu_ns(&self) -> u64 {
            self.1.get()
        }

        fn yield_cpu(&self) {}
    }

    /// The turns of a pass in which each urgent thread waits for the one a hundred above it.
    fn turns(threads: usize, urgent: &[u32], others: &[u32], wakers: &[u32], cost: u64) -> Order {
        let chosen: Vec<u32> = urgent.iter().chain(others).copied().collect();
        let mut order = Order::default();
        let mut random = Random::new(1);
        order.begin(threads, (urgent, urgent), &chosen, wakers.iter().copied(), &mut random);
        let clock = Costs(cost, Cell::new(1));
        let mut seen = Vec::new();
        while let Some(turn) = order.next(&clock) {
            clock.1.set(clock.1.get() + clock.0);
            seen.push(if turn.close { turn.tid } else { turn.tid + 10_000 });
            order.sampled(&Sample { lock_holder: turn.tid + 100, ..blank(turn.tid, 1, 0) });
        }
        order.chosen = seen;
        order
    }

    #[test]
    fn threads_in_the_way_come_right_behind_and_none_comes_twice() {
        let order = turns(16, &[1, 2], &[7, 101], &[], 0);
        assert_eq!(order.chosen, [1, 101, 2, 102, 10_007]);
        assert_eq!(order.seen(), [101, 102]);
        // A thread that is urgent itself has its own turn.
        assert_eq!(turns(16, &[1, 101], &[], &[], 0).chosen, [1, 101, 201]);
    }

    #[test]
    fn a_quarter_of_the_places_is_for_wakers_before_urgent_threads_and_more_behind() {
        let order = turns(16, &[1, 2], &[7], &[50, 51, 52, 53, 54, 55], 0);
        let [front @ .., last] = &order.chosen[..] else { return assert!(order.was_cut()) };
        assert_eq!(*last, 10_007);
        assert!(front[..4].iter().all(|tid| (50..56).contains(tid)), "{front:?}");
        assert_eq!(front[4..8], [1, 101, 2, 102]);
        // Half of sixteen places are for those in the way.
        assert_eq!((front.len(), order.seen().len()), (10, 8));
    }

    #[test]
    fn each_kind_has_its_own_time_and_the_first_of_each_has_its_turn() {
        let order = turns(16, &[1, 2, 3], &[7, 8], &[], 10_000_000);
        assert_eq!(order.chosen, [1, 101, 10_007]);
        assert!(order.was_cut());
        assert!(!turns(16, &[1, 2, 3], &[7, 8], &[], 100_000).was_cut());
    }
}
