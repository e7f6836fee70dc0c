//! A capture in bytes, as the recorder writes it: with other names for functions and files, or with
//! one record in a hundred lost, whichever these are, the verdict is the same.

use crate::changed;

use capture::read::Capture;
use capture::write::CaptureWriter;
use diagnosis::{diagnose, Diagnosis};
use format::block::{pack_pair, FIRST_SEQ, HEADER_WORDS, OWNER};
use format::record::{header, Kind, Sample};
use format::wait::{HolderSource, WaitKind};

const MS: u64 = 1_000_000;
const NAMES: [&str; 6] = ["GET /", "view", "take", "hold", "/srv/app.py", "/srv/job.py"];
const META: &str = r#"{"service":"shop","start_ns":0,"from_ns":0,"to_ns":61000000000,"books":{},
    "open_told":true,"settings":{"slow":"300ms"},"sources":{"switches":"on"},"losses":{}}"#;
/// The thread that keeps the lock.
const HOLDER: u32 = 9;
/// Stacks: 1 view, 2 take called by it, 3 hold.
const TAKES: u32 = 2;
const HOLDS: u32 = 3;

fn sample(tid: u32, t_ns: u64, wait: WaitKind, stack: u32, holder: u32) -> Vec<u64> {
    let how = if holder == 0 { HolderSource::None } else { HolderSource::WithBlock };
    let row = Sample {
        t_ns,
        tid,
        stack,
        flags: 0,
        gil_holder: 0,
        wall_ns: 40 * MS,
        cpu_ns: 0,
        run_delay_ns: 0,
        wait,
        holder_source: how,
        call: 202,
        lock_holder: holder,
        slices: 0,
        target: 0x5000,
        timeout_ns: 0,
        task: 0,
        lock: 0,
    };
    row.encode().to_vec()
}

fn off(tid: u32, out_ns: u64, in_ns: u64) -> Vec<u64> {
    vec![header(Kind::OffCpu, 3, 0, tid), out_ns, in_ns]
}

/// Requests of 4 threads, a hundred milliseconds apart; every 20th waits 500 ms for a lock that
/// the holder keeps while it sleeps.
fn records() -> Vec<(u32, Vec<Vec<u64>>)> {
    let mut blocks: Vec<(u32, Vec<Vec<u64>>)> = Vec::new();
    let mut sampled = Vec::new();
    for tid in 1..=4u32 {
        let mut own = Vec::new();
        for i in 0..100u64 {
            let begin = 1000 * MS + i * 600 * MS + u64::from(tid) * 7 * MS;
            let slow = i % 20 == 10;
            let end = begin + if slow { 500 * MS } else { 2 * MS };
            let id = (i + 1) << 16 | u64::from(tid) << 12;
            own.push(vec![header(Kind::RequestBegin, 4, 0, 0), begin, id, begin]);
            own.push(vec![header(Kind::RequestEnd, 4, 0, 0), begin, end, id]);
            if slow {
                sampled.push(off(tid, begin + MS, end - MS));
                for k in 1..10 {
                    let at = begin + k * 50 * MS;
                    sampled.push(sample(tid, at, WaitKind::Futex, TAKES, HOLDER));
                }
            }
            sampled.push(off(tid, end, begin + 599 * MS));
        }
        blocks.push((tid, own));
    }
    for i in 0..5u64 {
        let begin = 1000 * MS + (i * 20 + 10) * 600 * MS;
        sampled.push(off(HOLDER, begin, begin + 520 * MS));
        for k in 0..10 {
            sampled.push(sample(HOLDER, begin + k * 50 * MS + MS, WaitKind::Sleep, HOLDS, 0));
        }
    }
    blocks.push((99, sampled));
    blocks
}

fn bytes() -> Vec<u8> {
    let mut text: Vec<u8> = Vec::new();
    for name in NAMES {
        text.extend((name.len() as u32).to_le_bytes());
        text.extend(name.as_bytes());
        text.resize(text.len().next_multiple_of(8), 0);
    }
    let word = |b: &[u8]| u64::from_le_bytes(b.try_into().expect("8 bytes"));
    let names = text.chunks(8).map(word).collect();
    let code = |function, file| [pack_pair(function, file), 1];
    let codes = [code(1, 4), code(2, 4), code(3, 5)].concat();
    let stacks = [[pack_pair(0, 1), 12], [pack_pair(1, 2), 20], [pack_pair(0, 3), 30]].concat();
    let mut writer = CaptureWriter::new(Vec::new(), META).expect("memory");
    writer.tables(&[Vec::new(), names, codes, stacks]).expect("memory");
    for (owner, records) in records() {
        for (part, few) in records.chunks(80).enumerate() {
            let mut words = vec![0; HEADER_WORDS];
            words[OWNER] = pack_pair(owner, owner);
            words[FIRST_SEQ] = part as u64 * 80;
            few.iter().for_each(|r| words.extend(r));
            writer.block(&words).expect("memory");
        }
    }
    writer.finish(0).expect("memory")
}

/// Cause, function and culprit of the first finding.
fn reported(verdict: &Diagnosis<'_>) -> [String; 3] {
    let first = verdict.findings.first().expect("a finding");
    let name = |place: &Option<diagnosis::Place>| {
        place.as_ref().map_or("-".to_owned(), |p| p.function.clone())
    };
    [first.cause.text().to_owned(), name(&first.place), name(&first.culprit)]
}

#[test]
fn lost_records_change_no_verdict() {
    let whole = bytes();
    let capture = Capture::parse(&whole).expect("whole");
    let verdict = diagnose(&capture, |_| 300 * MS);
    assert_eq!(reported(&verdict), ["lock-wait", "take", "hold"]);
    assert_eq!((verdict.slow, verdict.total, verdict.endless), (20, 400, 0));
    let mut lost_ends = 0;
    for seed in 0..60 {
        let thinned = changed::thin(&whole, 100, seed);
        assert!(thinned.len() < whole.len(), "seed {seed} lost nothing");
        let capture = Capture::parse(&thinned).expect("whole");
        let verdict = diagnose(&capture, |_| 300 * MS);
        assert_eq!(reported(&verdict), ["lock-wait", "take", "hold"], "seed {seed}");
        assert!(verdict.slow <= 20, "seed {seed}: {} slow", verdict.slow);
        lost_ends += verdict.endless;
    }
    assert!(lost_ends > 60, "the end of {lost_ends} requests was lost: too few to prove a thing");
}

#[test]
fn other_names_change_no_verdict() {
    let whole = bytes();
    let mut capture = Capture::parse(&whole).expect("whole");
    let names = changed::rename(&mut capture);
    assert_eq!(names.len(), 5, "three functions and two files: {names:?}");
    let verdict = diagnose(&capture, |_| 300 * MS);
    let wanted = ["lock-wait", names["take"].as_str(), names["hold"].as_str()];
    assert_eq!(reported(&verdict), wanted);
    let place = verdict.findings[0].place.as_ref().expect("a place");
    assert_eq!(place.file, names["/srv/app.py"]);
}

#[test]
fn a_request_without_an_end_is_slow_only_if_the_recorder_knew_it_was_running() {
    let mut capture = Capture::parse(&bytes()).expect("whole");
    let last = capture.requests.last_mut().expect("requests");
    (last.end_ns, last.begin_ns) = (None, 60_000 * MS);
    last.started_ns = last.begin_ns;
    let id = last.id;
    assert_eq!(diagnose(&capture, |_| 300 * MS).slow, 20, "its end was lost");
    capture.open_at_copy.insert(id);
    assert_eq!(diagnose(&capture, |_| 300 * MS).slow, 21, "it still ran");
}

#[test]
fn a_lost_switch_record_does_not_make_a_wait_computing() {
    let mut capture = Capture::parse(&bytes()).expect("whole");
    let long = |o: &capture::read::OffCpu| o.in_ns - o.out_ns > 490 * MS;
    for tid in 1..=4 {
        let rows = capture.off_cpu.get_mut(&tid).expect("rows");
        // Waits for the lock only: the times between requests are longer.
        rows.retain(|o| !(long(o) && o.in_ns - o.out_ns < 499 * MS));
    }
    let verdict = diagnose(&capture, |_| 300 * MS);
    assert_eq!(reported(&verdict), ["lock-wait", "take", "hold"]);
}
