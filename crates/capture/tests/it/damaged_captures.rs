//! Round trip; every truncation; flipped bytes: never a panic, and damage is always reported.
#![cfg(feature = "read")]

use capture::read::{Capture, ReadError};
use capture::source::{append, SourceLines};
use capture::write::CaptureWriter;
use format::block::{pack_pair, FIRST_NS, FIRST_SEQ, HEADER_WORDS, OWNER};
use format::record::{flag, header, Builder, Kind, Sample, Value};
use format::wait::{HolderSource, WaitKind};

const META: &str = r#"{"service":"billy","pid":7,"start_ns":1000,"to_ns":9000,
    "settings":{"slow":"500ms"},"sources":{"switches":"on"},"losses":{"dropped_no_block":3}}"#;

/// Names 0.. as the names area holds them.
fn names(texts: &[&str]) -> Vec<u64> {
    let mut bytes: Vec<u8> = Vec::new();
    for text in texts {
        bytes.extend((text.len() as u32).to_le_bytes());
        bytes.extend(text.as_bytes());
        bytes.resize(bytes.len().next_multiple_of(8), 0);
    }
    bytes.chunks(8).map(|b| u64::from_le_bytes(b.try_into().expect("8"))).collect()
}

fn block(owner: u32, first_seq: u64, records: &[&[u64]]) -> Vec<u64> {
    let mut words = vec![0; HEADER_WORDS];
    words[OWNER] = pack_pair(owner, owner);
    words[FIRST_SEQ] = first_seq;
    words[FIRST_NS] = 1500;
    records.iter().for_each(|r| words.extend_from_slice(r));
    words
}

fn sample() -> Sample {
    Sample {
        t_ns: 2500,
        tid: 11,
        stack: 2,
        flags: flag::TIMES,
        gil_holder: 0,
        wall_ns: 10,
        cpu_ns: 1,
        run_delay_ns: 0,
        wait: WaitKind::Sleep,
        holder_source: HolderSource::None,
        call: 230,
        lock_holder: 0,
        slices: 0,
        target: 0,
        timeout_ns: 5,
        task: 0,
        lock: 0,
    }
}

fn whole() -> Vec<u8> {
    let mut event = Builder::<120>::new(Kind::Event, 0, 1, &[2100, 64]);
    event.attribute(2, Value::Text("k1"));
    let first = block(
        11,
        0,
        &[
            &[header(Kind::RequestBegin, 4, 0, 1), 2000, 64, 2000],
            event.finish().0,
            &[header(Kind::RequestEnd, 4, 0, 3), 2000, 4000, 64],
        ],
    );
    let second = block(
        99,
        40,
        &[
            &sample().encode(),
            &[header(Kind::OffCpu, 3, 0, 11), 2200, 3800],
            &[header(Kind::OffCpu, 3, 0, 12), 3000, u64::MAX],
        ],
    );
    let mut writer = CaptureWriter::new(Vec::new(), META).expect("memory");
    let tables = [
        vec![pack_pair(11, 11), 2, 1500, 0, 2 * 5, 1, 0, 0],
        names(&["(refused)", "GET /", "worker", "GET /x"]),
        vec![pack_pair(1, 2), 10, pack_pair(3, 2), 20],
        vec![pack_pair(0, 1), 12, pack_pair(1, 2), 25],
    ];
    writer.tables(&tables).expect("memory");
    writer.block(&first).expect("memory");
    writer.block(&second).expect("memory");
    writer.finish(0).expect("memory")
}

#[test]
fn what_was_written_is_read_again() {
    let capture = Capture::parse(&whole()).expect("whole");
    assert_eq!(capture.damage, Vec::<String>::new());
    assert_eq!((capture.meta.service.as_str(), capture.meta.pid), ("billy", 7));
    let request = &capture.requests[0];
    assert_eq!((capture.name(request.name), request.tid), ("GET /x", 11));
    assert_eq!((request.begin_ns, request.end_ns), (2000, Some(4000)));
    assert_eq!(capture.events[0].attributes.len(), 1);
    assert_eq!(capture.samples[&11], [sample()]);
    let frames: Vec<String> =
        capture.frames(2).map(|f| format!("{}:{} {}", f.file, f.line, f.function)).collect();
    assert_eq!(frames, ["worker:25 GET /x", "worker:12 GET /"]);
    assert_eq!(capture.off_cpu[&12][0].in_ns, 9000, "still out: until the capture's end");
    assert_eq!(capture.thread_name(11), Some("worker"));
}

#[test]
fn missing_records_of_each_thread_are_counted() {
    let capture = Capture::parse(&whole()).expect("whole");
    let rows: Vec<_> = capture
        .coverage
        .iter()
        .map(|c| (c.tid, c.read, c.missing_before, c.missing_between, c.missing_after, c.dropped))
        .collect();
    assert_eq!(rows, [(11, 3, 0, 0, 2, 1), (99, 3, 40, 0, 0, 0)]);
    assert_eq!(capture.common_horizon_ns(), 1500, "thread 99 is complete from its first block on");
}

#[test]
fn a_capture_of_another_version_is_called_one() {
    let mut bytes = whole();
    bytes[8] = b'7';
    let error = Capture::parse(&bytes).expect_err("format 7").to_string();
    assert!(error.contains("format 7, this dashcam reads format 2"), "{error}");
}

#[test]
fn a_file_cut_at_any_byte_reads_or_says_why_not() {
    let bytes = whole();
    for end in 0..bytes.len() {
        match Capture::parse(&bytes[..end]) {
            Ok(capture) => assert!(!capture.damage.is_empty(), "cut at {end} without a word"),
            Err(ReadError::NotACapture(_) | ReadError::NothingLeft(_)) => (),
            Err(other) => panic!("cut at {end}: {other}"),
        }
    }
    // The last chunk before the end mark is whole: only the mark is missing.
    let capture = Capture::parse(&bytes[..bytes.len() - 1]).expect("tables and blocks are there");
    assert_eq!(capture.requests.len(), 1);
}

#[test]
fn lines_of_source_behind_the_end_are_read_if_they_are_whole_and_never_damage() {
    let path = std::env::temp_dir().join(format!("dashcam-source-{}.dashcam", std::process::id()));
    std::fs::write(&path, whole()).expect("written");
    let saved = std::fs::metadata(&path).and_then(|m| m.modified()).expect("a time");
    let place = SourceLines {
        file: "/srv/app.py".to_owned(),
        line: 2,
        first: 1,
        lines: vec!["def view():".to_owned(), "    time.sleep(1)".to_owned()],
        changed: false,
    };
    append(&path, std::slice::from_ref(&place)).expect("appended");
    assert_eq!(std::fs::metadata(&path).and_then(|m| m.modified()).expect("a time"), saved);
    let bytes = std::fs::read(&path).expect("there");
    std::fs::remove_file(&path).expect("removed");
    assert_eq!(bytes[..whole().len()], whole(), "the recorder's bytes stay");
    for end in whole().len()..=bytes.len() {
        let capture = Capture::parse(&bytes[..end]).expect("the recorder's part is whole");
        assert_eq!(capture.damage, Vec::<String>::new(), "cut at {end}");
        let found = capture.source_of("/srv/app.py", 2);
        assert_eq!(found, (end == bytes.len()).then_some(&place), "cut at {end}");
    }
    for at in whole().len()..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x41;
        let capture = Capture::parse(&bad).expect("the recorder's part is whole");
        assert!(capture.source.is_empty() && capture.damage.is_empty(), "byte {at} flipped");
    }
}

#[test]
fn a_flipped_byte_costs_its_chunk_and_is_reported() {
    let bytes = whole();
    for at in format::chunk::MAGIC.len()..bytes.len() {
        let mut bad = bytes.clone();
        bad[at] ^= 0x41;
        if let Ok(capture) = Capture::parse(&bad) {
            assert!(!capture.damage.is_empty(), "byte {at} flipped without a word");
        }
    }
}

#[test]
fn other_files_are_refused_with_their_first_bytes() {
    let text = |bytes: &[u8]| Capture::parse(bytes).expect_err("no capture").to_string();
    assert!(text(b"").contains("the file is empty"));
    assert!(text(b"\x7fELF and more").contains("wanted \"DASHCAM 2\""));
}
