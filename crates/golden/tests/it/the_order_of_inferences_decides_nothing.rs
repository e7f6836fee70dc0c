//! Rules and inferences are compared by evidence: asked in another order, they give the verdict
//! that was accepted, byte for byte.

use std::path::PathBuf;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Mutex;

use capture::read::{Capture, Wanted};
use diagnosis::Order;
use golden::compare::side_by_side;
use golden::store::{self, Entry};
use golden::verdict::in_order;

/// The captures whose verdict is not as stored; of each `share`-th from `first` on.
fn other_verdicts(order: Order, (first, share): (usize, usize)) -> Vec<String> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures");
    let all = store::entries(&folder, "*").expect("the golden captures");
    let entries: Vec<&Entry> = all.iter().skip(first).step_by(share).collect();
    let (next, wrong) = (AtomicUsize::new(0), Mutex::new(Vec::new()));
    let judge = |entry: &Entry| {
        let bytes = entry.capture().expect("unpacks");
        let Ok(capture) = Capture::parse_for(&bytes, Wanted::Causes) else { return };
        let (text, expected) = (in_order(&capture, order).text, entry.expected());
        if text != expected {
            let shown = side_by_side(&expected, &text);
            wrong.lock().expect("no check panics").push(format!("{}\n{shown}", entry.name));
        }
    };
    std::thread::scope(|scope| {
        for _ in 0..std::thread::available_parallelism().map_or(1, |n| n.get()) {
            scope.spawn(|| {
                while let Some(entry) = entries.get(next.fetch_add(1, Ordering::Relaxed)) {
                    judge(entry);
                }
            });
        }
    });
    wrong.into_inner().expect("no check panics")
}

#[test]
fn asked_from_the_end_they_give_the_same_verdicts() {
    assert_eq!(other_verdicts(Order::Reversed, (0, 2)), Vec::<String>::new());
}

#[test]
fn asked_from_the_end_they_give_the_same_verdicts_of_the_others() {
    assert_eq!(other_verdicts(Order::Reversed, (1, 2)), Vec::<String>::new());
}

/// Each of three orders on another third of the captures.
fn check_shuffled(seed: usize) {
    let wrong = other_verdicts(Order::Shuffled(1 + 5 * seed), (seed, 3));
    assert_eq!(wrong, Vec::<String>::new(), "seed {seed}");
}

#[test]
fn shuffled_they_give_the_same_verdicts() {
    check_shuffled(0);
}

#[test]
fn shuffled_otherwise_they_give_the_same_verdicts() {
    check_shuffled(1);
}

#[test]
fn shuffled_a_third_time_they_give_the_same_verdicts() {
    check_shuffled(2);
}
