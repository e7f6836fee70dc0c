//! The protocol under loom: every interleaving of a few threads, and every value that the memory
//! model lets a load return.
#![allow(clippy::expect_used)]

use std::sync::Arc;

use loom::thread;

use crate::bank::{Bank, Banks};
use crate::cell::Cell;
use crate::state::State;
use crate::sync::{AtomicU64, Ordering};
use crate::window::Kind;

/// A shard of one counter.
struct Small {
    state: State,
    cell: Cell,
}

impl Small {
    fn new() -> Arc<Small> {
        Arc::new(Small { state: State::new(), cell: Cell::new() })
    }

    /// A thread's life: claims the shard if it is free, counts, gives it back. Returns what it
    /// counted.
    fn live(&self, generation: u64, n: i64) -> i64 {
        if !self.state.claim(generation, || self.forget()) {
            return 0;
        }
        assert!(self.cell.add(n) && self.cell.add(n));
        self.state.release(generation);
        2 * n
    }

    fn forget(&self) -> bool {
        self.cell.forget();
        true
    }

    fn take(&self, generation: u64) -> i64 {
        match self.state.is_of(generation) {
            true => self.cell.take().map_or(0, |(whole, _)| whole),
            false => 0,
        }
    }
}

/// Two threads use a shard, one after the other or only one of them, while windows are taken.
#[test]
fn totals_pass_from_owner_to_owner_and_are_taken_once() {
    loom::model(|| {
        let shard = Small::new();
        let lives: Vec<_> = [1, 10]
            .into_iter()
            .map(|n| {
                let shard = shard.clone();
                thread::spawn(move || shard.live(1, n))
            })
            .collect();
        let mut taken = shard.take(1) + shard.take(1);
        let counted: i64 = lives.into_iter().map(|t| t.join().expect("no panic")).sum();
        taken += shard.take(1);
        assert_eq!(taken, counted);
        assert_eq!(shard.take(1), 0);
    });
}

/// A child's thread claims a shard with its parent's totals in it, while the child collects.
#[test]
fn a_parents_totals_are_never_in_a_childs_window() {
    loom::model(|| {
        let shard = Small::new();
        // The parent's count, not taken before the fork. By a thread of its own, since loom tries
        // no other orders around words that the spawning thread alone has written.
        let parents = shard.clone();
        let parent = thread::spawn(move || parents.live(1, 100));
        assert_eq!(parent.join().expect("no panic"), 200);
        let [own, other] = [shard.clone(), shard.clone()];
        let child = thread::spawn(move || own.live(2, 1));
        let collector = thread::spawn(move || other.take(2));
        let counted = child.join().expect("no panic");
        let mut taken = collector.join().expect("no panic");
        taken += shard.take(2);
        assert_eq!((counted, taken), (2, 2));
    });
}

/// From any thread, as into the shared shard.
#[test]
fn shared_totals_lose_nothing() {
    loom::model(|| {
        let shard = Small::new();
        let add = |n: i64| {
            let shard = shard.clone();
            thread::spawn(move || {
                assert!(shard.cell.add_shared(n) && shard.cell.add_float_shared(0.5))
            })
        };
        let threads = [add(1), add(10)];
        let first = shard.cell.take().unwrap_or((0, 0.0));
        threads.into_iter().for_each(|t| t.join().expect("no panic"));
        let rest = shard.cell.take().unwrap_or((0, 0.0));
        assert_eq!((first.0 + rest.0, first.1 + rest.1), (11, 1.0));
    });
}

fn add(banks: &Banks) -> u64 {
    let change = |bank: &mut Bank| match bank {
        Bank::Gauge(gauge) => gauge.add(0, 1.0),
        _ => false,
    };
    u64::from(banks.with(change) == Some(true))
}

fn take(banks: &Banks) -> u64 {
    let mut sum = 0.0;
    banks.take(|bank| {
        if let Bank::Gauge(gauge) = bank {
            sum += gauge.delta.map_or(0.0, |(_, delta)| delta);
        }
    });
    sum as u64
}

/// The owner changes banks while the collector empties them: what was accepted is taken once, also
/// what comes between the collector's load of `used` and its locks.
#[test]
fn what_is_in_a_bank_is_taken_once() {
    loom::model(|| {
        let banks = Arc::new(Banks::new(Kind::Gauge, false, 1));
        let writer = {
            let banks = banks.clone();
            thread::spawn(move || add(&banks) + add(&banks))
        };
        let mut taken = take(&banks);
        let accepted = writer.join().expect("no panic");
        taken += take(&banks);
        assert_eq!(taken, accepted);
        assert_eq!(take(&banks), 0);
    });
}

/// Two writers at once, as in the shared shard, beside the collector.
#[test]
fn writers_of_the_shared_banks_lose_nothing() {
    loom::model(|| {
        let banks = Arc::new(Banks::new(Kind::Gauge, false, 1));
        let accepted = Arc::new(AtomicU64::new(0));
        let writers: Vec<_> = (0..2)
            .map(|_| {
                let (banks, accepted) = (banks.clone(), accepted.clone());
                thread::spawn(move || {
                    accepted.fetch_add(add(&banks), Ordering::Relaxed);
                })
            })
            .collect();
        let mut taken = take(&banks);
        writers.into_iter().for_each(|w| w.join().expect("no panic"));
        taken += take(&banks);
        assert_eq!(taken, accepted.load(Ordering::Relaxed));
    });
}
