//! What the tests of several crates share: forked children, waiting for a condition, random numbers
//! from a seed, temporary folders, and counts that the live lane makes larger.
//!
//! How it works: each tool keeps a test deterministic. It waits for a condition and not for a time,
//! draws from a seed that it prints, and is bounded by a count.
//!
//! What it promises: if a condition does not hold within [`PATIENCE`], or a child does not end, the
//! test fails with the condition's name and the place where the child is blocked.
//!
//! A dev-dependency only: nothing that ships links it. Missing on purpose: anything of dashcam's
//! own, so that every crate may use it.
#![allow(clippy::expect_used, reason = "a helper of tests fails the test it helps")]

mod children;
mod folder;
mod random;

use std::str::FromStr;
use std::time::{Duration, Instant};

pub use children::{child, in_a_child, start_child, wait_at_most, wait_for_child, SetsAtEnd};
pub use folder::{remove, Folder};
pub use random::Random;

/// Far longer than anything takes on a busy machine: after it, a wait is in vain.
pub const PATIENCE: Duration = Duration::from_secs(60);

const PAUSE: Duration = Duration::from_micros(500);

/// Calls `ready` until it returns something.
pub fn wait_for<T>(what: &str, mut ready: impl FnMut() -> Option<T>) -> T {
    let begin = Instant::now();
    while begin.elapsed() < PATIENCE {
        if let Some(value) = ready() {
            return value;
        }
        std::thread::sleep(PAUSE);
    }
    panic!("waited {PATIENCE:?} in vain for {what}");
}

/// Calls `holds` until it is true.
pub fn until(what: &str, mut holds: impl FnMut() -> bool) {
    wait_for(what, || holds().then_some(()));
}

/// How often to do something: `short`, or what the environment variable says. The live lane sets it
/// to repeat what the fast lane does a few times only.
pub fn count<T: FromStr>(variable: &str, short: T) -> T {
    let Ok(text) = std::env::var(variable) else { return short };
    text.parse().unwrap_or_else(|_| panic!("{variable}: found {text:?}, wanted a number"))
}
