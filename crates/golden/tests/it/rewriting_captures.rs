//! Tools that rewrite captures leave the rest as it is: chunks, records, damage, trimming.

use std::path::PathBuf;

use capture::read::{Capture, ReadError};
use format::chunk;
use format::record::{decode, Record};
use golden::chunks::{filter_blocks, join, split, Chunk};
use golden::damage::damaged;
use golden::store::{packed, Entry};
use golden::trim::trimmed;
use golden::verdict::judge;

/// A capture with native code, spans and several requests.
fn stored() -> Vec<u8> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/captures");
    let entry = Entry::read(&folder, "lock_chain").expect("a golden capture");
    entry.capture().expect("unpacks")
}

fn filtered(bytes: &[u8], keep: fn(&Record<'_>) -> bool) -> Vec<u8> {
    let mut keep = |words: &[u64]| decode(words).is_none_or(|(_, record)| keep(&record));
    let mut filter = |c: Chunk| match c.tag == chunk::BLOCKS {
        true => Chunk { payload: filter_blocks(&c.payload, &mut keep), ..c },
        false => c,
    };
    join(&split(bytes).expect("whole").into_iter().map(&mut filter).collect::<Vec<_>>())
}

#[test]
fn cutting_up_and_joining_changes_no_byte() {
    let bytes = stored();
    assert_eq!(join(&split(&bytes).expect("whole")), bytes);
    assert_eq!(filtered(&bytes, |_| true), bytes);
    assert!(split(&bytes[..bytes.len() - 1]).is_err(), "a capture that is cut off is refused");
}

#[test]
fn only_refused_records_are_removed() {
    let bytes = stored();
    let whole = Capture::parse(&bytes).expect("a capture");
    let less = filtered(&bytes, |record| {
        !matches!(record, Record::RequestBegin { .. } | Record::RequestEnd { .. })
    });
    let less = Capture::parse(&less).expect("a capture");
    assert!(!whole.requests.is_empty() && less.requests.is_empty());
    assert_eq!(less.samples, whole.samples);
    assert_eq!(less.damage, Vec::<String>::new());
}

#[test]
fn damage_is_what_it_says_and_the_same_each_time() {
    let bytes = stored();
    let read = |how: &str| {
        let damaged_bytes = damaged(&bytes, how).expect("a known kind");
        assert_eq!(damaged(&bytes, how), Ok(damaged_bytes.clone()));
        Capture::parse(&damaged_bytes)
    };
    for (how, note) in [
        ("cut at 90 %", "cut off"),
        ("a bit turned in chunk BLKS 1", "wrong checksum"),
        ("without chunk ENDS", "no end mark"),
    ] {
        let capture = read(how).expect("something is left");
        assert!(
            capture.damage.iter().any(|text| text.contains(note)),
            "{how}: {:?}",
            capture.damage
        );
    }
    assert!(matches!(read("without chunk META"), Err(ReadError::NothingLeft(_))));
    assert!(matches!(read("format 9"), Err(ReadError::OtherVersion(9))));
    for how in ["", "cut at half", "a bit turned in chunk BLKS 1000", "soaked"] {
        assert!(damaged(&bytes, how).is_err(), "{how:?}");
    }
}

#[test]
fn trimming_makes_it_smaller_and_keeps_the_findings() {
    let bytes = stored();
    let size = packed(&bytes).expect("memory").len() as u64;
    let whole = trimmed(&bytes, size).expect("a capture");
    assert!(whole.steps.is_empty(), "it fits: {:?}", whole.steps);
    let small = trimmed(&bytes, size / 2).expect("a capture");
    assert!(small.bytes.len() < bytes.len() && !small.steps.is_empty());
    assert_eq!(judge(&small.bytes).findings, judge(&bytes).findings);
    assert!(!judge(&bytes).findings.is_empty());
}
