//! Counts, sums and values of the tables equal those of the capture, for any capture.

use crate::common;

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use arrow_array::cast::AsArray;
use arrow_array::types::{Int64Type, TimestampMicrosecondType};
use arrow_array::{RecordBatch, RecordBatchReader};
use capture::read::{Capture, EventRow, LinkRow, OffCpu, Text, TraceRow};
use common::{capture, request, sample, span, MS, T0, WORKER};
use format::record::{flag, TARGET_IS_NAME};
use format::trace::{Link, Trace};
use format::wait::WaitKind;
use tables::{Reader, Source, BATCH_ROWS};

fn source(capture: Capture) -> Source {
    Source::new(capture, "/some/where/a.dashcam".to_owned(), Box::new(|_| 500 * MS))
}

fn batches(source: &Source, name: &str) -> Vec<RecordBatch> {
    let mut out = Vec::new();
    let table = tables::named(name).expect("a table");
    let mut keep = |batch| {
        out.push(batch);
        Ok(())
    };
    table.write(source, &mut keep).expect("rows");
    out
}

fn rows(source: &Source, name: &str) -> usize {
    batches(source, name).iter().map(RecordBatch::num_rows).sum()
}

/// A column of whole numbers; NULL is None.
fn ints(source: &Source, table: &str, column: &str) -> Vec<Option<i64>> {
    let mut out = Vec::new();
    for batch in batches(source, table) {
        let column = batch.column_by_name(column).expect("a column");
        out.extend(column.as_primitive::<Int64Type>().iter());
    }
    out
}

fn texts(source: &Source, table: &str, column: &str) -> Vec<Option<String>> {
    let mut out = Vec::new();
    for batch in batches(source, table) {
        let column = batch.column_by_name(column).expect("a column");
        out.extend(column.as_string::<i32>().iter().map(|t| t.map(str::to_owned)));
    }
    out
}

fn flags(source: &Source, table: &str, column: &str) -> Vec<bool> {
    let mut out = Vec::new();
    for batch in batches(source, table) {
        let column = batch.column_by_name(column).expect("a column");
        out.extend(column.as_boolean().iter().flatten());
    }
    out
}

#[test]
fn counts_are_those_of_the_summary() {
    for exact in [true, false] {
        let made = source(capture(exact));
        let summary = tables::summary::to_json(&made.capture, "");
        let counted = |name: &str| summary["counts"][name].as_u64().expect("a count") as usize;
        for (table, count) in [
            ("requests", "requests"),
            ("events", "events"),
            ("samples", "samples"),
            ("switches", "off_cpu"),
            ("awaits", "awaits"),
            ("gc", "gcs"),
            ("tasks", "tasks"),
            ("vitals", "vitals"),
        ] {
            assert_eq!(rows(&made, table), counted(count), "{table}");
        }
        assert_eq!(rows(&made, "spans"), counted("spans") + made.capture.own_spans.len());
        assert_eq!(rows(&made, "metrics"), made.capture.metrics.len());
        assert_eq!(rows(&made, "losses"), 2 + 2, "two counters, torn blocks, mended records");
        assert_eq!(rows(&made, "sources"), 1);
        assert_eq!(rows(&made, "capture"), 1);
        assert_eq!(texts(&made, "capture", "file"), [Some("a.dashcam".to_owned())]);
        let threads = ints(&made, "threads", "tid");
        assert_eq!(threads, [Some(7), Some(8), Some(9)]);
    }
}

#[test]
fn a_source_with_a_missing_part_is_on_and_names_it() {
    let mut made = capture(true);
    let states = ["on", "on; missing: steal (refused)", "off: turned off by settings"];
    made.meta.sources = ["stacks", "vitals", "switches"]
        .map(str::to_owned)
        .into_iter()
        .zip(states.map(str::to_owned))
        .collect();
    let made = source(made);
    let why =
        ["missing: steal (refused)", "turned off by settings"].map(|why| Some(why.to_owned()));
    assert_eq!(texts(&made, "sources", "why_off"), [None, why[0].clone(), why[1].clone()]);
    assert_eq!(flags(&made, "sources", "is_on"), [true, true, false]);
}

#[test]
fn a_requests_thread_accounts_for_all_of_its_time() {
    let made = source(capture(true));
    let column = |name: &str| ints(&made, "requests", name);
    let ids = column("request_id");
    let at = ids.iter().position(|id| *id == Some(64)).expect("the worker's request");
    let ms = |name: &str| column(name)[at].map(|ns| ns as u64 / MS);
    // 2 s: preempted for 10 ms of the first second, asleep in the other one.
    assert_eq!(ms("duration_ns"), Some(2000));
    assert_eq!([ms("run_ns"), ms("ready_ns"), ms("wait_ns")], [Some(990), Some(10), Some(1000)]);
    assert_eq!(ms("unknown_ns"), Some(0));
    let on_loop = ids.iter().position(|id| *id == Some(65)).expect("the loop's request");
    assert_eq!(column("run_ns")[on_loop], None);
    assert_eq!(column("end_ns")[ids.len() - 1], None, "the open one");
}

#[test]
fn segments_of_a_request_sum_to_its_duration() {
    for exact in [true, false] {
        let made = source(capture(exact));
        let mut sums: BTreeMap<i64, i64> = BTreeMap::new();
        let ids = ints(&made, "pieces", "request_id");
        for (id, ns) in ids.iter().zip(ints(&made, "pieces", "duration_ns")) {
            *sums.entry(id.expect("an id")).or_default() += ns.expect("a time");
        }
        let requests = ints(&made, "requests", "request_id");
        let took: BTreeMap<i64, i64> = requests
            .iter()
            .zip(ints(&made, "requests", "duration_ns"))
            .map(|(id, ns)| (id.expect("an id"), ns.expect("a time")))
            .collect();
        assert!(sums.contains_key(&64), "{sums:?}");
        for (id, sum) in sums {
            assert_eq!(Some(&sum), took.get(&id), "request {id}");
        }
    }
}

#[test]
fn states_follow_each_other_and_waits_are_their_waits() {
    for exact in [true, false] {
        let made = source(capture(exact));
        let tids = ints(&made, "states", "tid");
        let (begins, ends) = (ints(&made, "states", "begin_ns"), ints(&made, "states", "end_ns"));
        for i in 1..tids.len() {
            assert!(tids[i] != tids[i - 1] || begins[i] == ends[i - 1], "a gap at {i}");
        }
        let states = texts(&made, "states", "state");
        let waited: i64 = (0..states.len())
            .filter(|i| states[*i].as_deref() == Some("wait"))
            .map(|i| ends[i].expect("end") - begins[i].expect("begin"))
            .sum();
        let waits: i64 = ints(&made, "waits", "duration_ns").into_iter().flatten().sum();
        assert!(waits > 900 * MS as i64);
        assert_eq!(waits, waited, "exact {exact}");
        let targets = texts(&made, "waits", "target");
        assert!(targets.contains(&Some("tcp 10.0.0.1:5432".to_owned())), "{targets:?}");
        assert_eq!(texts(&made, "waits", "place")[0].as_deref(), Some("app.py:9 nap()"));
    }
}

#[test]
fn the_words_of_a_sample_come_back() {
    let mut made = Capture { names: vec![String::new(), "pipe".to_owned()], ..Capture::default() };
    made.names.push("refresh prices".to_owned());
    let mut lock = sample(7, 1, WaitKind::Futex, 0, 3, 2);
    (lock.target, lock.lock_holder, lock.gil_holder, lock.timeout_ns) = (0xabc0, 8, 9, 5);
    let mut named = sample(7, 2, WaitKind::PipeRead, 0, 1, 0);
    (named.target, named.flags) = (TARGET_IS_NAME | 1, flag::REUSED | flag::TRUNCATED);
    let mut ran = sample(7, 3, WaitKind::Running, 0, 1, 1);
    ran.flags |= flag::USAGE;
    (named.task, ran.task) = (2, 0);
    (ran.target, ran.timeout_ns) = (12 | 34 << 32, 56 | 78 << 32);
    made.samples.insert(7, vec![lock, named, ran]);
    let made = source(made);
    let int = |name: &str| ints(&made, "samples", name);
    assert_eq!(int("lock_address"), [Some(0xabc0), None, None]);
    assert_eq!(int("lock_holder_tid"), [Some(8), None, None]);
    assert_eq!(int("gil_holder_tid"), [Some(9), None, None]);
    assert_eq!(int("timeout_ns"), [Some(5), None, None]);
    assert_eq!(int("cpu_ns"), [Some(2 * MS as i64), None, Some(MS as i64)], "not measured: NULL");
    assert_eq!(int("faults"), [None, None, Some(12)]);
    assert_eq!(int("storage_kib"), [None, None, Some(34)]);
    assert_eq!([int("user_us")[2], int("system_us")[2]], [Some(56), Some(78)]);
    assert_eq!(texts(&made, "samples", "target")[1].as_deref(), Some("pipe"));
    let tasks = texts(&made, "samples", "running_task");
    assert_eq!(tasks, [None, Some("refresh prices".to_owned()), None]);
    let waits = texts(&made, "waits", "running_task");
    assert!(waits.contains(&tasks[1]) && waits.contains(&None), "{waits:?}");
    for (table, column) in [("samples", "is_reused"), ("samples", "is_truncated")] {
        let batch = &batches(&made, table)[0];
        let bools = batch.column_by_name(column).expect("a column").as_boolean().clone();
        assert_eq!((bools.value(0), bools.value(1)), (false, true), "{column}");
    }
}

#[test]
fn a_reader_gives_the_same_batches_and_may_be_dropped_at_any_time() {
    let mut made = capture(true);
    for i in 0..(3 * BATCH_ROWS as u64 + 5) {
        made.spans.push(span(2, WORKER, 64, i, i + 1));
    }
    let made = Arc::new(source(made));
    let table = tables::named("spans").expect("spans");
    let whole = batches(&made, "spans");
    assert!(whole.len() >= 4 && whole.iter().all(|b| b.num_rows() <= BATCH_ROWS));
    let reader = Reader::new(made.clone(), table);
    assert_eq!(reader.schema(), table.schema());
    let read: Vec<RecordBatch> = reader.map(|batch| batch.expect("a batch")).collect();
    assert_eq!(read, whole);
    drop(Reader::new(made.clone(), table));
    let mut begun = Reader::new(made.clone(), table);
    assert!(begun.next().expect("one").is_ok());
    drop(begun);
    let mut empty = Reader::new(Arc::new(source(Capture::default())), table);
    assert_eq!(empty.next().expect("one").expect("a batch").num_rows(), 0);
    assert!(empty.next().is_none() && empty.next().is_none());
}

#[test]
fn any_capture_gives_tables() {
    let mut word = 0x9e37_79b9_7f4a_7c15u64;
    let mut random = || {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        // Small, near the window, anywhere.
        match word >> 62 {
            0 => word % 20,
            1 => T0 + word % (3000 * MS),
            2 => u64::MAX - word % 5,
            _ => word,
        }
    };
    let everything = |made: Capture| {
        let made = source(made);
        for table in tables::all() {
            let rows = batches(&made, table.name);
            assert_eq!(rows[0].schema(), table.schema());
        }
    };
    everything(Capture::default());
    for round in 0..40 {
        let mut made = capture(round % 2 == 0);
        made.meta.to_ns = if round % 5 == 0 { random() } else { made.meta.to_ns };
        made.meta.start_epoch_ns = random();
        for _ in 0..20 {
            let tid = (random() % 12) as u32;
            let mut seen = sample(tid, 0, WaitKind::from_u8(random() as u8), random() as u32, 0, 0);
            (seen.t_ns, seen.wall_ns, seen.cpu_ns) = (random(), random(), random());
            (seen.run_delay_ns, seen.target, seen.timeout_ns) = (random(), random(), random());
            (seen.lock_holder, seen.gil_holder) = (random() as u32, random() as u32);
            seen.flags = random() as u16;
            made.samples.entry(tid).or_default().push(seen);
            let (out_ns, in_ns) = (random(), random());
            let off = OffCpu {
                out_ns,
                in_ns: in_ns.max(out_ns),
                preempted: random() % 2 == 0,
                cpu: None,
            };
            made.off_cpu.entry(tid).or_default().push(off);
            let mut row = request(random(), random() as u32, tid, 0, 0);
            (row.begin_ns, row.started_ns) = (random(), random());
            row.end_ns = (random() % 3 > 0).then(&mut random).map(|end| end.max(row.begin_ns));
            row.on_loop = random() % 2 == 0;
            made.requests.push(row);
            let mut inner = span(random() as u32, tid, random(), 0, 0);
            (inner.begin_ns, inner.end_ns) = (random(), random());
            made.spans.push(inner);
        }
        // As the capture's reader gives them: sorted, without overlap.
        for rows in made.samples.values_mut() {
            rows.sort_by_key(|s| s.t_ns);
        }
        for rows in made.off_cpu.values_mut() {
            rows.sort_by_key(|o| o.out_ns);
            for i in 1..rows.len() {
                rows[i - 1].in_ns = rows[i - 1].in_ns.min(rows[i].out_ns);
            }
        }
        everything(made);
    }
}

#[test]
fn instants_by_the_wall_clock_are_rounded_down_to_microseconds() {
    let mut made = capture(true);
    made.meta.start_epoch_ns = 1_700_000_000_000_001_999;
    made.meta.start_ns = T0;
    made.events[0].t_ns = T0;
    let next = EventRow { t_ns: T0 + 1, ..made.events[0].clone() };
    made.events.push(next);
    let made = source(made);
    let mut seen = Vec::new();
    for batch in batches(&made, "events") {
        let column = batch.column_by_name("t_utc").expect("a column");
        seen.extend(column.as_primitive::<TimestampMicrosecondType>().iter().flatten());
    }
    let exact: Vec<i64> = ints(&made, "events", "t_ns").into_iter().flatten().collect();
    let us = [1_700_000_000_000_001, 1_700_000_000_000_002];
    assert_eq!((exact, seen), (vec![T0 as i64, T0 as i64 + 1], us.to_vec()));
}

#[cfg(feature = "parquet")]
#[test]
fn the_same_capture_gives_the_same_parquet() {
    for table in tables::all() {
        let file = |source: &Source| {
            let mut out = Vec::new();
            tables::parquet::write(table, &mut out, |each| table.write(source, each))
                .expect("memory takes it");
            out
        };
        let bytes = file(&source(capture(true)));
        assert_eq!(bytes, file(&source(capture(true))), "{}", table.name);
        assert!(bytes.starts_with(b"PAR1") && bytes.ends_with(b"PAR1"), "{}", table.name);
    }
}

#[test]
fn identities_and_links_are_those_of_the_capture() {
    let mut made = capture(true);
    let to = Link { t_ns: T0, request: 64, span: 9, to_trace: 1 << 80, to_span: 7, remote: true };
    made.links.push(LinkRow { tid: WORKER, link: to, attributes: vec![(10, Text::Int(3))] });
    let record =
        Trace { t_ns: T0, request: 64, trace: 0xabc, parent: 5, remote: true, ..Trace::default() };
    made.traces.push(TraceRow { tid: WORKER, seq: 1, record, attributes: Vec::new() });
    let made = source(made);
    let all = made.capture.requests.len() + made.capture.spans.len();
    assert_eq!(rows(&made, "traces"), all);
    let at = ints(&made, "traces", "owner_id").iter().position(|id| *id == Some(64));
    let at = at.expect("the request that was given an id");
    let cell = |column| texts(&made, "traces", column)[at].clone();
    assert_eq!(cell("trace_id"), Some(format!("{:032x}", 0xabc)));
    assert_eq!(cell("parent_span_id"), Some(format!("{:016x}", 5)));
    let unique: BTreeSet<_> = texts(&made, "traces", "span_id").into_iter().collect();
    assert_eq!(unique.len(), all, "derived ids tell all apart");
    assert_eq!(texts(&made, "links", "linked_trace_id"), [Some(format!("{:032x}", 1u128 << 80))]);
    assert!(texts(&made, "attributes", "owner").contains(&Some("link".to_owned())));
}
