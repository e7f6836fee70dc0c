//! The summary of a capture that is read in parts is that of the whole capture.
#![allow(clippy::expect_used, missing_docs)]

use std::path::Path;

use capture::read::{Capture, Parts};
use tables::summary::{self, Summary};

/// So many words of records in a part.
const WORDS: usize = 1 << 14;

/// Compares the summary of the capture's parts with that of the whole; returns how many parts.
fn compared(case: &str, bytes: &[u8]) -> usize {
    let mut whole = Capture::parse(bytes).expect("a capture");
    whole.tame();
    let (mut parts, mut part) = Parts::parse(bytes, WORDS).expect("a capture");
    let mut summary = Summary::default();
    while parts.next(&mut part).expect("reads") {
        summary.take(&part);
    }
    let (found, wanted) = (summary.to_json(&part, case), summary::to_json(&whole, case));
    for (name, value) in wanted.as_object().expect("an object") {
        assert_eq!(found.get(name), Some(value), "{case}: {name}");
    }
    parts.count()
}

#[test]
fn a_summary_does_not_depend_on_how_the_capture_is_read() {
    let (bytes, _) = golden::large::write(Vec::new(), 2).expect("written");
    assert!(compared("large", &bytes) > 5);
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures");
    // With vitals and collections, with wakeups, with spans and events of a program in Rust.
    for case in ["cpu-loop", "field-order-journal", "gc-pause-handler", "rust_convoy"] {
        let found = golden::store::entries(&folder, case).expect("the golden captures");
        let entry = found.into_iter().find(|entry| entry.name == case).expect("there");
        assert!(compared(case, &entry.capture().expect("unpacks")) > 1, "{case} is one part");
    }
}
