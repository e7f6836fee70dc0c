//! Chrome and Perfetto: every request, span, collection, event, task, await and state is there, at
//! its time, on a track on which it nests.

use crate::common;

use std::collections::HashMap;

use common::{capture, export, text, HELPER, HOSTILE, LOOP, MS, T0, WORKER};
use export::perfetto::proto::{event_type, Trace, TrackDescriptor};
use export::{Format, Value};
use prost::Message;
use serde_json::Value as Json;

/// A slice: its track, kind, name, begin and length in ms of the window.
type Seen = (String, String, String, i64, i64);

fn wanted() -> Vec<Seen> {
    let slice = |at: &str, kind: &str, name: &str, from: i64, ms: i64| {
        (at.to_owned(), kind.to_owned(), name.to_owned(), from, ms)
    };
    let mut out = vec![
        slice("requests", "request", "GET /work", 0, 2000),
        slice("requests", "request", "GET /async", 100, 800),
        slice("requests", "queued", "queued", 100, 20),
        slice("requests", "span", "db.query", 150, 740),
        slice("requests", "request", "GET /async", 300, 900),
        slice("requests", "queued", "queued", 300, 20),
        slice("requests", "span", "db.query", 350, 840),
        slice("requests", "request", "GET /async", 1500, 600),
        slice("awaits", "await", "awaits lock", 200, 100),
        slice("awaits", "await", "awaits executor", 300, 300),
        slice("worker", "handler", "GET /work", 0, 2000),
        slice("worker", "span", "burn", 0, 1000),
        slice("worker", "gc", "GC generation 2", 100, 20),
        slice("worker", "span", HOSTILE, 1000, 1000),
        slice("helper \"<b>\"", "task", "for GET /async", 450, 250),
        slice("worker states", "state", "running", 0, 490),
        slice("worker states", "state", "runnable, no CPU", 490, 10),
        slice("worker states", "state", "running", 500, 500),
        slice("worker states", "state", "waiting: socket read", 1000, 1000),
        slice("worker states", "state", "running", 2000, 100),
        slice("loop", "handler", "GET /async", 1500, 600),
    ];
    out.sort();
    out
}

#[test]
fn perfetto_has_every_slice_on_a_track_on_which_it_nests() {
    let bytes = export(&capture(true), Format::Perfetto, Value::Wall);
    let trace = Trace::decode(&*bytes).expect("a trace");
    let mut tracks: HashMap<u64, TrackDescriptor> = HashMap::new();
    let mut open: HashMap<u64, Vec<(String, String, u64)>> = HashMap::new();
    let mut last: HashMap<u64, u64> = HashMap::new();
    let mut seen: Vec<Seen> = Vec::new();
    for packet in &trace.packet {
        assert_eq!(packet.trusted_packet_sequence_id, Some(1));
        if let Some(track) = &packet.track_descriptor {
            let parent = track.parent_uuid;
            assert!(
                parent.is_none_or(|uuid| tracks.contains_key(&uuid)),
                "a parent comes before its child"
            );
            assert!(tracks.insert(track.uuid(), track.clone()).is_none(), "a track comes once");
        }
        let Some(event) = &packet.track_event else { continue };
        let (uuid, t_ns) = (event.track_uuid(), packet.timestamp());
        let track = &tracks[&uuid];
        match event.r#type() {
            event_type::SLICE_BEGIN => {
                assert!(last.insert(uuid, t_ns).is_none_or(|before| before <= t_ns));
                let slice = (event.categories[0].clone(), event.name().to_owned(), t_ns);
                open.entry(uuid).or_default().push(slice);
            }
            event_type::SLICE_END => {
                assert!(last.insert(uuid, t_ns).is_none_or(|before| before <= t_ns));
                let (kind, name, begin) = open.entry(uuid).or_default().pop().expect("begun");
                let ms = |ns: u64| (ns as i64 - T0 as i64) / MS as i64;
                let thread = track.thread.as_ref().map(|t| t.thread_name());
                let at = thread.unwrap_or_else(|| track.name()).to_owned();
                seen.push((at, kind, name, ms(begin), (t_ns - begin) as i64 / MS as i64));
            }
            _ => (),
        }
    }
    assert!(open.values().all(Vec::is_empty), "every slice ends");
    seen.sort();
    assert_eq!(seen, wanted());
}

#[test]
fn perfetto_has_one_clock_marks_flows_counters_and_samples() {
    let bytes = export(&capture(true), Format::Perfetto, Value::Wall);
    let trace = Trace::decode(&*bytes).expect("a trace");
    let first = &trace.packet[0];
    let clocks = first.clock_snapshot.as_ref().expect("clocks first");
    let clocks: Vec<_> = clocks.clocks.iter().map(|c| (c.clock_id(), c.timestamp())).collect();
    assert_eq!(clocks, [(3, T0 - 1000 * MS), (1, 1_700_000_000_000 * MS)]);
    let defaults = first.trace_packet_defaults.as_ref().expect("defaults first");
    assert_eq!(defaults.timestamp_clock_id(), 3);
    let events =
        || trace.packet.iter().filter_map(|p| Some((p.timestamp(), p.track_event.as_ref()?)));
    let marks: Vec<_> = events().filter(|(_, e)| e.r#type() == event_type::INSTANT).collect();
    let names: Vec<_> = marks.iter().map(|(t, e)| (e.name(), (t - T0) / MS)).collect();
    assert_eq!(names, [("handed to helper \"<b>\"", 400), ("cache.miss", 500)]);
    let flows = |of: fn(&export::perfetto::proto::TrackEvent) -> &[u64]| -> Vec<u64> {
        events().flat_map(|(_, e)| of(e).to_vec()).collect()
    };
    assert_eq!((flows(|e| &e.flow_ids), flows(|e| &e.terminating_flow_ids)), (vec![1], vec![1]));
    let counters = events().filter(|(_, e)| e.r#type() == event_type::COUNTER);
    let values: Vec<f64> = counters.map(|(_, e)| e.double_counter_value()).collect();
    assert_eq!(values, [5e6, 7.0]);
    let descriptors = trace.packet.iter().filter_map(|p| p.track_descriptor.as_ref());
    let units: Vec<_> = descriptors.filter_map(|t| Some((t.name(), t.counter.as_ref()?))).collect();
    let units: Vec<_> = units.iter().map(|(name, c)| (*name, c.unit())).collect();
    assert_eq!(units, [("rss_bytes", 3), ("process_cpu_ns", 1)]);
    let samples: Vec<_> = trace.packet.iter().filter_map(|p| p.perf_sample).collect();
    assert_eq!(samples.len(), 103);
    assert!(samples.iter().all(|s| (s.pid(), s.tid()) == (4711, WORKER)));
    assert_eq!(samples.last().map(|s| s.timebase_count()), Some(1990 * MS));
    stacks_are_named_before_they_are_used(&trace);
}

fn stacks_are_named_before_they_are_used(trace: &Trace) {
    let (mut functions, mut files, mut mappings) = (HashMap::new(), HashMap::new(), vec![]);
    let (mut frames, mut stacks) = (HashMap::new(), HashMap::new());
    let text = |s: &export::perfetto::proto::InternedString| {
        String::from_utf8(s.str().to_vec()).expect("UTF-8")
    };
    for packet in &trace.packet {
        if let Some(data) = &packet.interned_data {
            functions.extend(data.function_names.iter().map(|s| (s.iid(), text(s))));
            files.extend(data.source_paths.iter().map(|s| (s.iid(), text(s))));
            mappings.extend(data.mappings.iter().map(|m| m.iid()));
            for frame in &data.frames {
                assert!(mappings.contains(&frame.mapping_id()));
                let (function, file) =
                    (&functions[&frame.function_name_id()], &files[&frame.source_path_iid()]);
                frames.insert(frame.iid(), format!("{function} {file}:{}", frame.line_number()));
            }
            for stack in &data.callstacks {
                let names: Vec<String> =
                    stack.frame_ids.iter().map(|iid| frames[iid].clone()).collect();
                stacks.insert(stack.iid(), names.join(" > "));
            }
        }
        if let Some(sample) = &packet.perf_sample {
            assert!(stacks.contains_key(&sample.callstack_iid()));
        }
    }
    let root = "main /usr/lib/python3/threading.py:100";
    assert_eq!(stacks[&2], format!("{root} > busy.<locals>.inner /srv/app.py:5"));
    assert_eq!(stacks[&3], format!("{root} > nap /srv/app.py:9"));
}

#[test]
fn chrome_has_every_slice_and_its_pairs_match() {
    let file: Json =
        serde_json::from_str(&text(&capture(true), Format::Chrome, Value::Wall)).expect("JSON");
    let events = file["traceEvents"].as_array().expect("events");
    let word = |e: &Json, key: &str| e[key].as_str().unwrap_or_default().to_owned();
    let names: HashMap<u64, String> = events
        .iter()
        .filter(|e| e["name"] == "thread_name")
        .map(|e| (e["tid"].as_u64().expect("an id"), word(&e["args"], "name")))
        .collect();
    // The window begins a second after the recording.
    let ms = |value: &Json| (value.as_f64().expect("a number") / 1e3).round() as i64;
    let mut seen: Vec<Seen> = Vec::new();
    let mut open: HashMap<String, Vec<&Json>> = HashMap::new();
    for event in events {
        match event["ph"].as_str() {
            Some("X") => {
                let at = names[&event["tid"].as_u64().expect("an id")].clone();
                let (begin, length) = (ms(&event["ts"]) - 1000, ms(&event["dur"]));
                seen.push((at, word(event, "cat"), word(event, "name"), begin, length));
            }
            Some("b") => open.entry(word(event, "id")).or_default().push(event),
            Some("e") => {
                let begun = open.entry(word(event, "id")).or_default().pop().expect("begun");
                assert_eq!((&begun["name"], &begun["cat"]), (&event["name"], &event["cat"]));
                let (begin, end) = (ms(&begun["ts"]), ms(&event["ts"]));
                let kind = word(&begun["args"], "kind");
                seen.push((
                    word(begun, "cat"),
                    kind,
                    word(begun, "name"),
                    begin - 1000,
                    end - begin,
                ));
            }
            _ => (),
        }
    }
    assert!(open.values().all(Vec::is_empty), "every slice ends");
    seen.sort();
    assert_eq!(seen, wanted());
    let phases = |phase: &str| events.iter().filter(|e| e["ph"] == phase).count();
    assert_eq!(["i", "s", "f", "C"].map(phases), [2, 1, 1, 2]);
    let flow = |phase: &str| events.iter().find(|e| e["ph"] == phase).expect("a flow");
    assert_eq!(flow("s")["tid"], LOOP);
    assert_eq!(flow("f")["tid"], HELPER);
    assert_eq!(flow("s")["id"], flow("f")["id"]);
}

#[test]
fn a_waits_resource_is_shown_with_it() {
    let file: Json =
        serde_json::from_str(&text(&capture(true), Format::Chrome, Value::Wall)).expect("JSON");
    let events = file["traceEvents"].as_array().expect("events");
    let wait = events.iter().find(|e| e["name"] == "waiting: socket read").expect("a wait");
    assert_eq!(wait["args"]["target"], "tcp 10.0.0.1:5432");
    assert_eq!(wait["args"]["at"], "nap (/srv/app.py:9)");
    assert_eq!(wait["args"]["system call"], 230);
    let request = events.iter().find(|e| e["name"] == "GET /work").expect("a request");
    assert_eq!(request["args"]["trace_id"], "abc123");
    assert_eq!(request["args"][HOSTILE], -4);
    let lock = events.iter().find(|e| e["name"] == "awaits lock").expect("an await");
    assert_eq!(lock["args"]["holder task"], "0xdef");
    let miss = events.iter().find(|e| e["name"] == "cache.miss").expect("an event");
    assert_eq!(miss["args"][HOSTILE], "NaN");
}

#[test]
fn without_switch_records_states_are_marked_as_estimates() {
    let file: Json =
        serde_json::from_str(&text(&capture(false), Format::Chrome, Value::Wall)).expect("JSON");
    let events = file["traceEvents"].as_array().expect("events");
    assert!(events.iter().any(|e| e["cat"] == "state.estimated"));
    assert!(!events.iter().any(|e| e["cat"] == "state"));
}

#[test]
fn a_span_that_had_not_ended_says_so() {
    let mut made = capture(true);
    made.spans[0].open = true;
    let json: serde_json::Value =
        serde_json::from_str(&text(&made, Format::Chrome, Value::Wall)).expect("JSON");
    let events = json["traceEvents"].as_array().expect("events");
    let running =
        events.iter().filter(|e| e["args"]["still running"] == true && e["cat"] == "span");
    assert_eq!(running.count(), 1);
}
