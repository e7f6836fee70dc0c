//! An export of a capture in parts has the same requests, spans, events and sums as one of the
//! whole.

use std::collections::BTreeMap;
use std::io;

use capture::read::{Capture, Parts};
use export::pprof::Profile;
use export::{Format, InParts, Value};
use golden::large;
use prost::Message;
use serde_json::Value as Json;

use crate::common;

fn exported(bytes: &[u8], words: usize, format: Format) -> Vec<u8> {
    let (mut parts, capture) = Parts::parse(bytes, words).expect("a capture");
    let count = parts.count();
    assert_eq!(count > 4, words < usize::MAX);
    let mut next = |capture: &mut Capture| parts.next(capture).map_err(io::Error::other);
    let mut all = InParts { capture, next: &mut next, count };
    let mut out = Vec::new();
    let options = common::options(Value::Wall);
    export::write_parts(&mut all, format, &options, &mut out, &mut |_, _| ()).expect("memory");
    out
}

/// An export of the whole, and one in parts.
fn both(format: Format) -> [Vec<u8>; 2] {
    let (bytes, _) = large::write(Vec::new(), 1).expect("written");
    [usize::MAX, 1 << 14].map(|words| exported(&bytes, words, format))
}

fn same(mut whole: Vec<String>, mut parts: Vec<String>) {
    whole.sort();
    parts.sort();
    let differs = whole.iter().zip(&parts).find(|(a, b)| a != b);
    assert_eq!(differs, None);
    assert_eq!(whole.len(), parts.len());
}

#[test]
fn a_timeline_has_each_slice_and_event_once() {
    let [whole, parts] = both(Format::Chrome).map(|bytes| {
        let read: Json = serde_json::from_slice(&bytes).expect("JSON");
        let events = read["traceEvents"].as_array().expect("events").clone();
        // States are cut where a part ends.
        let state = |e: &&Json| e["cat"].as_str().is_some_and(|cat| cat.starts_with("state"));
        let (states, events): (Vec<_>, Vec<_>) = events.iter().partition(state);
        let mut sums: BTreeMap<String, f64> = BTreeMap::new();
        for state in states {
            let key = format!("{} {}", state["tid"], state["name"]);
            *sums.entry(key).or_default() += state["dur"].as_f64().expect("a number");
        }
        let text = |event: &Json| {
            let mut event = event.clone();
            // Lanes may be others.
            event["id"] = Json::Null;
            event.to_string()
        };
        (events.into_iter().map(text).collect::<Vec<String>>(), sums)
    });
    for (state, us) in &whole.1 {
        let of_parts = parts.1.get(state).copied().unwrap_or(0.0);
        assert!((us - of_parts).abs() < 1.0, "{state}: {us} and {of_parts} us");
    }
    same(whole.0, parts.0);
}

#[test]
fn traces_have_each_span_below_the_same_parent() {
    let [whole, parts] = both(Format::Zipkin).map(|bytes| {
        let read: Json = serde_json::from_slice(&bytes).expect("JSON");
        let spans = read.as_array().expect("a list").iter();
        // An event in a span of an earlier part is a span of its own.
        let kind = |s: &Json| s["tags"]["dashcam.kind"].as_str().map(str::to_owned);
        let text = |s: &Json| {
            format!(
                "{} {} {} {} {}",
                s["traceId"], s["id"], s["parentId"], s["name"], s["duration"]
            )
        };
        let spans = spans.filter(|s| !matches!(kind(s).as_deref(), Some("event" | "wait")));
        spans.map(text).collect::<Vec<String>>()
    });
    same(whole, parts);
}

#[test]
fn profiles_have_the_same_sums() {
    let [whole, parts] = both(Format::Pprof).map(|bytes| {
        let mut unpacked = Vec::new();
        io::Read::read_to_end(&mut flate2::read::GzDecoder::new(&*bytes), &mut unpacked)
            .expect("gzip");
        let read = Profile::decode(&*unpacked).expect("a profile");
        let mut sums = [0i64; 4];
        for sample in &read.sample {
            assert!(sample
                .location_id
                .iter()
                .all(|id| (1..=read.location.len() as u64).contains(id)));
            for label in &sample.label {
                assert!((label.str as usize) < read.string_table.len());
            }
            sums.iter_mut().zip(&sample.value).for_each(|(sum, value)| *sum += value);
        }
        sums
    });
    assert_eq!(whole[0], parts[0], "samples");
    for (a, b) in whole.iter().zip(&parts) {
        assert!((a - b).abs() <= a / 1000, "{whole:?} and {parts:?}");
    }
    let [whole, parts] = both(Format::Speedscope).map(|bytes| {
        let read: Json = serde_json::from_slice(&bytes).expect("JSON");
        let profiles = read["profiles"].as_array().expect("profiles").clone();
        let sum = |p: &Json| {
            let weights = p["weights"].as_array().expect("weights").iter();
            let sum: u64 = weights.filter_map(Json::as_u64).sum();
            (p["name"].to_string(), sum)
        };
        profiles.iter().map(sum).collect::<Vec<(String, u64)>>()
    });
    assert_eq!(whole.len(), parts.len());
    for ((name, a), (other, b)) in whole.iter().zip(&parts) {
        assert_eq!(name, other);
        assert!(a.abs_diff(*b) <= a / 1000, "{name}: {a} and {b}");
    }
}
