//! Fork hooks run, each in its process, before `fork` returns.

#![allow(clippy::expect_used, reason = "a test may fail")]

mod common;

use std::sync::atomic::{AtomicU32, Ordering};

static PREPARED: AtomicU32 = AtomicU32::new(0);
static IN_PARENT: AtomicU32 = AtomicU32::new(0);
static IN_CHILD: AtomicU32 = AtomicU32::new(0);

extern "C" fn prepare() {
    PREPARED.fetch_add(1, Ordering::Relaxed);
}

extern "C" fn parent() {
    IN_PARENT.store(std::process::id(), Ordering::Relaxed);
}

extern "C" fn child() {
    IN_CHILD.store(std::process::id(), Ordering::Relaxed);
}

#[test]
fn fork_hooks() {
    sys::fork::register(Some(prepare), Some(parent), Some(child)).expect("there is memory");
    sys::fork::register(None, None, None).expect("there is memory");
    let code = common::in_a_child(|| {
        let here = IN_CHILD.load(Ordering::Relaxed) == std::process::id();
        let not_there = IN_PARENT.load(Ordering::Relaxed) == 0;
        i32::from(!(here && not_there))
    });
    assert_eq!(code, 0);
    assert_eq!(PREPARED.load(Ordering::Relaxed), 1);
    assert_eq!(IN_PARENT.load(Ordering::Relaxed), std::process::id());
    assert_eq!(IN_CHILD.load(Ordering::Relaxed), 0, "the parent's copy is untouched");
}
